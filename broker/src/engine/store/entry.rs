use consign_core::{
    message::{SequenceNumber, Stored},
    time::Timestamp,
};

use super::{Part, Ticks};

/// A mark beside those of `changes`: its message is on the disk only.
pub(super) const AWAY: u8 = 4;

/// No entry, in a list that is threaded through the entries.
pub(super) const NIL: u32 = u32::MAX;

/// The place of an entry in its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Locked,
    Deferred,
    DeferredLocked,
    Scheduled,
}

/// One stored message.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Stored,
    pub(crate) sequence: SequenceNumber,
    /// The order of acceptance in this entity. Sequence numbers begin again at 0 one day, and those of partitions jump.
    pub(crate) order: u64,
    /// The number at the entity that the message was first sent to.
    pub(crate) origin: SequenceNumber,
    pub(crate) enqueued: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) expires: Ticks,
    pub(crate) size: u64,
    /// The number of the current lock, or 0. A lease with another number is of an earlier delivery.
    pub(crate) lock: u64,
    /// The end of the lock; of a scheduled message the instant at which it is due.
    pub(crate) locked_until: Ticks,
    /// Deliveries that failed and count.
    pub(crate) failures: u32,
    pub(crate) lane: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(crate) part: Part,
    pub(crate) place: Place,
    /// How often it was forwarded.
    pub(crate) hops: u8,
    /// A dead letter that is not forwarded.
    pub(crate) stays: bool,
    /// The changes of it that are to be written to a disk.
    pub(super) marks: u8,
}

impl Entry {
    /// Whether the message is on the disk only.
    #[inline]
    pub(super) fn is_away(&self) -> bool {
        cfg!(feature = "durable") && self.marks & AWAY != 0
    }

    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self.place, Place::Deferred | Place::DeferredLocked)
    }
}
