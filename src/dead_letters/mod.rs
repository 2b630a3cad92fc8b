//! Dead letters: looked at, with what they died of.
//!
//! ```
//! # #[cfg(feature = "embedded")] {
//! use consign::{
//!     Message,
//!     broker::{Broker, QueueSettings},
//!     dead_letters::{DeadLetters, Filter},
//!     message::SequenceNumber,
//!     settlement::{DeadLetter, DeadLetterReason},
//!     transport::{ReceiverExt, Sender},
//! };
//!
//! # tokio_test::block_on(async {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! queue.sender()?.send(Message::new("an order")).await?;
//! let order = queue.receiver().receive().await?;
//! order.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "no such customer")).await?;
//!
//! let dead = DeadLetters::new(queue.dead_letter());
//! for letter in dead.peek(&Filter::all(), SequenceNumber::default(), 10).await? {
//!     println!("{letter}");
//!     assert_eq!(letter.reason(), Some("HandlerPermanent"));
//! }
//! # Ok::<(), tower::BoxError>(())
//! # }).unwrap();
//! # }
//! ```

mod action;
mod explained;
mod filter;
mod queue;
mod report;
mod run;
mod show;
mod transcode;

use std::{fmt, sync::Arc};

pub use self::{
    action::{Action, Purge, Resubmit},
    explained::Explained,
    filter::Filter,
    queue::DeadLetterQueue,
    report::{ActionError, ActionErrorKind, End, Failure, Report, RunError},
    run::Run,
    transcode::TranscodeError,
};
use crate::{
    message::SequenceNumber,
    time::{Clock, SystemClock},
    transport::{ErrorKind, ReceiveError, Sender},
};

/// The application property that counts how often a message was resubmitted.
pub const RESUBMIT_COUNT: &str = "x-resubmit-count";

/// How often a message may be resubmitted: 4 times.
pub const MAX_HOPS: u32 = 4;

/// The dead letters of one entity. It holds no lock and no connection of its own.
pub struct DeadLetters<Q> {
    queue: Q,
    clock: Arc<dyn Clock>,
}

impl<Q: DeadLetterQueue> DeadLetters<Q> {
    /// How many are looked at in one step.
    const PAGE: usize = 100;

    /// The dead letters of this sub-queue, by the time of the system.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Self::with_clock(queue, SystemClock::new())
    }

    /// The dead letters of this sub-queue, whose ages `clock` says.
    #[must_use]
    pub fn with_clock(queue: Q, clock: impl Clock) -> Self {
        Self { queue, clock: Arc::new(clock) }
    }

    /// Looks at up to `max` dead letters that pass `filter`, from sequence number `from` on, in order, without locking or
    /// counting. Those that somebody has locked are among them. Fewer than `max` are all there are; the next page begins
    /// behind the number of the last one.
    ///
    /// Errors: those of the transport; [`InvalidOperation`](ErrorKind::InvalidOperation) if the queue is no dead-letter
    /// sub-queue.
    pub async fn peek(
        &self,
        filter: &Filter,
        from: SequenceNumber,
        max: usize,
    ) -> Result<Vec<Explained>, ReceiveError> {
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
    /// done until [`Run::run`].
    pub fn resubmit<S: Sender>(&self, filter: Filter, sender: S) -> Run<'_, Q, Resubmit<S>> {
        Run::new(self, filter, Resubmit::new(sender))
    }

    /// Removes each dead letter that passes `filter`. Nothing is done until [`Run::run`].
    pub fn purge(&self, filter: Filter) -> Run<'_, Q, Purge> {
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
        for message in self.queue.peek(from, Self::PAGE).await? {
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
    ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the queue is no dead-letter sub-queue")
}

impl<Q> fmt::Debug for DeadLetters<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").finish_non_exhaustive()
    }
}
