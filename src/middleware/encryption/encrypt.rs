use chacha20poly1305::{KeyInit, XChaCha20Poly1305, aead::AeadInOut};
use tower_layer::Layer;

use super::{NONCE, PURPOSE, TAG, VERSION, XCHACHA};
use crate::{
    Message,
    message::MessageBody,
    middleware::{
        Rewriter, Rewriting,
        keys::{Bound, Held, KeyProvider, Names},
        message_id::{MakeMessageId, RandomId},
    },
    transport::{ErrorKind, SendError},
};

/// A layer that encrypts bodies; see the [module](super).
#[derive(Clone, Debug)]
pub struct EncryptLayer {
    pub(crate) keys: Held,
    pub(crate) bound: Names,
}

impl EncryptLayer {
    /// The application property with the format version and the algorithm: `2:xchacha20poly1305`.
    pub const ALGORITHM: &'static str = "x-encryption";
    /// The application property with the id of the key.
    pub const KEY_ID: &'static str = "x-encryption-key";
    /// The application property that lists the properties that [`bind`](Self::bind) added.
    pub const BOUND: &'static str = "x-encryption-bound";

    /// Encrypts by the newest of `keys`.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Held::new(keys), bound: Names::default() }
    }

    /// Also authenticates the application property of this name, or its absence. It is not encrypted. Give it a name that
    /// no broker and no other layer changes, such as the property that names the type of a message.
    #[must_use]
    pub fn bind(mut self, property: impl Into<Box<str>>) -> Self {
        self.bound.add(property.into());
        self
    }
}

impl<S> Layer<S> for EncryptLayer {
    type Service = Encrypt<S>;

    fn layer(&self, inner: S) -> Encrypt<S> {
        Rewriting::new(inner, self.clone())
    }
}

/// Encrypts bodies; see the [module](super).
pub(super) type Encrypt<S> = Rewriting<S, EncryptLayer>;

impl Rewriter for EncryptLayer {
    fn rewrite(&self, mut message: Message) -> Result<Message, SendError> {
        let refused = |detail| SendError::new(ErrorKind::InvalidArgument).with_detail(detail);
        let MessageBody::Data(data) = message.body() else {
            return Err(refused("only a body of bytes can be encrypted"));
        };
        let properties = message.application_properties();
        if [Self::ALGORITHM, Self::KEY_ID].into_iter().any(|name| properties.get(name).is_some()) {
            return Err(refused("the message is already encrypted"));
        }
        let plain = data.joined().clone();
        let key = self.keys.newest().ok_or_else(|| refused("there is no key to encrypt by"))?;
        if message.message_id().is_none() {
            message.properties_mut().set_message_id(RandomId.make_message_id())?;
        }

        let mut body = vec![0; NONCE + plain.len() + TAG];
        let (nonce, sealed) = body.split_at_mut(NONCE);
        let (sealed, tag) = sealed.split_at_mut(plain.len());
        getrandom::fill(nonce).map_err(|error| SendError::new(ErrorKind::General).with_source(error))?;
        sealed.copy_from_slice(&plain);
        let nonce: &[u8; NONCE] = (&*nonce).try_into().expect("as long as that");
        self.bound.stamp(PURPOSE.list, message.properties_mut().application_properties_mut());
        let bound = Bound::new(&PURPOSE, key.id(), message.properties()).expect("the list was just written");
        let made = XChaCha20Poly1305::new(key.secret().into())
            .encrypt_inout_detached(nonce.into(), bound.as_bytes(), sealed.into())
            .map_err(|_| refused("the body is too large to be encrypted"))?;
        tag.copy_from_slice(&made);

        message = message.with_body(body);
        let properties = message.properties_mut().application_properties_mut();
        properties.insert(Self::ALGORITHM, format!("{VERSION}:{XCHACHA}"));
        properties.insert(Self::KEY_ID, key.id());
        Ok(message)
    }
}
