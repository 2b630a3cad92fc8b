use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tower::util::Oneshot;
use tower_service::Service;

use crate::transport::{ErrorKind, SendError};

pin_project! {
    /// The future of a send: waits for a permit, then for readiness, then for the answer.
    #[must_use = "a send does nothing until it is awaited"]
    pub struct ResponseFuture<S: Service<R>, R> {
        // Dropped after the send, so that nothing is under way without a permit.
        #[pin]
        pub(super) send: Oneshot<S, R>,
        pub(super) permit: Permit,
    }
}

pub(super) enum Permit {
    Wanted(Arc<Semaphore>),
    /// Only a send that has to wait pays for the allocation.
    Waiting(Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>),
    Held(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit),
    Returned,
}

impl Permit {
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        loop {
            *self = match self {
                Self::Held(_) => return Poll::Ready(Ok(())),
                Self::Wanted(slots) => match Arc::clone(slots).try_acquire_owned() {
                    Ok(permit) => Self::Held(permit),
                    Err(_) => Self::Waiting(Box::pin(Arc::clone(slots).acquire_owned())),
                },
                Self::Waiting(acquire) => match ready!(acquire.as_mut().poll(cx)) {
                    Ok(permit) => Self::Held(permit),
                    Err(closed) => {
                        return Poll::Ready(Err(SendError::new(ErrorKind::General).with_source(closed)));
                    }
                },
                Self::Returned => panic!("`ResponseFuture` polled after completion"),
            };
        }
    }
}

impl<S, R> Future for ResponseFuture<S, R>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
{
    type Output = Result<(), SendError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        ready!(this.permit.poll_held(cx))?;
        let result = ready!(this.send.poll(cx));
        *this.permit = Permit::Returned;
        Poll::Ready(result.map_err(Into::into))
    }
}

impl<S: Service<R>, R> fmt::Debug for ResponseFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = !matches!(self.permit, Permit::Held(_) | Permit::Returned);
        f.debug_struct("ResponseFuture").field("waiting", &waiting).finish_non_exhaustive()
    }
}
