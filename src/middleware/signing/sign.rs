use std::{
    fmt::{self, Write},
    sync::Arc,
    task::{Context, Poll},
};

use hmac::Mac;
use tower_layer::Layer;
use tower_service::Service;

use super::mac;
use crate::{
    Message,
    message::Body,
    middleware::{
        Rewrite, SendFuture,
        keys::KeyProvider,
        message_id::{MakeMessageId, RandomId},
    },
    transport::{ErrorKind, SendError},
};

/// Makes [`Sign`] services.
pub struct SignLayer {
    keys: Arc<dyn KeyProvider>,
}

impl SignLayer {
    /// The application property that holds the signature.
    pub const SIGNATURE: &'static str = "x-signature";
    /// The application property that says by which key.
    pub const KEY_ID: &'static str = "x-signature-key";

    /// Signs by the newest of `keys`.
    #[must_use]
    pub fn new(keys: impl KeyProvider) -> Self {
        Self { keys: Arc::new(keys) }
    }

    fn sign(&self, mut message: Message) -> Result<Message, SendError> {
        let refused = |detail| SendError::new(ErrorKind::InvalidArgument).with_detail(detail);
        let Body::Data(data) = message.body() else {
            return Err(refused("only a body of bytes can be signed"));
        };
        let body = data.joined().clone();
        let key = self.keys.key(None).ok_or_else(|| refused("there is no key to sign by"))?;
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

impl Clone for SignLayer {
    fn clone(&self) -> Self {
        Self { keys: Arc::clone(&self.keys) }
    }
}

impl fmt::Debug for SignLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignLayer").finish_non_exhaustive()
    }
}

impl<S> Layer<S> for SignLayer {
    type Service = Sign<S>;

    fn layer(&self, inner: S) -> Sign<S> {
        Sign { inner, rules: self.clone() }
    }
}

/// Signs messages; see the [module](super).
#[derive(Clone, Debug)]
pub struct Sign<S> {
    inner: S,
    rules: SignLayer,
}

impl<S, R> Service<R> for Sign<S>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
    R: Rewrite,
{
    type Response = ();
    type Error = SendError;
    type Future = SendFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        match request.try_each(&mut |message| self.rules.sign(message)) {
            Ok(request) => SendFuture::sending(self.inner.call(request)),
            Err(error) => SendFuture::refused(error),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // To a string nothing fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
