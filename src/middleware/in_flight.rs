//! A layer that limits the number of sends in flight.
//!
//! A send is in flight from its first poll until the broker's answer. Memory is bounded by the limit times the maximum
//! message size. At the limit, further sends wait in the order of arrival until one in flight ends or is dropped.
//!
//! ```
//! use consign::{Message, middleware::in_flight::InFlightLayer, transport::SendError};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), SendError> {
//! let bound = InFlightLayer::new(10);
//! let seen = bound.clone();
//! let sender = ServiceBuilder::new().layer(&bound).service(service_fn(move |_: Message| {
//!     assert_eq!(seen.available(), 9);
//!     async { Ok::<_, SendError>(()) }
//! }));
//! sender.oneshot(Message::new("body")).await?;
//! assert_eq!(bound.available(), 10);
//! # Ok(())
//! # }
//! ```
//!
//! # Failure
//!
//! The layer has no failure of its own. Dropping the future releases the permit, and it is unknown whether the message was
//! sent. If the inner service fails to become ready, the call returns that error, and not `poll_ready`.
//!
//! # Order
//!
//! Innermost, directly outside of the transport, so that a permit is held only while a send is in flight. That is inside of
//! retry, whose pauses then hold no permit, and inside of timeout, which includes the wait. The service is always ready,
//! and the permit belongs to the call, so idle clones of a stack hold none. The inner stack is cloned for each call and
//! made ready there.
//!
//! # Cost
//!
//! Each send acquires a permit of a semaphore, releases it, and clones the inner stack. Only a send that waits for its
//! permit allocates. The table *Layers* of `docs/benchmarks.md` has the figures.

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
use tower_layer::Layer;
use tower_service::Service;

use crate::transport::{ErrorKind, SendError};

/// A layer that limits the sends in flight; see the [module](self). All services and clones of one layer share one bound;
/// the default is 100.
#[derive(Clone)]
pub struct InFlightLayer {
    slots: Arc<Semaphore>,
    limit: usize,
}

impl InFlightLayer {
    /// The bound of the [`Default`].
    pub const DEFAULT: usize = 100;

    /// At most `limit` sends under way; 0 counts as 1, for nothing could be sent.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self { slots: Arc::new(Semaphore::new(limit)), limit }
    }

    /// Returns how many sends can be under way.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how many sends can start without waiting.
    #[must_use]
    pub fn available(&self) -> usize {
        self.slots.available_permits()
    }
}

impl Default for InFlightLayer {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

impl<S> Layer<S> for InFlightLayer {
    type Service = InFlight<S>;

    fn layer(&self, inner: S) -> InFlight<S> {
        InFlight { inner, slots: Arc::clone(&self.slots) }
    }
}

impl fmt::Debug for InFlightLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightLayer").field("available", &self.available()).finish()
    }
}

/// Bounds how many sends are under way; see the [module](self).
#[derive(Clone)]
pub struct InFlight<S> {
    inner: S,
    slots: Arc<Semaphore>,
}

impl<S> InFlight<S> {
    /// Returns how many sends can start without waiting.
    #[must_use]
    pub fn available(&self) -> usize {
        self.slots.available_permits()
    }
}

impl<S: fmt::Debug> fmt::Debug for InFlight<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("inner", &self.inner).field("slots", &self.slots).finish()
    }
}

impl<S, R> Service<R> for InFlight<S>
where
    S: Service<R, Response = ()> + Clone,
    S::Error: Into<SendError>,
{
    type Response = ();
    type Error = SendError;
    type Future = ResponseFuture<S, R>;

    /// Always ready: readiness is reserved inside the call.
    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        #[cfg(sabotage)]
        if consign_core::sabotage::has("ReserveInReadiness")
            && let Ok(permit) = self.slots.try_acquire()
        {
            permit.forget();
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        // This instance was never made ready, nor is the clone: the future does that once it has its permit.
        ResponseFuture {
            permit: Permit::Wanted(Arc::clone(&self.slots)),
            send: Oneshot::new(self.inner.clone(), request),
        }
    }
}

pin_project! {
    /// The future of a send: waits for a permit, then for readiness, then for the answer.
    #[must_use = "a send does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct ResponseFuture<S: Service<R>, R> {
        // Dropped after the send, so that nothing is under way without a permit.
        #[pin]
        send: Oneshot<S, R>,
        permit: Permit,
    }
}

enum Permit {
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
