use std::{
    fmt, mem,
    task::{Context, Poll},
};

use tower_service::Service;

use super::{ResponseFuture, layer::Policy};
use crate::transport::{SendError, SendRequest};

/// Repeats sends; see the [module](super).
#[derive(Clone)]
pub struct SendRetry<S> {
    inner: S,
    policy: Policy,
}

impl<S> SendRetry<S> {
    pub(super) fn new(inner: S, policy: Policy) -> Self {
        Self { inner, policy }
    }
}

impl<S, R> Service<R> for SendRetry<S>
where
    S: Service<R, Response = ()> + Clone,
    S::Error: Into<SendError>,
    R: SendRequest + Clone,
{
    type Response = ();
    type Error = SendError;
    type Future = ResponseFuture<S, R>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The instance that is ready sends, and its clone waits for the next call.
        let clone = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, clone);
        let send = ready.call(request.clone());
        ResponseFuture::new(send, ready, request, self.policy.clone())
    }
}

impl<S: fmt::Debug> fmt::Debug for SendRetry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendRetry").field("inner", &self.inner).finish_non_exhaustive()
    }
}
