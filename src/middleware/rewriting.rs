use std::task::{Context, Poll};

use tower_service::Service;

use super::SendFuture;
use crate::{
    Message,
    transport::{EncodedRequest, SendError},
};

/// The change that a sending layer makes to a message.
pub trait Rewriter {
    /// Returns whether the message is sent as it is. To say so takes less than to return it from [`rewrite`](Self::rewrite).
    #[inline]
    fn leaves(&self, message: &Message) -> bool {
        let _ = message;
        false
    }

    /// Returns what is sent instead. An error is answered, and nothing of the call is sent.
    fn rewrite(&self, message: Message) -> Result<Message, SendError>;
}

/// Sends messages as the layer `L` rewrites them: the service of those layers that change one message by itself.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Rewriting<S, L> {
    inner: S,
    layer: L,
}

impl<S, L> Rewriting<S, L> {
    pub(super) const fn new(inner: S, layer: L) -> Self {
        Self { inner, layer }
    }
}

impl<S, L, R> Service<R> for Rewriting<S, L>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
    L: Rewriter,
    R: EncodedRequest,
{
    type Response = ();
    type Error = SendError;
    type Future = SendFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        if request.items().iter().all(|message| self.layer.leaves(message)) {
            return SendFuture::sending(self.inner.call(request));
        }
        match request.try_map(|message| self.layer.rewrite(message)) {
            Ok(request) => SendFuture::sending(self.inner.call(request)),
            Err(error) => SendFuture::refused(error),
        }
    }
}
