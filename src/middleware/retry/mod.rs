//! Calls a handler again that has failed and may succeed: at once, within the same delivery.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use consign::{Disposition, Message, middleware::retry::RetryLayer};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let retry = RetryLayer::new().immediate(2);
//! let calls = AtomicU32::new(0);
//! let stack = ServiceBuilder::new().layer(&retry).service(service_fn(|_: Message| async {
//!     match calls.fetch_add(1, Ordering::Relaxed) {
//!         0 | 1 => Err(BoxError::from("the database is away")),
//!         _ => Ok(Disposition::Complete),
//!     }
//! }));
//! assert_eq!(stack.oneshot(Message::new("body")).await?, Disposition::Complete);
//! assert_eq!(retry.counts().immediate(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # What is tried again
//!
//! What may pass: an answer of [`Disposition::Abandon`](crate::Disposition), which is what a
//! [`Transient`](crate::settlement::Transient) becomes, and any error but these:
//!
//! - an [`Undecodable`](crate::settlement::Undecodable), for no further attempt can read the body;
//! - a lost lock ([`LockLost`](super::lock_renewal::LockLost), [`LockExpired`](super::expiry::LockExpired)), for the message
//!   comes again by itself;
//! - what [`RetryLayer::retry_if`] says no to.
//!
//! Those are passed on, and so is every other answer: a [`Permanent`](crate::settlement::Permanent) is a dead letter.
//!
//! # Failure
//!
//! When no attempt is left the last failure is passed on as it is, which is to say that the message is abandoned. If the
//! service inside fails to become ready for a further attempt, that error is passed on.
//!
//! The lock of the message runs meanwhile. A call that is dropped makes no further attempt.
//!
//! # Order
//!
//! Inside of lock renewal and of expiry. Outside of timeout, which then is for one attempt, of catch panic, whose error is
//! one that may pass, and of the handler. What is inside has to be `Clone`; each attempt is made on an instance that was
//! made ready for it.

mod counts;
mod failure;
mod future;
mod layer;

pub use self::{
    counts::RetryCounts,
    future::ResponseFuture,
    layer::{Retry, RetryLayer},
};
