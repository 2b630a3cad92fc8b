use std::{error, fmt};

use tower::BoxError;

use crate::{
    message::SequenceNumber,
    transport::{ReceiveError, SendError, SettleError},
};

/// What a run has done, or has done so far.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Dead letters that passed the filter when the run began.
    pub matching: u64,
    /// Deliveries that were looked at under a lock.
    pub examined: u64,
    /// Copies that were accepted.
    pub resubmitted: u64,
    /// Dead letters that were removed without a copy.
    pub purged: u64,
    /// Those looked at that did not pass the filter. They were given back, uncounted.
    pub skipped: u64,
    /// Those that were resubmitted [`MAX_HOPS`](super::MAX_HOPS) times already, and stay.
    pub stopped_at_hop_limit: u64,
    /// Those that passed the filter when the run began and that it has not met, or whose removal is in doubt: in other hands,
    /// or gone by now. It is counted at the end.
    pub missed: u64,
    /// Why others stay, at most [`Report::MAX_FAILURES`].
    pub failures: Vec<Failure>,
    /// What made the run end.
    pub end: End,
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
        failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

/// What made a run end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Whatever passed the filter was met, or is in other hands.
    #[default]
    Done,
    /// [`Report::MAX_FAILURES`] failures. There may be more to do.
    TooManyFailures,
    /// As many dead letters are held as the run may hold, and what it looks for may be behind them.
    TooManyHeld,
    /// A peek or a receive failed; see [`RunError`].
    Failed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::TooManyFailures => "ended after too many failures",
            Self::TooManyHeld => "ended, for too many were held",
            Self::Failed => "ended by an error",
        })
    }
}

/// A dead letter that stays.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its number.
    pub sequence_number: SequenceNumber,
    /// Why it stays.
    pub error: ActionError,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}: {}", self.sequence_number, self.error)
    }
}

/// Something that could not be done with one dead letter.
#[derive(Debug)]
pub struct ActionError {
    kind: ActionErrorKind,
    source: BoxError,
}

/// What could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionErrorKind {
    /// A change of the copy: nothing was sent.
    Change,
    /// The send of the copy: the source is a [`SendError`], which may say that the outcome is unknown.
    Send,
    /// The removal of the dead letter: the source is a [`SettleError`]. A copy of it may have been accepted; see
    /// [`ActionError::is_copied`].
    Settle {
        /// Whether a copy was accepted.
        copied: bool,
    },
}

impl ActionError {
    pub(super) fn change(source: impl Into<BoxError>) -> Self {
        Self { kind: ActionErrorKind::Change, source: source.into() }
    }

    pub(super) fn send(source: SendError) -> Self {
        Self { kind: ActionErrorKind::Send, source: source.into() }
    }

    pub(super) fn settle(source: SettleError, copied: bool) -> Self {
        Self { kind: ActionErrorKind::Settle { copied }, source: source.into() }
    }

    /// What could not be done.
    #[must_use]
    pub fn kind(&self) -> ActionErrorKind {
        self.kind
    }

    /// What went wrong: a [`SendError`], a [`SettleError`], or the error of a change.
    #[must_use]
    pub fn into_source(self) -> BoxError {
        self.source
    }

    /// Whether a copy was accepted although the dead letter may still be there. The next run sends another one, with the
    /// same first id.
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
            ActionErrorKind::Settle { copied: true } => "sent, and not removed",
            ActionErrorKind::Settle { copied: false } => "not removed",
        };
        write!(f, "{what}: {}", self.source)
    }
}

impl error::Error for ActionError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// A run that could not peek or receive. What it had done until then stays done.
#[derive(Debug)]
pub struct RunError {
    source: Box<ReceiveError>,
    report: Box<Report>,
}

impl RunError {
    pub(super) fn new(source: ReceiveError, report: Report) -> Self {
        Self { source: Box::new(source), report: Box::new(report) }
    }

    /// What failed.
    #[must_use]
    pub fn receive_error(&self) -> &ReceiveError {
        &self.source
    }

    /// What was done before.
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
