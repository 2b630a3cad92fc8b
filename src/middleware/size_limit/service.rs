use std::task::{Context, Poll};

use tower_service::Service;

use crate::{
    middleware::SendFuture,
    transport::{EncodedRequest, ErrorKind, SendError},
};

/// Refuses messages larger than a limit; see the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct SizeLimit<S> {
    pub(super) inner: S,
    pub(super) limit: usize,
}

impl<S, R> Service<R> for SizeLimit<S>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
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
        // The messages of a batch are one transfer.
        let size = request.items().iter().fold(0_usize, |sum, message| sum.saturating_add(message.size()));
        if size > self.limit {
            return SendFuture::refused(too_large(size, self.limit));
        }
        SendFuture::sending(self.inner.call(request))
    }
}

#[cold]
fn too_large(size: usize, limit: usize) -> SendError {
    SendError::new(ErrorKind::MessageSizeExceeded).with_detail(format!("{size} bytes, the limit is {limit}"))
}
