//! Tries again what has failed and may succeed: at once, within the same delivery, and then after a delay, for which the broker
//! holds the message or a copy of it.
//!
//! ```
//! use std::time::Duration;
//! use consign::{
//!     Disposition, Message,
//!     administration::QueueSettings,
//!     broker::Broker,
//!     middleware::retry::{Backoff, DelayedRetries, RetryLayer},
//!     transport::{ReceiverExt, Sender},
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! // Three attempts in each of five deliveries, after 10, 20, 40 and 80 seconds or up to half less.
//! let later = DelayedRetries::new(queue.sender()?, Backoff::exponential(Duration::from_secs(10)))?.deliveries(5);
//! let retry = RetryLayer::new().immediate(2).delayed(later);
//! let stack = ServiceBuilder::new()
//!     .layer(&retry)
//!     .service(service_fn(|_: Message| async { Err::<Disposition, _>(BoxError::from("the database is away")) }));
//!
//! queue.sender()?.send(Message::new("an order")).await?;
//! let delivery = queue.receiver().receive().await?;
//! // The copy is at the broker: the message has been dealt with.
//! assert_eq!(stack.oneshot(delivery.message.clone()).await?, Disposition::Complete);
//! delivery.complete().await?;
//! assert_eq!((retry.counts().immediate(), retry.counts().delayed()), (2, 1));
//!
//! let again = queue.receiver().receive().await?;
//! assert_ne!(again.message.message_id(), again.message.original_message_id());
//! # again.complete().await?;
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
//! - a lost lock ([`LockLost`](super::lock_renewal::LockLost), [`LockExpired`](super::expiry::LockExpired)), for the
//!   broker redelivers the message;
//! - what [`RetryLayer::retry_if`] rejects.
//!
//! Those are passed on, and so is every other answer: a [`Permanent`](crate::settlement::Permanent) is a dead letter.
//!
//! # Delays
//!
//! [`DelayedRetries::new`] asks the sender what its transport can do ([`Sender::capabilities`](crate::transport::Sender)), and
//! refuses a policy that it cannot do, when the stack is built. [`Pipeline::describe`](crate::pipeline) shows the policy.
//!
//! | transport | K-23 | a delayed retry is | unit and limit of a delay |
//! |---|---|---|---|
//! | embedded broker, in memory and on a disk | emulated | a scheduled copy | 1 ms, no limit |
//! | NATS | native | `nak` with a delay | 1 ns, no limit |
//! | PostgreSQL | native | the row, visible again when it is due | 1 ms, 49 days |
//! | RabbitMQ | emulated | a scheduled copy | 64 ms, 49 days |
//! | another without delays and schedules | | refused | |
//!
//! *Natively* the layer abandons the message with a delay ([`Changes::after`](crate::settlement::Changes::after)). The message
//! keeps its id, its number and its expiry, the delivery counts, and the [`RetryHistory`] is added to its properties. The
//! consumer, or [`Delivery::settle`](crate::transport::Delivery::settle), passes the delay to
//! [`Lease::abandon_after`](crate::transport::Lease::abandon_after). A queue's `MaxDeliveryCount`, 10 by default, holds beside
//! [`DelayedRetries::deliveries`]: the lesser ends the message. A message of a session cannot be passed by those behind it, so
//! the consumer keeps it, in its slot, and abandons it after the delay.
//!
//! # The copy
//!
//! Nothing waits in this process. The copy has a new `MessageId`, for a broker that detects duplicates would drop the old
//! one; the first one is in the property `x-original-message-id`
//! ([`Properties::original_message_id`](crate::message::Properties::original_message_id)). It has the
//! `ScheduledEnqueueTime`, what is left of the time to live when it is due, the changes of the abandon, and a
//! [`RetryHistory`]. All else is as it was, byte for byte. Its delivery count begins anew.
//!
//! It goes where the [`Sender`](crate::transport::Sender) leads. That should be the queue that the message came from. It
//! must not be the topic of a subscription, or every subscription has the copy: give such a consumer a queue of its own,
//! and forward it there. In a session the copy comes behind what was sent meanwhile: where the order of a session counts,
//! do not deliver later.
//!
//! # Signed and encrypted messages
//!
//! The copy is authentic as the message was: `x-original-message-id` counts as its MessageId. The [`RetryHistory`] and
//! the delivery count are not authenticated. Someone who can change messages can have one tried more or fewer times. An
//! abandon that changes a bound property makes the copy unreadable.
//!
//! # Failure
//!
//! The message is completed once the broker has accepted the copy. If the copy is not accepted, the message is
//! abandoned with the delay, which the consumer waits for: it is delivered again as often as its queue delivers it, and
//! not at once. So a message is not lost, and there may be two of it: if the answer to the copy is lost, if the
//! settlement is lost after it, or if the call is dropped while the copy is under way. Both have the same first id. The
//! chain of each ends for itself.
//!
//! A message is dead-lettered as `RetriesExhausted`, with the last error in the description, in three cases. This was
//! the last delivery, the next one would begin after [`DelayedRetries::max_age`], or the message would expire before
//! that.
//!
//! Without later deliveries the last failure is passed on as it is. So it is for a dead letter, whose copy would leave
//! the sub-queue; for a message that has expired under its lock, which is the broker's; and for one whose properties
//! leave no space for a history. If the service inside fails to become ready for a further attempt, that error is
//! passed on.
//!
//! The lock of the message runs meanwhile. A call that is dropped makes no further attempt.
//!
//! # Order
//!
//! Inside of lock renewal and of expiry. Outside of timeout, which then is for one attempt, of catch panic, whose error is
//! one that may pass, and of the handler. What is inside has to be `Clone`; each attempt is made on an instance that was
//! made ready for it.
//!
//! What recognises messages by their first id, to handle each once, stands inside. There it sees the failure, forgets the
//! message, and lets the first of its copies that succeeds be the only one. Outside it sees the message completed when the
//! copy was sent, takes the copy for one that is done, and **the message is lost**.
//!
//! # Cost
//!
//! A message that succeeds pays for being able to fail: a clone of the message and one of the stack inside are kept
//! until the answer. Keep what is cloned cheap, as by an `Arc`. Nothing is allocated, and later deliveries cost nothing
//! more until there is one. Counted in the table *Layers* of `docs/benchmarks.md`.

mod backoff;
mod counts;
mod delayed;
mod failure;
mod future;
mod history;
mod layer;

pub(super) use self::failure::is_transient;
pub use self::{
    backoff::{Backoff, Jitter},
    counts::RetryCounts,
    delayed::{DelayedRetries, Later, NoDelay},
    future::ResponseFuture,
    history::RetryHistory,
    layer::{Retry, RetryLayer},
};
