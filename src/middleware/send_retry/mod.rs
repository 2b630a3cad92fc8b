//! A layer that repeats a send that the broker refused for a while.
//!
//! [`retry`](super::retry) is the counterpart in a receiving stack.
//!
//! ```
//! use std::{
//!     sync::atomic::{AtomicU32, Ordering},
//!     time::Duration,
//! };
//! use consign::{
//!     Message,
//!     middleware::{retry::Backoff, send_retry::SendRetryLayer},
//!     transport::{ErrorKind, SendError, SendExt},
//! };
//! use tower::{ServiceBuilder, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), SendError> {
//! // A broker that is busy at first.
//! static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
//! let transport = service_fn(|_: Message| async {
//!     if ATTEMPTS.fetch_add(1, Ordering::Relaxed) < 2 { Err(SendError::new(ErrorKind::ServiceBusy)) } else { Ok(()) }
//! });
//! let mut sender = ServiceBuilder::new()
//!     .layer(SendRetryLayer::new(Backoff::exponential(Duration::from_millis(100))).attempts(5))
//!     .service(transport);
//! sender.send(Message::new("an order")).await?;
//! assert_eq!(ATTEMPTS.load(Ordering::Relaxed), 3);
//! # Ok(())
//! # }
//! ```
//!
//! # What is repeated
//!
//! | error | examples | repeated |
//! |---|---|---|
//! | [retryable](SendError::is_retryable), and the outcome is known: the message was not stored | `ServiceBusy`, `Throttled` | yes |
//! | retryable, and the [outcome is unknown](SendError::is_outcome_unknown): the message may have been stored | `ServiceTimeout`, `CommunicationProblem`, `General` | only with [`repeat_unknown_outcome`](SendRetryLayer::repeat_unknown_outcome), and only messages that have a MessageId |
//! | any other | `EntityNotFound`, `MessageSizeExceeded` | no |
//!
//! A repeated send of unknown outcome may store the message twice. The two have one MessageId, so duplicate detection drops the
//! second one: that of the broker, or [`dedup`](super::dedup) at the consumer. The delays are those of
//! [`Backoff`], from [`retry`](super::retry).
//!
//! # Failure
//!
//! After the last attempt, and for an error that is not repeated, the call returns the error of the last attempt unchanged. A
//! batch is repeated as a whole. Dropping the call ends the attempts.
//!
//! # Order
//!
//! | layer | position | otherwise |
//! |---|---|---|
//! | [`trace`](super::trace) | outside | each attempt has a span, and no span has the result |
//! | [`message_id`](super::message_id) | outside | each attempt is a new message |
//! | timeout | outside for the whole call; inside for each attempt, which then ends as `ServiceTimeout` with an unknown outcome | |
//! | [`encode`](super::encode) | either: inside of it the attempts repeat the bytes, outside of it they encode the value again, which has to be `Clone` | |
//! | [`busy_pause`](super::busy_pause), [`in_flight`](super::in_flight) | inside | a pause ends an attempt, and a permit is held between attempts |
//!
//! # Cost
//!
//! A send clones the request, which for a message is one reference count, and the inner stack. An inner layer that changes the
//! properties copies them, because the message is shared. Only a wait between attempts allocates, for its timer. The bench
//! `erased` counts a publisher with this layer.

mod future;
mod layer;
mod service;

pub use self::layer::SendRetryLayer;
use self::{future::ResponseFuture, service::SendRetry};
#[cfg(doc)]
use crate::{middleware::retry::Backoff, transport::SendError};
