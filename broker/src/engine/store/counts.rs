use consign_core::{administration::Counts, time::Timestamp};

use super::{Now, Part, Place, Store};

/// The time since which the oldest message waits, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ages {
    /// The enqueued time of the oldest message that can be received.
    pub active: Option<Timestamp>,
    /// The enqueued time of the oldest deferred message.
    pub deferred: Option<Timestamp>,
    /// The enqueued time of the oldest message in the dead-letter sub-queue. On a sub-queue itself, none.
    pub dead_lettered: Option<Timestamp>,
    /// The earliest time at which a scheduled message becomes active.
    pub next_scheduled: Option<Timestamp>,
}

/// Messages of one part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) ready: usize,
    pub(super) locked: usize,
    pub(super) deferred: usize,
}

impl Tally {
    fn all(self) -> usize {
        self.ready + self.locked + self.deferred
    }
}

impl Store {
    /// Returns the number of all messages.
    pub(in super::super) fn messages(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn counts(&self, part: Part) -> Counts {
        let tally = self.tally[part as usize];
        let is_main = part == Part::Main;
        let of = |part: Part| if is_main { self.tally[part as usize].all() } else { 0 };
        let mut counts = Counts::default();
        counts.active = tally.ready;
        counts.locked = tally.locked;
        counts.deferred = tally.deferred;
        counts.scheduled = if is_main { self.scheduled.len() } else { 0 };
        counts.dead_lettered = of(Part::DeadLetter);
        counts.transfer_dead_lettered = of(Part::TransferDeadLetter);
        counts.size = self.size;
        counts
    }

    /// Returns the ages. Visits every message once.
    pub(crate) fn ages(&self, now: Now, part: Part) -> Ages {
        let is_main = part == Part::Main;
        let oldest = |part: Part, place: Option<Place>| {
            let wanted = self.entries.iter().filter(|(_, entry)| {
                entry.part == part && entry.place != Place::Scheduled && place.is_none_or(|place| entry.place == place)
            });
            wanted.map(|(_, entry)| entry.enqueued).min()
        };
        Ages {
            active: oldest(part, Some(Place::Ready)),
            deferred: oldest(part, Some(Place::Deferred)),
            dead_lettered: oldest(Part::DeadLetter, None).filter(|_| is_main),
            next_scheduled: self.scheduled.first(&self.entries).filter(|_| is_main).map(|(due, _)| {
                let wait = std::time::Duration::from_nanos(due.saturating_sub(now.ticks));
                now.utc.saturating_add(wait)
            }),
        }
    }
}
