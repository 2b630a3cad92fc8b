use consign_core::message::SequenceNumber;

use super::{ready::Ready, session::Session, sorted::Sorted};

/// Messages that are received in one order: those of a part, of a partition, or of a session.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) ready: Ready,
    pub(super) deferred: Sorted<SequenceNumber>,
    pub(super) session: Option<Box<Session>>,
}
