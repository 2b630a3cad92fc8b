//! Renews the lock of a message while it is handled, for stacks whose loop is the user's own.
//!
//! The renewals run beside the handler in its own task: nothing is spawned, and nothing outlives the call. No timer is
//! made for a handler that is done at its first poll.
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
//! When the lock is lost the call answers [`LockLost`], for whatever the handler would say of the message can no longer
//! be carried out. The handler's future is dropped at once: **a handler is cancelled by drop**, at whichever `await` it
//! stands, so what has to be whole belongs in a task of its own.
//!
//! The lock is lost when the renewal reports it
//! ([`SettleError::is_lock_lost`](crate::transport::SettleError::is_lock_lost)), or when it has run out and no renewal
//! has succeeded. Any other failure of a renewal is repeated while the lock holds. After
//! [`Renewal::total`](super::renewal::Renewal::total) no more renewals are made; that is no error, and the handler runs
//! on.
//!
//! A message that was received without a lock is handled without renewals.
//!
//! # Order
//!
//! Outside of everything that takes time, and inside of timeout: a call that is cut off needs no lock. With the
//! library's own driver this layer is not needed, for the driver renews.
//!
//! # Cost
//!
//! A clone of the message is kept beside the handler. A handler that is done at its first poll has no timer and no
//! renewal; for one that is not, a timer is set, in the future of the call. Nothing is allocated. Counted in the table
//! *Layers* of `docs/benchmarks.md`.

mod keeper;
mod service;

pub use self::service::{LockLost, LockRenewal, LockRenewalLayer, Renew, ResponseFuture};
