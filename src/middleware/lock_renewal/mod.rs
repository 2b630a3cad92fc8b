//! A layer that renews the lock of a message while it is handled, for your own receive loop.
//!
//! The renewals run in the task of the handler: nothing is spawned, and nothing outlives the call. A handler that ends at
//! its first poll needs no timer.
//!
//! ```
//! use std::time::Duration;
//! use consign::{
//!     Disposition, Message,
//!     middleware::{lock_renewal::LockRenewalLayer, renewal::Renewal},
//!     transport::SettleError,
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! // Asks the client that has received the message to renew its lock.
//! let renew = |message: &Message| {
//!     let _number = message.received().map(|received| received.sequence_number);
//!     async { Ok::<_, SettleError>(()) }
//! };
//! let stack = ServiceBuilder::new()
//!     .layer(LockRenewalLayer::new(renew, Renewal::new(Duration::from_secs(60))))
//!     .service(service_fn(|_: Message| async {
//!         tokio::time::sleep(Duration::from_secs(100)).await;
//!         Ok::<_, BoxError>(Disposition::Complete)
//!     }));
//! assert_eq!(stack.oneshot(Message::new("body")).await?, Disposition::Complete);
//! # Ok(())
//! # }
//! ```
//!
//! # Failure
//!
//! When the lock is lost the call returns [`LockLost`], because the message can no longer be settled. The handler's future
//! is dropped at once: **a handler is cancelled by drop**, at its current `await`. Run work that must not be interrupted in
//! a task of its own.
//!
//! The lock is lost when the renewal reports it
//! ([`SettleError::is_lock_lost`](crate::transport::SettleError::is_lock_lost)), or when it has run out without a
//! successful renewal. Any other failure of a renewal is repeated while the lock holds. Renewals and their repetitions end after
//! [`Renewal::total`](super::renewal::Renewal::total). That is not an error, and the handler continues.
//!
//! A message that was received without a lock is handled without renewals.
//!
//! # Order
//!
//! Outside of every layer that takes time, and inside of timeout, because a call that timed out needs no lock. A
//! [`Consumer`](crate::consumer::Consumer) does not need this layer, because it renews locks itself.
//!
//! # Cost
//!
//! The layer keeps a clone of the message. A handler that ends at its first poll has no timer and no renewal; otherwise a
//! timer is set, in the future of the call. Nothing is allocated. The table *Layers* of `docs/benchmarks.md` has the
//! figures.

mod renew;
mod renewer;
mod service;

pub use self::{
    renew::{LockLost, Renew},
    service::LockRenewalLayer,
};
