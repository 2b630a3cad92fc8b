use std::{
    fmt,
    task::{Context, Poll},
};

use tower_service::Service;

use super::{MakeMessageId, RandomId};
use crate::{
    middleware::SendFuture,
    transport::{SendError, SendRequest},
};

/// Stamps a `MessageId` on messages without one, and passes them on; see the [module](super).
#[derive(Clone, Copy)]
pub struct MessageId<S, M = RandomId> {
    pub(super) inner: S,
    pub(super) make: M,
}

impl<S: fmt::Debug, M> fmt::Debug for MessageId<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageId").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, M, R> Service<R> for MessageId<S, M>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
    M: MakeMessageId,
    R: SendRequest,
{
    type Response = ();
    type Error = SendError;
    type Future = SendFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        // Looked at first: a change copies a message that others share.
        if request.all_properties().all(|properties| properties.message_id().is_some()) {
            return SendFuture::sending(self.inner.call(request));
        }
        for properties in request.all_properties_mut().filter(|properties| properties.message_id().is_none()) {
            if let Err(error) = properties.set_message_id(self.make.make_message_id()) {
                return SendFuture::refused(error.into());
            }
        }
        SendFuture::sending(self.inner.call(request))
    }
}
