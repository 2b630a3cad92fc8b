//! Operations on dead letters, on every transport: list with reason and history, resubmit, edit, transcode, purge.
//!
//! ```
//! # #[cfg(all(feature = "embedded", feature = "json", feature = "msgpack"))] {
//! use consign::{
//!     Message,
//!     administration::QueueSettings,
//!     broker::Broker,
//!     codecs::{Codecs, Json, MessagePack},
//!     consumer::Consumer,
//!     dead_letters::{DeadLetters, DeadLetterFilter},
//!     message::SequenceNumber,
//!     routing::{Body, Router},
//!     transport::{ReceiverExt, Sender},
//! };
//!
//! # tokio_test::block_on(async {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! // Declared as JSON, and MessagePack; the consumer reads JSON alone.
//! let order = Message::builder().content_type("application/json").build(b"\x92\xa5sku-7\x03")?;
//! queue.sender()?.send(order).await?;
//! let router = Router::new(Codecs::json()).fallback(async |Body(_): Body<(String, u32)>| {}).build()?;
//! let mut first = queue.dead_letter().receiver();
//! Consumer::new(queue.receiver(), router).run_until(first.receive()).await?;
//!
//! let dead = DeadLetters::new(queue.dead_letter());
//! let undecodable = DeadLetterFilter::all().reason("DeserializationFailed").codec("json");
//! for letter in dead.list(&undecodable, SequenceNumber::default(), 10).await? {
//!     println!("{letter}");
//!     assert_eq!(letter.attempts()[0].codec(), "json");
//! }
//!
//! let codecs = Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build()?;
//! let run = dead.resubmit(undecodable, queue.sender()?).transcode(codecs, "application/json");
//! let report = run.on_progress(|so_far| println!("{} of {}", so_far.resubmitted, so_far.matching)).run().await?;
//! assert_eq!((report.resubmitted, report.failures.len()), (1, 0));
//! assert_eq!(queue.receiver().receive().await?.message.payload(), Some(&br#"["sku-7",3]"#[..]));
//! # Ok::<(), tower::BoxError>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! # A run
//!
//! [`DeadLetters::resubmit`] and [`DeadLetters::purge`] go over the queue once, under peek-lock. First they peek to find
//! the last match; on a transport without peek they receive until no dead letter arrives for [`Run::lock_wait`]. Later
//! messages are not touched, and neither are copies of the run that are dead-lettered again. Then they receive from the
//! front. A dead letter that passes the filter is handled at once. A dead letter that stays is held, and its lock renewed,
//! until the end of the run, and then released uncounted. So no message is received twice, and none blocks those behind it.
//! Other receivers cannot get the messages that a run holds: start two runs with different filters one after the other.
//!
//! A resubmitted copy has a new `MessageId`, because a broker may drop the old one as a duplicate. The first one is in
//! [`x-original-message-id`](crate::message::Properties::ORIGINAL_MESSAGE_ID). The property [`RESUBMIT_COUNT`] counts the
//! resubmissions; after [`MAX_HOPS`] of them the dead letter stays, and is reported. The copy does not have the reason,
//! description, attempts and failed deliveries. All else is as it was sent, unless it is [edited](Run::edit) or
//! [transcoded](Run::transcode).
//!
//! # Failure
//!
//! The copy is sent first; when it is accepted the dead letter is removed. If the copy is refused the dead letter stays. If
//! the copy is accepted and the removal fails, the run tries the removal once more when it receives the dead letter again,
//! and sends no second copy. A later run sends a second copy, with the same first id, by which a consumer can [detect the
//! duplicate](crate::middleware::dedup). The same applies if a run is dropped between the two. No message is lost.
//!
//! [`DeadLetters::resubmit_to`] sends to an entity of the transport that has the dead letters, and can be killed and repeated:
//!
//! | the transport has | [guarantee](ResubmitGuarantee) | after a process crash |
//! |---|---|---|
//! | sequence numbers and transactions, and the copies go to the entity of the dead letters; a subscription counts as its topic | [`Transaction`](ResubmitGuarantee::Transaction) | nothing is lost or doubled |
//! | sequence numbers | [`SameMessageId`](ResubmitGuarantee::SameMessageId) | the next run sends up to [`Run::concurrency`] copies again, and an entity with duplicate detection accepts them once |
//! | neither | [`SameFirstId`](ResubmitGuarantee::SameFirstId) | the next run sends up to [`Run::concurrency`] copies again, with the same `x-original-message-id` |
//!
//! Failures are in the [`Report`], by number; after [`Report::MAX_FAILURES`] the run ends. A failed peek or receive ends it
//! with a [`RunError`], which has the report too. A run can be repeated, and several runs can work at once: each dead
//! letter is handled under its lock. A run waits at most [`Run::lock_wait`] for a dead letter that is locked elsewhere, and
//! then counts it as [`missed`](Report::missed). On a transport without peek it does not know of those that are locked
//! elsewhere. There it counts as missed what may be a copy of one of its copies, as a delayed retry makes it.
//!
//! # Signed and encrypted messages
//!
//! A resubmitted copy is as authentic as the dead letter, because `x-original-message-id` counts as its MessageId. The
//! reason, the description, the trail and the number of resubmissions are not authenticated. Its receiver refuses a signed
//! body that a run has transcoded: transcode such messages where they are verified.
//!
//! # Bounds
//!
//! A run handles [`Run::concurrency`] dead letters at once. It keeps the leases of those that stay, up to
//! [`Run::max_held`]; if there are more before the last match, it ends as [`RunOutcome::TooManyHeld`]. It keeps no message that
//! it has handled.
//!
//! # Order
//!
//! Copies are sent in the order of the numbers, and a send does not wait for the previous one. If the order of a session
//! matters, use a [`concurrency`](Run::concurrency) of 1. A copy that is refused does not stop the next one.

mod action;
mod explained;
mod filter;
mod list_limit;
mod queue;
mod report;
mod resubmit_to;
mod run;
mod show;
mod transcode;

use std::{fmt, sync::Arc, time::Duration};

#[doc(hidden)]
pub use self::run::{Ended, UnderLocks};
pub use self::{
    action::Action,
    explained::Explained,
    filter::DeadLetterFilter,
    list_limit::ListLimit,
    queue::{DeadLetterQueue, EntityDeadLetters},
    report::{ActionError, ActionErrorKind, Report, RunError, RunOutcome},
    resubmit_to::ResubmitGuarantee,
    run::Run,
    transcode::TranscodeError,
};
use self::{
    action::{Purge, Resubmit},
    resubmit_to::ResubmitTo,
};
use crate::{
    message::{EntityPath, SequenceNumber},
    time::{Clock, SystemClock},
    transport::{
        DynTransport, ErrorKind, ReceiveError, Sender,
        deadline::{self, OPERATION_TIMEOUT, Timed},
    },
};

/// The application property that counts how often a message was resubmitted.
pub const RESUBMIT_COUNT: &str = "x-resubmit-count";

/// How often a message may be resubmitted: 4 times.
pub const MAX_HOPS: u32 = 4;

/// The dead letters of one entity. It holds no lock and no connection of its own.
pub struct DeadLetters<Q> {
    queue: Q,
    clock: Arc<dyn Clock>,
    operation: Duration,
}

impl DeadLetters<EntityDeadLetters> {
    /// Creates a handle to the dead letters of a queue or a subscription, on any transport, with the system clock.
    ///
    /// ```
    /// use consign::{
    ///     administration::QueueSettings,
    ///     broker::Broker,
    ///     dead_letters::{DeadLetters, DeadLetterFilter},
    ///     message::{EntityPath, SequenceNumber},
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let broker = Broker::new();
    /// broker.create_queue("orders", QueueSettings::default())?;
    /// let dead = DeadLetters::of(broker, &EntityPath::new("orders")?);
    /// for letter in dead.list(&DeadLetterFilter::all(), SequenceNumber::default(), 100).await? {
    ///     println!("{letter}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(transport: impl Into<DynTransport>, entity: &EntityPath) -> Self {
        Self::new(EntityDeadLetters::new(transport.into(), entity))
    }
}

impl<Q: DeadLetterQueue> DeadLetters<Q> {
    /// How many are looked at in one step.
    const PAGE: usize = 100;

    /// Creates a handle to the dead letters of this sub-queue, with the system clock.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Self::with_clock(queue, SystemClock::new())
    }

    /// Creates a handle to the dead letters of this sub-queue, with `clock` for their ages.
    #[must_use]
    pub fn with_clock(queue: Q, clock: impl Clock) -> Self {
        Self { queue, clock: Arc::new(clock), operation: OPERATION_TIMEOUT }
    }

    /// Sets how long the broker may take to answer a peek, a settlement, a renewal or a release, and to accept a copy:
    /// by default 60 seconds, at least a millisecond and at most a year. An operation without an answer by then has
    /// failed as [`ServiceTimeout`](ErrorKind::ServiceTimeout).
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation = deadline::clamped(timeout);
        self
    }

    /// Lists up to `max` dead letters that pass `filter`, from sequence number `from` on, in order. Fewer than `max` are all
    /// there are; the next page begins behind the number of the last one.
    ///
    /// They are peeked: not locked, not counted, and locked ones are among them. On a transport without peek or without
    /// sequence numbers (RabbitMQ) they are received under their locks and released uncounted at the end; those that others
    /// have locked are not listed, and a number is the place in this list, from 1. At most [`ListLimit::MAX`] are locked.
    ///
    /// # Errors
    ///
    /// Those of the transport; [`InvalidOperation`](ErrorKind::InvalidOperation) if the queue is not a dead-letter sub-queue.
    /// [`NotSupported`](ErrorKind::NotSupported) with a [`ListLimit`] as its source if there are more than can be locked: it has
    /// those that were found.
    pub async fn list(
        &self,
        filter: &DeadLetterFilter,
        from: SequenceNumber,
        max: usize,
    ) -> Result<Vec<Explained>, ReceiveError> {
        if !self.queue.can_peek() {
            return self.browse(filter, from, max).await;
        }
        let mut found = Vec::new();
        let mut next = Some(from);
        while let Some(from) = next.filter(|_| found.len() < max) {
            next = self
                .page(from, &mut |dead| {
                    if found.len() < max && filter.matches(&dead) {
                        found.push(dead);
                    }
                })
                .await?;
        }
        Ok(found)
    }

    /// Sends a copy of each dead letter that passes `filter` by `sender`, and removes it when the copy is accepted. Nothing is
    /// done until [`Run::run`]. To send to an entity of the same transport, use [`resubmit_to`](DeadLetters::resubmit_to).
    pub fn resubmit<S: Sender>(&self, filter: DeadLetterFilter, sender: S) -> Run<'_, Q, Resubmit<S>> {
        Run::new(self, filter, Resubmit::new(sender))
    }

    /// Removes each dead letter that passes `filter`. Nothing is done until [`Run::run`].
    pub fn purge(&self, filter: DeadLetterFilter) -> Run<'_, Q, Purge> {
        Run::new(self, filter, Purge)
    }

    /// Calls `each` on the dead letters of one page, and answers where the next begins.
    async fn page(
        &self,
        from: SequenceNumber,
        each: &mut (dyn FnMut(Explained) + Send),
    ) -> Result<Option<SequenceNumber>, ReceiveError> {
        let now = self.clock.now().utc;
        let mut last = None;
        for message in Timed::new(self.queue.peek(from, Self::PAGE), self.operation).await?? {
            if !message.received().is_some_and(|received| received.dead_lettered) {
                return Err(no_dead_letter());
            }
            let dead = Explained::new(message, now);
            last = last.max(Some(dead.sequence_number()));
            each(dead);
        }
        // One that does not go on would be asked for ever.
        Ok(last.map(SequenceNumber::next).filter(|next| *next > from))
    }
}

fn no_dead_letter() -> ReceiveError {
    ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the queue is not a dead-letter sub-queue")
}

impl<Q> fmt::Debug for DeadLetters<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").finish_non_exhaustive()
    }
}
