//! A layer that stops receiving while handlers fail, so that messages wait in their queue. One delivery in each pause tests
//! the handlers, and counts if it fails.
//!
//! The circuit is *closed* while handlers succeed. When a configured number of the latest calls have failed it is *open*:
//! no stack of the layer is ready, and a [`Consumer`](crate::consumer::Consumer) dispatches no message. After a pause it is
//! *half-open*: it admits one message, the probe. If the probe succeeds the circuit closes; if it fails the circuit stays
//! open for another pause.
//!
//! ```
//! use std::time::Duration;
//! use consign::{
//!     Disposition, Message,
//!     middleware::circuit_breaker::{CircuitBreakerLayer, CircuitState},
//! };
//! use tokio::time::Instant;
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let start = Instant::now();
//! let breaker = CircuitBreakerLayer::new(2, 10, Duration::from_secs(30));
//! // A database that is away for the first second.
//! let mut stack = ServiceBuilder::new().layer(&breaker).service(service_fn(|_: Message| async {
//!     if start.elapsed() < Duration::from_secs(1) { Err(BoxError::from("away")) } else { Ok(Disposition::Complete) }
//! }));
//! for _ in 0..2 {
//!     stack.ready().await?.call(Message::new("body")).await.unwrap_err();
//! }
//! assert_eq!(breaker.state(), CircuitState::Open);
//! stack.ready().await?.call(Message::new("body")).await?;
//! assert_eq!((breaker.state(), start.elapsed()), (CircuitState::Closed, Duration::from_secs(30)));
//! # Ok(())
//! # }
//! ```
//!
//! # Failures that count
//!
//! Transient failures count: those that [`retry`](super::retry) would try again, such as
//! [`Disposition::Abandon`](crate::Disposition) and most errors. Complete and defer are successes. A dead letter, a
//! permanent error and a dropped call are ignored, because they do not show the state of the handler's dependencies. A
//! probe with such a result is followed by another one, and so is one that completes without the handler: a duplicate, or
//! a request whose requester no longer waits. A panic is ignored too, unless
//! [`CatchPanicLayer`](super::catch_panic::CatchPanicLayer) is inside of this layer.
//!
//! The latest calls count whatever their age is. Calls and probes that began before the circuit opened and end later are
//! ignored.
//!
//! # Deliveries that count
//!
//! The layer returns the failure of a probe as any other, so the broker counts the delivery. On most transports an abandoned
//! message keeps its place: the next probe is the same message, until it is dead-lettered after `MaxDeliveryCount` failures.
//! So an outage dead-letters about one message in `MaxDeliveryCount` pauses. If a failed probe did not count, a message that
//! always fails would keep the circuit open without an end. Choose a pause so that `MaxDeliveryCount` pauses take longer
//! than an outage that you expect.
//!
//! # Failure
//!
//! The layer has no failure of its own, and returns every result. Messages that a consumer has received when the circuit
//! opens wait in its batch. At half of their lock they are released without a count, which every transport supports, and the
//! consumer receives others. So it holds at most as many messages as its slots and prefetch permit.
//!
//! # Order
//!
//! Inside of a [`retry`](super::retry) with delays, which turns a failure into a success once it has sent a copy, and outside of
//! timeout, whose error counts. Inside of retry, a further attempt within a delivery waits with its message while the circuit
//! is open: allow few immediate attempts, or put a retry without delays inside, whose last attempt counts.
//!
//! Outside of [`partition`](super::partition) and [`dedup`](super::dedup). They are always ready, so with the breaker inside of them
//! a consumer receives while the circuit is open, and its messages lose their locks, which counts deliveries. All clones and all stacks of one layer share one circuit. Becoming ready
//! reserves nothing, so an idle clone holds no probe; two consumers that become ready at the same time may each send a
//! probe.
//!
//! # Cost
//!
//! While the circuit is closed and the latest calls have succeeded, a call reads a flag and a number, and shares the
//! circuit. After a failure among the latest calls, each result is an atomic write. Only a circuit that opens or is open
//! takes a lock. Nothing is allocated while it is closed. The table *Layers* of `docs/benchmarks.md` has the figures.

mod gate;
mod probe;
mod service;

pub(crate) use self::probe::Probe;
pub use self::{
    gate::{CircuitCounts, CircuitState},
    service::CircuitBreakerLayer,
};
