use crate::{
    message::{SequenceNumber, Stored},
    time::Timestamp,
};

/// Nanoseconds of the broker's monotonic clock.
pub(crate) type Ticks = u64;
/// "Never", as an instant of the monotonic clock.
pub(crate) const NEVER: Ticks = Ticks::MAX;
/// No entry, in a list that is threaded through the entries.
pub(crate) const NIL: u32 = u32::MAX;

/// The two halves of a queue. Both live in one engine, for a dead letter moves from one to the other in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    DeadLetter,
}

/// Where an entry stands in its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Locked,
    Deferred,
    DeferredLocked,
}

/// One stored message.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Stored,
    pub(crate) sequence: SequenceNumber,
    pub(crate) enqueued: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) expires: Ticks,
    /// Deliveries that failed and count.
    pub(crate) failures: u32,
    pub(crate) size: u64,
    pub(crate) part: Part,
    pub(crate) place: Place,
    /// The number of the current lock, or 0. A lease that carries another one is of an earlier delivery.
    pub(crate) lock: u64,
    pub(crate) locked_until: Ticks,
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl Entry {
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.place, Place::Locked | Place::DeferredLocked)
    }
}
