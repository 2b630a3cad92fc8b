use std::{error, fmt};

use tower::BoxError;

use crate::{
    message::SequenceNumber,
    transport::{ReceiveError, SendError, SettleError},
};

/// The result of a run, or its progress so far.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Dead letters that passed the filter when the run began. On a transport without peek, those that the run has met so far.
    pub matching: u64,
    /// Deliveries that were examined under a lock.
    pub examined: u64,
    /// Copies that were accepted.
    pub resubmitted: u64,
    /// Dead letters that were removed without a copy.
    pub purged: u64,
    /// Examined deliveries that did not pass the filter. They were released, uncounted.
    pub skipped: u64,
    /// Those that were resubmitted [`MAX_HOPS`](super::MAX_HOPS) times already, and stay.
    pub stopped_at_hop_limit: u64,
    /// Those that passed the filter when the run began and that it has not received, or whose removal is in doubt.
    /// Another receiver has them locked, or they are gone by now. It is counted at the end. On a transport without peek, those
    /// that are locked elsewhere are not known, and those that may be copies of this run's copies are counted.
    pub missed: u64,
    /// The failures, at most [`Report::MAX_FAILURES`].
    pub failures: Vec<ActionError>,
    /// The reason why the run ended.
    pub end: RunOutcome,
}

impl Report {
    /// Most failures of one run: 100.
    pub const MAX_FAILURES: usize = 100;
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { matching, examined, resubmitted, purged, skipped, stopped_at_hop_limit, missed, failures, end } =
            self;
        write!(f, "{matching} matching, {examined} examined: {resubmitted} resubmitted, {purged} purged, ")?;
        write!(f, "{skipped} skipped, {stopped_at_hop_limit} at the hop limit, {missed} missed, ")?;
        write!(f, "{} failed; {end}", failures.len())?;
        failures.iter().try_for_each(|failure| write!(f, "\n  #{}: {failure}", failure.sequence_number))
    }
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// All dead letters that passed the filter were received, or are locked elsewhere, see [`Report::missed`].
    #[default]
    Done,
    /// [`Report::MAX_FAILURES`] failures. There may be more to do.
    TooManyFailures,
    /// The run holds its maximum of dead letters, and further matches may be behind them.
    TooManyHeld,
    /// A peek or a receive failed; see [`RunError`].
    Failed,
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::TooManyFailures => "ended after too many failures",
            Self::TooManyHeld => "ended: too many dead letters were held",
            Self::Failed => "ended by an error",
        })
    }
}

/// An operation on one dead letter that failed. The dead letter stays.
#[derive(Debug)]
pub struct ActionError {
    sequence_number: SequenceNumber,
    kind: ActionErrorKind,
    source: BoxError,
}

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionErrorKind {
    /// A change of the copy: nothing was sent.
    Change,
    /// The send of the copy: the source is a [`SendError`], whose outcome may be unknown.
    Send,
    /// The removal of the dead letter: the source is a [`SettleError`]. A copy of it may have been accepted; see
    /// [`ActionError::is_copied`].
    Settle {
        /// Whether a copy was accepted.
        copied: bool,
    },
    /// The transaction of the copy and the removal, see [`DeadLetters::resubmit_to`](super::DeadLetters::resubmit_to): the source is a
    /// [`SettleError`], whose outcome may be unknown. There is a copy or a dead letter, never both.
    Transaction,
}

impl ActionError {
    pub(super) fn change(source: impl Into<BoxError>) -> Self {
        Self { sequence_number: SequenceNumber::default(), kind: ActionErrorKind::Change, source: source.into() }
    }

    pub(super) fn send(source: SendError) -> Self {
        Self { sequence_number: SequenceNumber::default(), kind: ActionErrorKind::Send, source: source.into() }
    }

    pub(super) fn settle(source: SettleError, copied: bool) -> Self {
        Self {
            sequence_number: SequenceNumber::default(),
            kind: ActionErrorKind::Settle { copied },
            source: source.into(),
        }
    }

    pub(super) fn transaction(source: SettleError) -> Self {
        Self { sequence_number: SequenceNumber::default(), kind: ActionErrorKind::Transaction, source: source.into() }
    }

    /// Sets the number of the dead letter.
    pub(super) fn of(mut self, sequence_number: SequenceNumber) -> Self {
        self.sequence_number = sequence_number;
        self
    }

    /// Returns the number of the dead letter.
    #[must_use]
    pub fn sequence_number(&self) -> SequenceNumber {
        self.sequence_number
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ActionErrorKind {
        self.kind
    }

    /// Returns the source: a [`SendError`], a [`SettleError`], or the error of a change.
    #[must_use]
    pub fn into_source(self) -> BoxError {
        self.source
    }

    /// Returns whether a copy was accepted although the dead letter may still be there. The next run sends another one, with
    /// the same first id.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.kind == ActionErrorKind::Settle { copied: true }
    }
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ActionErrorKind::Change => "not changed",
            ActionErrorKind::Send => "not sent",
            ActionErrorKind::Settle { copied: true } => "copy sent, dead letter not removed",
            ActionErrorKind::Settle { copied: false } => "not removed",
            ActionErrorKind::Transaction => "not resubmitted",
        };
        write!(f, "{what}: {}", self.source)
    }
}

impl error::Error for ActionError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// A run that could not peek or receive. Its earlier changes are kept.
#[derive(Debug)]
pub struct RunError {
    source: Box<ReceiveError>,
    report: Box<Report>,
}

impl RunError {
    pub(super) fn new(source: ReceiveError, report: Report) -> Self {
        Self { source: Box::new(source), report: Box::new(report) }
    }

    /// Returns the error of the peek or the receive.
    #[must_use]
    pub fn receive_error(&self) -> &ReceiveError {
        &self.source
    }

    /// Returns the report of the run up to the failure.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.source, self.report)
    }
}

impl error::Error for RunError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}
