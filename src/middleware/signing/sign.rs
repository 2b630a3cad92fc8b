use data_encoding::HEXLOWER;
use hmac::Mac;
use tower_layer::Layer;

use super::{ALGORITHM, PURPOSE, VERSION, mac};
use crate::{
    Message,
    message::MessageBody,
    middleware::{
        Rewriter, Rewriting,
        keys::{Held, KeyProvider, Names},
        message_id::{MakeMessageId, RandomId},
    },
    transport::{ErrorKind, SendError},
};

/// A layer that signs messages; see the [module](super).
#[derive(Clone, Debug)]
pub struct SignLayer {
    pub(crate) keys: Held,
    pub(crate) bound: Names,
}

impl SignLayer {
    /// The application property that holds the signature: `2:hmac-sha256:` and 64 hexadecimal digits.
    pub const SIGNATURE: &'static str = "x-signature";
    /// The application property with the id of the key.
    pub const KEY_ID: &'static str = "x-signature-key";
    /// The application property that lists the properties that [`bind`](Self::bind) added.
    pub const BOUND: &'static str = "x-signature-bound";

    /// Signs by the newest of `keys`.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Held::new(keys), bound: Names::default() }
    }

    /// Also signs the application property of this name, or its absence. Give it a name that no broker and no other layer
    /// changes, such as the property that names the type of a message.
    #[must_use]
    pub fn bind(mut self, property: impl Into<Box<str>>) -> Self {
        self.bound.add(property.into());
        self
    }
}

impl<S> Layer<S> for SignLayer {
    type Service = Sign<S>;

    fn layer(&self, inner: S) -> Sign<S> {
        Rewriting::new(inner, self.clone())
    }
}

/// Signs messages; see the [module](super).
pub(super) type Sign<S> = Rewriting<S, SignLayer>;

impl Rewriter for SignLayer {
    fn rewrite(&self, mut message: Message) -> Result<Message, SendError> {
        let refused = |detail| SendError::new(ErrorKind::InvalidArgument).with_detail(detail);
        let MessageBody::Data(data) = message.body() else {
            return Err(refused("only a body of bytes can be signed"));
        };
        let properties = message.application_properties();
        if [Self::SIGNATURE, Self::KEY_ID].into_iter().any(|name| properties.get(name).is_some()) {
            return Err(refused("the message is already signed"));
        }
        let body = data.joined().clone();
        let key = self.keys.newest().ok_or_else(|| refused("there is no key to sign by"))?;
        if message.message_id().is_none() {
            message.properties_mut().set_message_id(RandomId.make_message_id())?;
        }

        self.bound.stamp(PURPOSE.list, message.properties_mut().application_properties_mut());
        let signature = mac(&key, message.properties(), &body).expect("the list was just written");
        let properties = message.properties_mut().application_properties_mut();
        let digits = HEXLOWER.encode(&signature.finalize().into_bytes());
        properties.insert(Self::SIGNATURE, format!("{VERSION}:{ALGORITHM}:{digits}"));
        properties.insert(Self::KEY_ID, key.id());
        Ok(message)
    }
}
