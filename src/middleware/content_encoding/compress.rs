use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{Encoding, RATIO, encoding::is_compressed};
use crate::{
    Message,
    message::Body,
    middleware::{Rewrite, SendFuture},
    transport::SendError,
};

/// Makes [`Compress`] services.
#[derive(Clone, Copy, Debug)]
pub struct CompressLayer {
    encoding: Encoding,
    threshold: usize,
}

impl CompressLayer {
    /// Compresses by `encoding` what has at least 1,024 bytes.
    #[must_use]
    pub const fn new(encoding: Encoding) -> Self {
        Self { encoding, threshold: 1_024 }
    }

    /// Leaves bodies of fewer bytes as they are.
    #[must_use]
    pub const fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes;
        self
    }

    fn compress(self, mut message: Message) -> Message {
        let Body::Data(data) = message.body() else { return message };
        if message.body().size() < self.threshold {
            return message;
        }
        let is_encoded = message.pass_through().is_some_and(|rest| rest.content_encoding.is_some());
        let body = data.joined();
        if is_encoded || is_compressed(body) {
            return message;
        }
        // A receiver refuses what grows too much.
        let useful = body.len().div_ceil(RATIO)..body.len();
        let Some(compressed) = self.encoding.compress(body).filter(|compressed| useful.contains(&compressed.len()))
        else {
            return message;
        };
        message = message.with_body(compressed);
        message.properties_mut().pass_through_mut().content_encoding = Some(self.encoding.name().into());
        message
    }
}

impl<S> Layer<S> for CompressLayer {
    type Service = Compress<S>;

    fn layer(&self, inner: S) -> Compress<S> {
        Compress { inner, rules: *self }
    }
}

/// Compresses bodies; see the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct Compress<S> {
    inner: S,
    rules: CompressLayer,
}

impl<S, R> Service<R> for Compress<S>
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
        match request.try_each(&mut |message| Ok(self.rules.compress(message))) {
            Ok(request) => SendFuture::sending(self.inner.call(request)),
            Err(error) => SendFuture::refused(error),
        }
    }
}
