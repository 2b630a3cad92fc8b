use std::fmt::Write;

use hmac::Mac;
use tower_layer::Layer;

use super::mac;
use crate::{
    Message,
    message::Body,
    middleware::{
        Rewriter, Rewriting,
        keys::{Held, KeyProvider},
        message_id::{MakeMessageId, RandomId},
    },
    transport::{ErrorKind, SendError},
};

/// Makes [`Sign`] services.
#[derive(Clone, Debug)]
pub struct SignLayer {
    pub(crate) keys: Held,
}

impl SignLayer {
    /// The application property that holds the signature.
    pub const SIGNATURE: &'static str = "x-signature";
    /// The application property that says by which key.
    pub const KEY_ID: &'static str = "x-signature-key";

    /// Signs by the newest of `keys`.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Held::new(keys) }
    }
}

impl<S> Layer<S> for SignLayer {
    type Service = Sign<S>;

    fn layer(&self, inner: S) -> Sign<S> {
        Rewriting::new(inner, self.clone())
    }
}

/// Signs messages; see the [module](super).
pub type Sign<S> = Rewriting<S, SignLayer>;

impl Rewriter for SignLayer {
    fn rewrite(&self, mut message: Message) -> Result<Message, SendError> {
        let refused = |detail| SendError::new(ErrorKind::InvalidArgument).with_detail(detail);
        let Body::Data(data) = message.body() else {
            return Err(refused("only a body of bytes can be signed"));
        };
        let body = data.joined().clone();
        let key = self.keys.newest().ok_or_else(|| refused("there is no key to sign by"))?;
        if message.message_id().is_none() {
            message.properties_mut().set_message_id(RandomId.make_message_id())?;
        }

        let signature = mac(&key, message.properties(), &body).finalize().into_bytes();
        let properties = message.properties_mut().application_mut();
        properties.insert(Self::SIGNATURE, hex(&signature));
        properties.insert(Self::KEY_ID, key.id());
        Ok(message)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // To a string nothing fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
