//! A record of sent messages and of settlements.

mod receiver;
mod sender;
mod tape;

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use self::tape::Tape;
pub use self::{
    receiver::{RecordedLease, RecordedReceiver},
    sender::{Accepting, RecordedSender},
};
use super::show::{Lines, Shown};
use crate::{
    Disposition, Message,
    settlement::DeadLetterReason,
    transport::{ErrorKind, Receiver},
};

/// A record of sends with their outcomes, and of settlements with their answers. Clones write on the same record.
///
/// It keeps the latest [`Recorder::MOST`] of each. An assertion that fails prints what is there, without bodies.
///
/// ```
/// use consign::{Message, testing::Recorder, transport::Sender};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let recorder = Recorder::new();
/// let sender = recorder.accepting();
/// sender.send(Message::builder().subject("order.created").build("{}")?).await?;
///
/// recorder.assert_sent(|message| message.subject() == Some("order.created"));
/// recorder.assert_sent_count(1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    tapes: Arc<Mutex<Tapes>>,
}

struct Tapes {
    sent: Tape<Sent>,
    settled: Tape<Settled>,
}

/// A message that was sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// The message.
    pub message: Message,
    /// The outcome of the send.
    pub outcome: SendOutcome,
}

/// The outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendOutcome {
    /// There is no answer, or no caller waited for it.
    Unknown,
    /// The broker accepted it.
    Accepted,
    /// It failed with this kind of error.
    Failed(ErrorKind),
    /// It was sent without acknowledgement.
    HandedOver,
}

/// A delivery that came to its end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settled {
    /// The message, as it was delivered.
    pub message: Message,
    /// The requested settlement.
    pub settlement: Settlement,
    /// The answer: `None` without one, or if no caller waited for it. What was dropped or removed has none.
    pub answer: Option<Result<(), ErrorKind>>,
}

/// The settlement of a delivery.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Settlement {
    /// It was settled.
    Settled(Disposition),
    /// It was released without a count.
    Released,
    /// It was dropped, which abandons it.
    Dropped,
    /// The broker had removed it when it was received, in receive-and-delete mode, and its delivery was dropped.
    Removed,
}

impl Recorder {
    /// Most sends, and most settlements, that are kept.
    pub const MOST: usize = 10_000;

    /// An empty record.
    #[must_use]
    pub fn new() -> Self {
        let tapes = Tapes { sent: Tape::new(Self::MOST), settled: Tape::new(Self::MOST) };
        Self { tapes: Arc::new(Mutex::new(tapes)) }
    }

    /// Records the messages that go through `sender`.
    pub fn sender<S>(&self, sender: S) -> RecordedSender<S> {
        RecordedSender::new(self.clone(), sender)
    }

    /// A sender that accepts everything and keeps nothing but the record.
    #[must_use]
    pub fn accepting(&self) -> RecordedSender<Accepting> {
        self.sender(Accepting)
    }

    /// Writes down how what `receiver` delivers is settled.
    pub fn receiver<R: Receiver>(&self, receiver: R) -> RecordedReceiver<R> {
        RecordedReceiver::new(self.clone(), receiver)
    }

    /// Returns the sent messages, in order; a batch as its messages.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        self.tapes.lock().sent.copy()
    }

    /// Returns the deliveries that came to their end, in order.
    #[must_use]
    pub fn settled(&self) -> Vec<Settled> {
        self.tapes.lock().settled.copy()
    }

    /// Panics unless a message that `matches` was sent and accepted, or handed over. Returns the first.
    #[track_caller]
    pub fn assert_sent(&self, matches: impl Fn(&Message) -> bool) -> Message {
        let sent = self.sent();
        let found = sent.iter().find(|sent| sent.outcome.is_success() && matches(&sent.message));
        found.map_or_else(
            || panic!("no such message was sent; there are:{}", self.list_sent(&sent)),
            |sent| sent.message.clone(),
        )
    }

    /// Panics unless exactly this many messages were sent and accepted, or handed over.
    #[track_caller]
    pub fn assert_sent_count(&self, count: usize) {
        let sent = self.sent();
        self.tapes.lock().sent.assert_whole();
        let found = sent.iter().filter(|sent| sent.outcome.is_success()).count();
        assert_eq!(found, count, "messages sent; there are:{}", self.list_sent(&sent));
    }

    /// Panics if anything was sent, whatever became of it.
    #[track_caller]
    pub fn assert_nothing_sent(&self) {
        let sent = self.sent();
        assert!(sent.is_empty(), "there are:{}", self.list_sent(&sent));
    }

    /// Panics unless exactly this many messages were completed, as the broker confirmed. Messages of receive-and-delete mode are
    /// not completed: see [`assert_removed`](Self::assert_removed).
    #[track_caller]
    pub fn assert_completed(&self, count: usize) {
        self.assert_settled("completed", count, |settlement| {
            matches!(settlement, Settlement::Settled(Disposition::Complete))
        });
    }

    /// Panics unless exactly this many messages were received in receive-and-delete mode and are dropped, whatever their handlers
    /// returned.
    #[track_caller]
    pub fn assert_removed(&self, count: usize) {
        self.assert_settled("removed", count, |settlement| matches!(settlement, Settlement::Removed));
    }

    /// Panics unless exactly this many messages were abandoned, as the broker confirmed, or were dropped.
    #[track_caller]
    pub fn assert_abandoned(&self, count: usize) {
        self.assert_settled("abandoned", count, |settlement| {
            matches!(settlement, Settlement::Settled(Disposition::Abandon(_)) | Settlement::Dropped)
        });
    }

    /// Panics unless exactly this many messages were deferred, as the broker confirmed.
    #[track_caller]
    pub fn assert_deferred(&self, count: usize) {
        self.assert_settled("deferred", count, |settlement| {
            matches!(settlement, Settlement::Settled(Disposition::Defer(_)))
        });
    }

    /// Panics unless a message was dead-lettered with this reason, as the broker confirmed. Returns the first, as it was
    /// delivered.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it asserts")]
    pub fn assert_dead_lettered(&self, reason: &DeadLetterReason) -> Message {
        let settled = self.settled();
        let found = settled.iter().find(|settled| match &settled.settlement {
            Settlement::Settled(Disposition::DeadLetter(letter)) => letter.reason == *reason && settled.is_done(),
            _ => false,
        });
        found.map_or_else(
            || panic!("none was dead-lettered as {reason}; there are:{}", self.list_settled(&settled)),
            |settled| settled.message.clone(),
        )
    }

    /// Panics unless a settlement failed with this kind of error, such as
    /// [`MessageLockLost`](ErrorKind::MessageLockLost). Returns the first message, as it was delivered.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "it asserts")]
    pub fn assert_settle_failed(&self, kind: ErrorKind) -> Message {
        let settled = self.settled();
        let found = settled.iter().find(|settled| settled.answer == Some(Err(kind)));
        found.map_or_else(
            || panic!("no settlement failed as {kind:?}; there are:{}", self.list_settled(&settled)),
            |settled| settled.message.clone(),
        )
    }

    #[track_caller]
    fn assert_settled(&self, what: &str, count: usize, is: impl Fn(&Settlement) -> bool) {
        let settled = self.settled();
        self.tapes.lock().settled.assert_whole();
        let found = settled.iter().filter(|settled| settled.is_done() && is(&settled.settlement)).count();
        assert_eq!(found, count, "messages {what}; there are:{}", self.list_settled(&settled));
    }

    fn list_sent(&self, sent: &[Sent]) -> String {
        format!("{}{}", Lines(sent), Forgotten(self.tapes.lock().sent.forgotten()))
    }

    fn list_settled(&self, settled: &[Settled]) -> String {
        format!("{}{}", Lines(settled), Forgotten(self.tapes.lock().settled.forgotten()))
    }
}

impl SendOutcome {
    /// Returns whether the message was accepted, or handed over by a send without an outcome.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Accepted | Self::HandedOver)
    }
}

impl Settled {
    fn is_done(&self) -> bool {
        matches!(self.settlement, Settlement::Dropped | Settlement::Removed) || self.answer == Some(Ok(()))
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.outcome, Shown(&self.message))
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.settlement {
            Settlement::Settled(Disposition::Complete) => f.write_str("complete")?,
            Settlement::Settled(Disposition::Abandon(_)) => f.write_str("abandon")?,
            Settlement::Settled(Disposition::Defer(_)) => f.write_str("defer")?,
            Settlement::Settled(Disposition::DeadLetter(letter)) => {
                write!(f, "dead-letter as {} ({:?})", letter.reason, letter.description)?;
            }
            Settlement::Released => f.write_str("release")?,
            Settlement::Dropped => f.write_str("dropped")?,
            Settlement::Removed => f.write_str("removed when it was received")?,
        }
        match (&self.settlement, self.answer) {
            (Settlement::Dropped | Settlement::Removed, _) | (_, Some(Ok(()))) => {}
            (_, Some(Err(kind))) => write!(f, ", failed as {kind:?}")?,
            (_, None) => f.write_str(", no answer")?,
        }
        write!(f, ": {}", Shown(&self.message))
    }
}

struct Forgotten(usize);

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 {
            write!(f, "\n  and {} before them, which are not kept", self.0)?;
        }
        Ok(())
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, settled) = (self.sent(), self.settled());
        f.debug_struct("Recorder").field("sent", &sent.len()).field("settled", &settled.len()).finish_non_exhaustive()
    }
}
