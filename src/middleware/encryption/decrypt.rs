use chacha20poly1305::{KeyInit, XChaCha20Poly1305, aead::AeadInOut};
use tower_layer::Layer;

use super::{
    EncryptLayer, NONCE, PURPOSE, TAG, XCHACHA,
    error::{DecryptError, DecryptErrorKind as Kind},
};
use crate::{
    Message,
    message::{Body, PropertyValue},
    middleware::{
        Reader, Reading,
        keys::{Bound, Held, KeyProvider},
    },
};

/// Makes [`Decrypt`] services.
#[derive(Clone, Debug)]
pub struct DecryptLayer {
    pub(crate) keys: Held,
    pub(crate) allow_plaintext: bool,
}

impl DecryptLayer {
    /// Decrypts by that one of `keys` that a message names, and takes no message that is not encrypted.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Held::new(keys), allow_plaintext: false }
    }

    /// Passes on what says nothing of encryption, as it is. That is for the time in which producers change over: whoever
    /// can send can leave the encryption out.
    #[must_use]
    pub fn allow_plaintext(mut self) -> Self {
        self.allow_plaintext = true;
        self
    }
}

impl<S> Layer<S> for DecryptLayer {
    type Service = Decrypt<S>;

    fn layer(&self, inner: S) -> Decrypt<S> {
        Reading::new(inner, self.clone())
    }
}

/// Decrypts bodies; see the [module](super).
pub type Decrypt<S> = Reading<S, DecryptLayer>;

impl Reader for DecryptLayer {
    type Error = DecryptError;

    fn read(&self, message: Message) -> Result<Message, DecryptError> {
        let properties = message.application();
        let algorithm = properties.get(EncryptLayer::ALGORITHM);
        let id = properties.get(EncryptLayer::KEY_ID);
        if algorithm.is_none() && id.is_none() {
            return if self.allow_plaintext { Ok(message) } else { Err(DecryptError::new(Kind::NotEncrypted)) };
        }
        if algorithm.and_then(PropertyValue::as_str) != Some(XCHACHA) {
            return Err(DecryptError::new(Kind::Algorithm));
        }
        let id = id.and_then(PropertyValue::as_str).unwrap_or_default();
        let key = self.keys.named(id);
        let key = key.ok_or_else(|| DecryptError::new(Kind::UnknownKey).with_key(id))?;
        let refused = |kind| DecryptError::new(kind).with_key(key.id());

        let Body::Data(data) = message.body() else { return Err(refused(Kind::NotBytes)) };
        let body = data.joined();
        let (nonce, rest) = body.split_first_chunk::<NONCE>().ok_or_else(|| refused(Kind::TooShort))?;
        let (sealed, tag) = rest.split_last_chunk::<TAG>().ok_or_else(|| refused(Kind::TooShort))?;
        let mut plain = sealed.to_vec();
        let bound = Bound::new(PURPOSE, key.id(), message.properties());
        XChaCha20Poly1305::new(key.secret().into())
            .decrypt_inout_detached(nonce.into(), bound.as_bytes(), plain.as_mut_slice().into(), tag.into())
            .map_err(|_| refused(Kind::NotAuthentic))?;

        let mut message = message.with_body(plain);
        let properties = message.properties_mut().application_mut();
        properties.remove(EncryptLayer::ALGORITHM);
        properties.remove(EncryptLayer::KEY_ID);
        Ok(message)
    }
}
