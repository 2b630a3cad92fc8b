use consign_core::{
    message::{SequenceNumber, Stored},
    time::Timestamp,
};

use super::{Number, Part, Ticks};

/// A mark beside those of `changes`: its message is on the disk only.
pub(super) const AWAY: u8 = 4;
/// When it expires is among the asides.
pub(super) const EXPIRES: u8 = 64;
/// The number at the entity that it was first sent to is among the asides.
pub(super) const MOVED: u8 = 128;

/// The bit of `hops` that marks a dead letter that is not forwarded.
const STAYS: u8 = 128;

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
    pub(crate) enqueued: Timestamp,
    /// The number of the current lock, or 0. A lease with another number is of an earlier delivery.
    pub(crate) lock: u64,
    /// The end of the lock; of a scheduled message the instant at which it is due.
    pub(crate) locked_until: Ticks,
    /// A message is far smaller than 4 GiB.
    size: u32,
    /// Deliveries that failed and count.
    pub(crate) failures: u32,
    pub(crate) lane: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(crate) part: Part,
    pub(crate) place: Place,
    /// How often it was forwarded, and [`STAYS`].
    hops: u8,
    /// The changes of it that are to be written to a disk, and what is among the asides.
    pub(super) marks: u8,
}

impl Entry {
    #[inline]
    pub(super) fn new(message: Stored, number: Number, size: u64, hops: u8) -> Self {
        let mut entry = Self {
            message,
            sequence: number.sequence,
            order: number.order,
            enqueued: number.enqueued,
            lock: 0,
            locked_until: 0,
            size: 0,
            failures: 0,
            lane: 0,
            previous: NIL,
            next: NIL,
            part: Part::Main,
            place: Place::Ready,
            hops: hops.min(STAYS - 1),
            marks: 0,
        };
        entry.set_size(size);
        entry
    }

    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.size.into()
    }

    #[inline]
    pub(super) fn set_size(&mut self, size: u64) {
        self.size = u32::try_from(size).unwrap_or(u32::MAX);
    }

    /// Returns how often it was forwarded.
    #[inline]
    pub(super) fn hops(&self) -> u8 {
        self.hops & !STAYS
    }

    /// Returns whether it is a dead letter that is not forwarded.
    #[inline]
    pub(super) fn stays(&self) -> bool {
        self.hops & STAYS != 0
    }

    pub(super) fn set_stays(&mut self, stays: bool) {
        self.hops = self.hops() | if stays { STAYS } else { 0 };
    }

    /// Whether the message is on the disk only.
    #[inline]
    pub(super) fn is_away(&self) -> bool {
        cfg!(feature = "durable") && self.marks & AWAY != 0
    }

    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self.place, Place::Deferred | Place::DeferredLocked)
    }
}
