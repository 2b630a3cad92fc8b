use hmac::Mac;
use tower_layer::Layer;

use super::{
    DIGEST, SignLayer,
    error::{VerifyError, VerifyErrorKind as Kind},
    mac,
};
use crate::{
    Message,
    message::{Body, PropertyValue},
    middleware::{
        Reader, Reading,
        keys::{Held, KeyProvider},
    },
};

/// Makes [`Verify`] services.
#[derive(Clone, Debug)]
pub struct VerifyLayer {
    pub(crate) keys: Held,
    pub(crate) allow_unsigned: bool,
}

impl VerifyLayer {
    /// Verifies by that one of `keys` that a message names, and takes no message that is not signed.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Held::new(keys), allow_unsigned: false }
    }

    /// Passes on what says nothing of a signature. That is for the time in which producers change over: whoever can send
    /// can leave the signature out.
    #[must_use]
    pub fn allow_unsigned(mut self) -> Self {
        self.allow_unsigned = true;
        self
    }
}

impl<S> Layer<S> for VerifyLayer {
    type Service = Verify<S>;

    fn layer(&self, inner: S) -> Verify<S> {
        Reading::new(inner, self.clone())
    }
}

/// Verifies signatures; see the [module](super).
pub type Verify<S> = Reading<S, VerifyLayer>;

impl Reader for VerifyLayer {
    type Error = VerifyError;

    fn read(&self, message: Message) -> Result<Message, VerifyError> {
        let properties = message.application();
        let (signature, id) = (properties.get(SignLayer::SIGNATURE), properties.get(SignLayer::KEY_ID));
        if signature.is_none() && id.is_none() {
            return if self.allow_unsigned { Ok(message) } else { Err(VerifyError::new(Kind::NotSigned)) };
        }
        let id = id.and_then(PropertyValue::as_str).unwrap_or_default();
        let key = self.keys.named(id);
        let key = key.ok_or_else(|| VerifyError::new(Kind::UnknownKey).with_key(id))?;
        let refused = |kind| VerifyError::new(kind).with_key(key.id());

        let signature = signature.and_then(PropertyValue::as_str).and_then(unhex);
        let signature = signature.ok_or_else(|| refused(Kind::NoSignature))?;
        let Body::Data(data) = message.body() else { return Err(refused(Kind::NotBytes)) };
        let mac = mac(&key, message.properties(), data.joined());
        mac.verify_slice(&signature).map_err(|_| refused(Kind::NotAuthentic))?;

        let mut message = message;
        let properties = message.properties_mut().application_mut();
        properties.remove(SignLayer::SIGNATURE);
        properties.remove(SignLayer::KEY_ID);
        Ok(message)
    }
}

/// 64 digits in lower case, for one signature has one spelling.
fn unhex(text: &str) -> Option<[u8; DIGEST]> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    let mut bytes = [0; DIGEST];
    if text.len() != 2 * DIGEST || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (byte, &digits) in bytes.iter_mut().zip(digits) {
        *byte = u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}
