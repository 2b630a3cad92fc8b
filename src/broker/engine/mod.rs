//! A queue as a deterministic state machine: commands and the time go in, effects come out. No clock, no task, no I/O.

mod entry;
mod part;
mod peek;
mod receive;
mod send;
mod settle;
mod time;

use std::collections::BTreeSet;

use slab::Slab;

use self::{entry::Entry, part::Indexes};
pub(super) use self::{
    entry::{Part, Ticks},
    receive::Locked,
    settle::Refused,
    time::Now,
};
use super::QueueSettings;
use crate::{
    message::{SequenceNumber, Stored},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
};

/// One queue with its dead-letter sub-queue.
#[derive(Debug)]
pub(super) struct Engine {
    settings: QueueSettings,
    entries: Slab<Entry>,
    main: Indexes,
    dead: Indexes,
    /// When messages of the main part expire; only those that do.
    expiries: BTreeSet<(Ticks, u32)>,
    last_sequence: SequenceNumber,
    last_enqueued: Timestamp,
    size: u64,
    expired: Vec<Stored>,
    /// Locks are numbered, so that a lease of an earlier delivery is told from the current one.
    last_lock: u64,
}

/// How many messages a queue holds, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Messages that can be received.
    pub active: usize,
    /// Messages that a receiver holds.
    pub locked: usize,
    /// Messages that only their sequence number brings back.
    pub deferred: usize,
    /// Messages in the dead-letter sub-queue, in any state. On a dead-letter sub-queue itself, 0.
    pub dead_lettered: usize,
    /// Bytes that the queue counts against its size, dead letters included.
    pub size: u64,
}

impl Engine {
    pub(super) fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            entries: Slab::new(),
            main: Indexes::new(Part::Main),
            dead: Indexes::new(Part::DeadLetter),
            expiries: BTreeSet::new(),
            last_sequence: SequenceNumber::new(0),
            last_enqueued: Timestamp::EPOCH,
            size: 0,
            expired: Vec::new(),
            last_lock: 0,
        }
    }

    pub(super) fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    pub(super) fn counts(&mut self, now: Now, part: Part) -> Counts {
        self.advance(now);
        let dead = self.dead.ready() + self.dead.locked() + self.dead.deferred();
        let (indexes, dead_lettered) = match part {
            Part::Main => (&self.main, dead),
            Part::DeadLetter => (&self.dead, 0),
        };
        Counts {
            active: indexes.ready(),
            locked: indexes.locked(),
            deferred: indexes.deferred(),
            dead_lettered,
            size: self.size,
        }
    }

    /// Messages of `part` that became ready since this was last asked.
    pub(super) fn take_arrivals(&mut self, part: Part) -> usize {
        self.indexes(part).take_arrivals()
    }

    pub(super) fn has_ready(&self, part: Part) -> bool {
        match part {
            Part::Main => self.main.ready() > 0,
            Part::DeadLetter => self.dead.ready() > 0,
        }
    }

    #[inline]
    fn indexes(&mut self, part: Part) -> &mut Indexes {
        match part {
            Part::Main => &mut self.main,
            Part::DeadLetter => &mut self.dead,
        }
    }

    /// One part's indexes, and the messages.
    #[inline]
    fn split(&mut self, part: Part) -> (&mut Indexes, &mut Slab<Entry>) {
        match part {
            Part::Main => (&mut self.main, &mut self.entries),
            Part::DeadLetter => (&mut self.dead, &mut self.entries),
        }
    }

    #[inline]
    fn remove_lock(&mut self, part: Part, key: u32) {
        let (indexes, entries) = self.split(part);
        indexes.remove_lock(entries, key);
    }

    /// Forgets a message for good. It stands in no index any more. The bytes of a body may be the user's, and their
    /// drop the user's code, so the caller drops it where no lock is held.
    #[inline]
    fn remove(&mut self, key: u32) -> Stored {
        let entry = self.entries.remove(key as usize);
        self.size -= entry.size;
        self.forget_expiry(&entry, key);
        entry.message
    }

    /// Messages that were removed because they expired, to be dropped where no lock is held.
    #[inline]
    pub(super) fn take_expired(&mut self) -> Vec<Stored> {
        std::mem::take(&mut self.expired)
    }

    #[inline]
    fn forget_expiry(&mut self, entry: &Entry, key: u32) {
        if entry.expires != entry::NEVER {
            self.expiries.remove(&(entry.expires, key));
        }
    }

    /// Moves a message that stands in no index to the dead-letter sub-queue. It keeps its sequence number, and reads as
    /// many deliveries there as it had.
    fn bury(&mut self, key: u32, deliveries: u32, dead_letter: DeadLetter) {
        let entry = &mut self.entries[key as usize];
        let expiry = (entry.expires, key);
        entry.expires = entry::NEVER;
        entry.expires_at = Timestamp::MAX;
        entry.failures = deliveries.saturating_sub(1);
        let before = entry.message.size() as u64;
        let properties = entry.message.properties_mut().application_mut();
        properties.merge(dead_letter.changes.into_properties());
        properties.insert(DeadLetter::REASON, dead_letter.reason.as_str());
        properties.remove(DeadLetter::DESCRIPTION);
        if !dead_letter.description.is_empty() {
            properties.insert(DeadLetter::DESCRIPTION, dead_letter.description.into_owned());
        }
        let growth = (entry.message.size() as u64).saturating_sub(before);
        entry.size += growth;
        self.size += growth;
        self.expiries.remove(&expiry);
        self.dead.make_ready(entry, key);
    }

    fn bury_undeliverable(&mut self, key: u32) {
        let deliveries = self.entries[key as usize].failures;
        let description = format!("Message could not be consumed after {deliveries} delivery attempts.");
        self.bury(key, deliveries, DeadLetter::new(DeadLetterReason::MaxDeliveryCountExceeded, description));
    }
}
