//! A layer that retries transient failures: at once within the same delivery, and then after a delay, during which the
//! broker has the message or a copy of it.
//!
//! ```
//! use std::time::Duration;
//! use consign::{
//!     Disposition, Message,
//!     administration::QueueSettings,
//!     broker::Broker,
//!     middleware::retry::{Backoff, DelayPolicy, RetryLayer},
//!     transport::{ReceiverExt, Sender},
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! // Three attempts in each of five deliveries, after 10, 20, 40 and 80 seconds or up to half less.
//! let later = DelayPolicy::new(queue.sender()?, Backoff::exponential(Duration::from_secs(10)))?.deliveries(5);
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
//! # What is retried
//!
//! Transient failures: [`Disposition::Abandon`](crate::Disposition), to which a [`Transient`](crate::settlement::Transient)
//! converts, and any error except these:
//!
//! - an [`Undecodable`](crate::settlement::Undecodable), because no further attempt can read the body;
//! - a lost lock ([`LockLost`](super::lock_renewal::LockLost), [`LockExpired`](super::expiry::LockExpired)), because the
//!   broker redelivers the message;
//! - errors that [`RetryLayer::retry_if`] rejects.
//!
//! An abandon [with a delay](crate::settlement::Changes::after) is not attempted again within its delivery. The next delivery
//! comes after that delay, or after the one of the policy if that is longer.
//!
//! The exceptions are returned unchanged, and so is every other result: a [`Permanent`](crate::settlement::Permanent) is a dead
//! letter.
//!
//! # Delays
//!
//! [`DelayPolicy::new`] reads the capabilities of the sender's transport
//! ([`Sender::capabilities`](crate::transport::Sender)), and refuses an unsupported policy when the stack is built.
//! [`Pipeline::describe`](crate::pipeline) shows the policy. A retry is an INFO line, at most 10 in a second for a process. The
//! layer does not know the entity; [`RetryCounts`] has all retries of a layer.
//!
//! | transport | K-23 | a delayed retry is | unit and limit of a delay |
//! |---|---|---|---|
//! | embedded broker, in memory and on a disk | emulated | a scheduled copy | 1 ms, no limit |
//! | NATS | native | `nak` with a delay | 1 ns, no limit |
//! | PostgreSQL | native | the row, visible again when it is due | 1 ms, 49 days |
//! | RabbitMQ | emulated | a scheduled copy | 64 ms, 49 days |
//! | Azure Service Bus | emulated | a scheduled copy | 1 ms, no limit of this crate |
//! | AMQP 1.0, if the broker schedules messages | emulated | a scheduled copy | 1 ms, that of the broker |
//! | a transport without delays and schedules | unsupported | refused | |
//!
//! If the transport supports it *natively*, the layer abandons the message with a delay
//! ([`Changes::after`](crate::settlement::Changes::after)). The message keeps its id, its number and its expiry, the
//! delivery counts, and the [`RetryHistory`] is added to its properties. The consumer, or
//! [`Delivery::settle`](crate::transport::Delivery::settle), passes the delay to
//! [`Lease::abandon_after`](crate::transport::Lease::abandon_after). A queue's `MaxDeliveryCount`, 10 by default, applies
//! too: the lesser of it and [`DelayPolicy::deliveries`] ends the retries. In a session, later messages must not be
//! handled first, so the consumer holds the message in its slot and abandons it after the delay.
//!
//! # The copy
//!
//! No task waits for the delay. The copy has a new `MessageId`, because a broker with duplicate detection would drop the
//! old one. The first one is in the property `x-original-message-id`
//! ([`Properties::original_message_id`](crate::message::Properties::original_message_id)). The copy has the
//! `ScheduledEnqueueTime`, the time to live that remains when it is due, the changes of the abandon, and a
//! [`RetryHistory`]. All else is equal, byte for byte. Its delivery count begins again.
//!
//! The copy is sent by the [`Sender`](crate::transport::Sender) of the policy. That should be a sender to the queue that
//! the message came from. It must not be a sender to the topic of a subscription, because every subscription would get the
//! copy: give such a consumer a queue of its own, and forward the subscription there. In a session the copy comes after
//! messages that were sent meanwhile: if the order of a session matters, do not use delayed retries.
//!
//! # Signed and encrypted messages
//!
//! The copy is as authentic as the message: `x-original-message-id` counts as its MessageId. The [`RetryHistory`] and the
//! delivery count are not authenticated. An attacker who can change messages can have one retried more or fewer times. An
//! abandon that changes a bound property makes the copy unreadable.
//!
//! # Failure
//!
//! The message is completed once the broker has accepted the copy. If the copy is not accepted, the consumer abandons the
//! message after the delay, and the queue redelivers it. So no message is lost, but there may be two copies: if the answer
//! to the send is lost, if the settlement after it is lost, or if the call is dropped while the copy is in flight. Both
//! have the same first id. Each of them is retried separately.
//!
//! A message is dead-lettered as `RetriesExhausted`, with the last error in the description, in three cases: this was the
//! last delivery, the next one would begin after [`DelayPolicy::max_age`], or the message would expire before the next
//! one.
//!
//! Without delayed retries the last failure is returned unchanged. This also applies to a dead letter, whose copy would
//! leave the sub-queue, and to a message that has expired while it was locked. A message whose properties have no space for a
//! history is abandoned after the delay without one. If the inner service fails to become ready for a further attempt, that error is returned.
//!
//! The lock of the message runs meanwhile. After a call is dropped there is no further attempt.
//!
//! # Order
//!
//! Inside of lock renewal and of expiry. The inner service has to be `Clone`; each attempt uses an instance that was made
//! ready for it.
//!
//! A timeout outside of this layer bounds all attempts of a delivery. A timeout inside bounds one attempt. Outside of this
//! layer, catch panic fails the delivery at the first panic. Inside, a panic is a failed attempt, which is
//! retried.
//!
//! Layers that recognise messages by their first id, such as duplicate detection, are inside. There they get the failure,
//! forget the id, and accept the first copy that succeeds. Outside they would get a completed message when the copy is
//! sent, and treat the copy as a duplicate: **the message would be lost**.
//!
//! # Cost
//!
//! A clone of the message and one of the inner stack are kept until the call returns. Keep cloning cheap, for example with
//! an `Arc`. Nothing is allocated, and delayed retries cost nothing more until there is one. The table *Layers* of
//! `docs/benchmarks.md` has the figures.

mod backoff;
mod counts;
mod delayed;
mod failure;
mod future;
mod history;
mod layer;
mod log;

pub(crate) use self::backoff::Random;
pub(crate) use self::delayed::Later;
pub(super) use self::failure::is_transient;
pub use self::{
    backoff::{Backoff, Jitter},
    counts::RetryCounts,
    delayed::DelayPolicy,
    history::RetryHistory,
    layer::RetryLayer,
};
use self::{delayed::NoDelay, future::ResponseFuture};
