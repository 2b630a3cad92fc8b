use data_encoding::HEXLOWER;
use hmac::Mac;
use tower_layer::Layer;

use super::{ALGORITHM, DIGEST, PURPOSE, SignLayer, VERSION, error::VerifyError, mac};
use crate::{
    Message, body,
    message::{MessageBody, PropertyValue},
    middleware::{
        Reader, Reading,
        keys::{Held, KeyProvider, Names},
    },
};

/// A layer that verifies signatures; see the [module](super).
#[derive(Clone, Debug)]
pub struct VerifyLayer {
    pub(crate) keys: Held,
    pub(crate) required: Names,
    pub(crate) allow_unsigned: bool,
}

impl VerifyLayer {
    /// Verifies by that one of `keys` that a message names, and takes no message that is not signed.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Held::new(keys), required: Names::default(), allow_unsigned: false }
    }

    /// Passes on messages without a signature. Use it only while producers change over: every sender can then leave the
    /// signature out.
    #[must_use]
    pub fn allow_unsigned(mut self) -> Self {
        self.allow_unsigned = true;
        self
    }

    /// Only takes messages whose signature covers the application property of this name, because their sender has
    /// [bound](SignLayer::bind) it. The property itself may be missing.
    #[must_use]
    pub fn require_bound(mut self, property: impl Into<Box<str>>) -> Self {
        self.required.add(property.into());
        self
    }

    /// Verifies one message outside of a receiving stack, for example the reply to a call. Returns the message without its
    /// signature.
    pub fn verify(&self, message: Message) -> Result<Message, VerifyError> {
        let properties = message.application_properties();
        let (signature, id) = (properties.get(SignLayer::SIGNATURE), properties.get(SignLayer::KEY_ID));
        if signature.is_none() && id.is_none() {
            return if self.allow_unsigned { Ok(message) } else { Err(VerifyError::NotSigned) };
        }
        let signature = signature.and_then(PropertyValue::as_str).unwrap_or_default();
        let (version, signature) = signature.split_once(':').unwrap_or_default();
        if version != VERSION {
            return Err(VerifyError::Version);
        }
        let Some((ALGORITHM, digits)) = signature.split_once(':') else {
            return Err(VerifyError::Algorithm);
        };
        let id = id.and_then(PropertyValue::as_str).unwrap_or_default();
        let key = self.keys.named(id);
        let key = key.ok_or_else(|| VerifyError::unknown_key(id))?;
        let not_authentic = || VerifyError::not_authentic(key.id());

        let signature = unhex(digits).ok_or(VerifyError::NoSignature)?;
        let body = body::bytes(message.body()).ok_or(VerifyError::NotBytes)?;
        let mac = mac(&key, message.properties(), &body).ok_or_else(not_authentic)?;
        mac.verify_slice(&signature).map_err(|_| not_authentic())?;
        if let Some(name) = PURPOSE.missing(self.required.as_slice(), message.properties()) {
            return Err(VerifyError::not_bound(name));
        }

        // The signature does not cover the kind of the body, by which a codec may be chosen.
        let is_data = matches!(message.body(), MessageBody::Data(_));
        let mut message = if is_data { message } else { message.with_body(body) };
        let properties = message.properties_mut().application_properties_mut();
        properties.remove(SignLayer::SIGNATURE);
        properties.remove(SignLayer::KEY_ID);
        properties.remove(SignLayer::BOUND);
        Ok(message)
    }
}

impl<S> Layer<S> for VerifyLayer {
    type Service = Verify<S>;

    fn layer(&self, inner: S) -> Verify<S> {
        Reading::new(inner, self.clone())
    }
}

/// Verifies signatures; see the [module](super).
pub(super) type Verify<S> = Reading<S, VerifyLayer>;

impl Reader for VerifyLayer {
    type Error = VerifyError;

    fn read(&self, message: Message) -> Result<Message, VerifyError> {
        self.verify(message)
    }
}

/// 64 digits in lower case, for one signature has one spelling.
fn unhex(text: &str) -> Option<[u8; DIGEST]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}
