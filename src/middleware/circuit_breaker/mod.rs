//! Stops receiving while handlers fail, so that messages wait in their queue and do not use their deliveries up.
//!
//! The circuit is *closed* while handlers succeed. When so many of the latest calls have failed it is *open*: no stack
//! of the layer is ready, and a [`Consumer`](crate::consumer::Consumer) dispatches nothing. After a pause it is
//! *half-open*: one message is let through, the probe. If that is handled the circuit is closed, and if not it is open
//! for another pause.
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
//! # What counts
//!
//! A transient failure: what [`retry`](super::retry) would try again, so [`Disposition::Abandon`](crate::Disposition)
//! and most errors. Complete and defer are successes. A dead letter, a permanent error and a dropped call are left out,
//! for they do not show the state of what the handler depends on. A probe that ends so is followed by another.
//!
//! The share is that of the latest calls, however old they are. Calls that began before the circuit opened and end later
//! change nothing.
//!
//! # Failure
//!
//! It has no failure of its own, and passes every answer on. What a consumer has received when the circuit opens waits
//! in its batch. It is released, without a count, at half of its lock; then the consumer receives others. So it holds
//! no more than it has slots and prefetch for.
//!
//! # Order
//!
//! Inside of [`retry`](super::retry), which turns a failure into a success once it has sent a copy, and outside of
//! timeout, whose error counts. A further attempt within a delivery waits with its message while the circuit is open: use
//! it with later deliveries, or with few attempts. All clones and all stacks of one layer have one circuit. Readiness
//! reserves nothing, so that an idle clone holds no probe; two consumers that become ready in the same instant may make a
//! probe each.
//!
//! # Cost
//!
//! While the circuit is closed and the latest calls have succeeded, a flag and a number are read, and the circuit is
//! shared with the call. A failure among the latest calls makes each outcome an atomic write; only a circuit that opens
//! or is open takes a lock. Nothing is allocated while it is closed. Counted in the table *Layers* of
//! `docs/benchmarks.md`.

mod gate;
mod service;

pub use self::{
    gate::{CircuitCounts, CircuitState},
    service::{CircuitBreaker, CircuitBreakerLayer, ResponseFuture},
};
