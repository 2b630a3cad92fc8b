use chacha20poly1305::{KeyInit, XChaCha20Poly1305, aead::AeadInOut};
use tower_layer::Layer;

use super::{EncryptLayer, NONCE, PURPOSE, TAG, VERSION, XCHACHA, error::DecryptError};
use crate::{
    Message,
    message::PropertyValue,
    middleware::{
        Reader, Reading,
        keys::{Bound, Held, KeyProvider, Names},
    },
};

/// A layer that decrypts bodies; see the [module](super).
#[derive(Clone, Debug)]
pub struct DecryptLayer {
    pub(crate) keys: Held,
    pub(crate) required: Names,
    pub(crate) allow_plaintext: bool,
}

impl DecryptLayer {
    /// Decrypts by that one of `keys` that a message names, and takes no message that is not encrypted.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Held::new(keys), required: Names::default(), allow_plaintext: false }
    }

    /// Passes on messages without encryption, unchanged. Use it only while producers change over: every sender can then
    /// leave the encryption out.
    #[must_use]
    pub fn allow_plaintext(mut self) -> Self {
        self.allow_plaintext = true;
        self
    }

    /// Only takes messages that authenticate the application property of this name, because their sender has
    /// [bound](EncryptLayer::bind) it. The property itself may be missing.
    #[must_use]
    pub fn require_bound(mut self, property: impl Into<Box<str>>) -> Self {
        self.required.add(property.into());
        self
    }

    /// Decrypts one message outside of a receiving stack, for example the reply to a call.
    pub fn decrypt(&self, message: Message) -> Result<Message, DecryptError> {
        let properties = message.application_properties();
        let algorithm = properties.get(EncryptLayer::ALGORITHM);
        let id = properties.get(EncryptLayer::KEY_ID);
        if algorithm.is_none() && id.is_none() {
            return if self.allow_plaintext { Ok(message) } else { Err(DecryptError::NotEncrypted) };
        }
        let algorithm = algorithm.and_then(PropertyValue::as_str).unwrap_or_default();
        match algorithm.split_once(':') {
            Some((VERSION, XCHACHA)) => {}
            Some((VERSION, _)) => return Err(DecryptError::Algorithm),
            _ => return Err(DecryptError::Version),
        }
        let id = id.and_then(PropertyValue::as_str).unwrap_or_default();
        let key = self.keys.named(id);
        let key = key.ok_or_else(|| DecryptError::unknown_key(id))?;
        let not_authentic = || DecryptError::not_authentic(key.id());

        let body = message.payload().ok_or(DecryptError::NotBytes)?;
        let (nonce, rest) = body.split_first_chunk::<NONCE>().ok_or(DecryptError::TooShort)?;
        let (sealed, tag) = rest.split_last_chunk::<TAG>().ok_or(DecryptError::TooShort)?;
        let mut plain = sealed.to_vec();
        let bound = Bound::new(&PURPOSE, key.id(), message.properties()).ok_or_else(not_authentic)?;
        XChaCha20Poly1305::new(key.secret().into())
            .decrypt_inout_detached(nonce.into(), bound.as_bytes(), plain.as_mut_slice().into(), tag.into())
            .map_err(|_| not_authentic())?;

        if let Some(name) = PURPOSE.missing(self.required.as_slice(), message.properties()) {
            return Err(DecryptError::not_bound(name));
        }

        let mut message = message.with_body(plain);
        let properties = message.properties_mut().application_properties_mut();
        properties.remove(EncryptLayer::ALGORITHM);
        properties.remove(EncryptLayer::KEY_ID);
        properties.remove(EncryptLayer::BOUND);
        Ok(message)
    }
}

impl<S> Layer<S> for DecryptLayer {
    type Service = Decrypt<S>;

    fn layer(&self, inner: S) -> Decrypt<S> {
        Reading::new(inner, self.clone())
    }
}

/// Decrypts bodies; see the [module](super).
pub(super) type Decrypt<S> = Reading<S, DecryptLayer>;

impl Reader for DecryptLayer {
    type Error = DecryptError;

    fn read(&self, message: Message) -> Result<Message, DecryptError> {
        self.decrypt(message)
    }
}
