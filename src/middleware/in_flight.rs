//! A layer that limits the number of sends in flight.
//!
//! A send is in flight from its first poll until the broker's answer. The messages in flight take at most the limit times the
//! maximum message size. At the limit, further sends wait in the order of arrival until one in flight ends or is dropped.
//!
//! A send that waits holds its message too, and the layer does not limit their number. Bound it by your callers, or by
//! tower's `LoadShed` around its `ConcurrencyLimit`, outside of this layer.
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

mod service;

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::Semaphore;
use tower::util::Oneshot;
use tower_layer::Layer;
use tower_service::Service;

use self::service::{Permit, ResponseFuture};
use crate::transport::SendError;

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
