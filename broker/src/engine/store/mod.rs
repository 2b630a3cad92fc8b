//! The messages of one queue or subscription, or the scheduled ones of a topic: their places, their order, their
//! locks. It does not depend on other entities; messages for another are in the effects.

mod asides;
mod bury;
mod changes;
mod counts;
mod duplicates;
mod entry;
mod events;
mod index;
mod lane;
mod locks;
mod numbers;
#[cfg(feature = "durable")]
mod pages;
mod peek;
mod places;
mod ready;
mod receive;
#[cfg(feature = "durable")]
mod record;
mod schedule;
mod session;
mod sessions;
mod settle;
mod sorted;
#[cfg(test)]
mod tests;
mod totals;

use consign_core::administration::QueueSettings;
use slab::Slab;

pub use self::{counts::Ages, totals::Totals};
use consign_core::message::{Properties, SequenceNumber, Stored};

use self::{
    asides::{Asides, Expiry},
    changes::Changes,
    counts::Tally,
    duplicates::Duplicates,
    index::Index,
    lane::Lane,
    locks::{LockSpan, Locks},
    numbers::Numbers,
    schedule::Scheduled,
    sessions::Sessions,
    sorted::Sorted,
};
pub(crate) use self::{
    duplicates::{Id, Seen},
    entry::{Entry, Place},
    events::Event,
    numbers::{Number, PARTITIONS, Upcoming, common_key},
    peek::Peeked,
    receive::{Locked, Source},
    sessions::Accepted,
    settle::{Refused, Settlement},
};
#[cfg(feature = "durable")]
pub(crate) use self::{pages::say_expired, peek::show};
use super::{
    effects::{Effects, Line},
    ids::{Part, StoreId},
    time::{NEVER, Now, Ticks, ticks, whole_millis},
};
use crate::Quirks;

/// Places that an empty table keeps for the next burst. The memory of a larger one is released when it is empty.
pub(super) const KEPT: usize = 1_024;
/// Lanes that every store has: one for each part.
const FIXED_LANES: u32 = 3;

#[derive(Debug)]
pub(crate) struct Store {
    id: StoreId,
    settings: QueueSettings,
    /// The lock duration of the settings, which every delivery needs.
    lock: LockSpan,
    quirks: Quirks,
    entries: Slab<Entry>,
    /// `None` until an entry has any.
    asides: Option<Box<Asides>>,
    /// For peeks, where the lanes are not in the order of the numbers.
    index: Option<Box<Index>>,
    /// The lanes: the first three are of the three parts; after them come those of partitions, or those of sessions.
    lanes: Slab<Lane>,
    /// The locks of all parts, except those of sessions.
    locks: Locks,
    /// When messages of the main part expire, if they do. At one instant the order is that of acceptance.
    expiries: Sorted<u128>,
    numbers: Numbers,
    tally: [Tally; 3],
    totals: Totals,
    size: u64,
    scheduled: Scheduled,
    sessions: Option<Box<Sessions>>,
    duplicates: Option<Box<Duplicates>>,
    /// When dead letters that could not be forwarded are tried again.
    retry: Ticks,
    accessed: Ticks,
    /// How many receivers wait, which keep an idle entity.
    waiting: u32,
    /// The instant at which the engine checks this store.
    armed: Ticks,
    changes: Changes,
    /// Messages that are being fetched.
    #[cfg(feature = "durable")]
    fetching: u32,
    /// Whether a message to be forwarded may wait for one that is fetched.
    #[cfg(feature = "durable")]
    holds_up: bool,
    #[cfg(feature = "durable")]
    round: pages::Round,
}

/// A message as it enters a store.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) message: Stored,
    /// The size that counts against the quota: as its sender sent it, whatever the broker has added.
    pub(crate) size: u64,
    pub(crate) origin: Option<SequenceNumber>,
    pub(crate) hops: u8,
}

impl Arrival {
    /// Creates an arrival for a message that is new to the broker.
    pub(crate) fn new(message: Stored) -> Self {
        let size = message.size() as u64 + QueueSettings::OVERHEAD;
        Self { message, size, origin: None, hops: 0 }
    }
}

impl Store {
    pub(super) fn new(id: StoreId, settings: QueueSettings, now: Now, quirks: Quirks) -> Self {
        let mut lanes = Slab::new();
        let partitions = if settings.partitioned && !settings.requires_session { PARTITIONS.into() } else { 0 };
        for _ in 0..FIXED_LANES + partitions {
            lanes.insert(Lane::default());
        }
        let window = settings.duplicate_detection.map(ticks);
        Self {
            id,
            entries: Slab::new(),
            asides: None,
            index: Index::new(&settings),
            lanes,
            locks: Locks::default(),
            expiries: Sorted::default(),
            numbers: if settings.partitioned { Numbers::partitioned() } else { Numbers::plain() },
            tally: Default::default(),
            totals: Totals::default(),
            size: 0,
            scheduled: Scheduled::default(),
            sessions: settings.requires_session.then(Box::default),
            duplicates: window.map(|window| Box::new(Duplicates::new(window, settings.max_duplicate_ids))),
            retry: NEVER,
            accessed: now.ticks,
            waiting: 0,
            armed: NEVER,
            changes: Changes::default(),
            #[cfg(feature = "durable")]
            fetching: 0,
            #[cfg(feature = "durable")]
            holds_up: false,
            #[cfg(feature = "durable")]
            round: pages::Round::default(),
            lock: LockSpan::new(settings.lock_duration),
            settings,
            quirks,
        }
    }

    pub(super) fn id(&self) -> StoreId {
        self.id
    }

    pub(super) fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// Bytes that count against the quota.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn has_ready(&self, part: Part) -> bool {
        self.tally[part as usize].ready > 0
    }

    /// Records a use of the entity. Events that were due before it was opened are applied at an instant that has
    /// passed.
    #[inline]
    pub(super) fn touch(&mut self, now: Now) {
        self.touch_at(now.ticks);
    }

    /// Records a use of the entity at `instant`, unless there was a later one.
    #[inline]
    pub(super) fn touch_at(&mut self, instant: Ticks) {
        self.accessed = self.accessed.max(instant);
    }

    /// Returns the instant of the last use.
    pub(super) fn accessed(&self) -> Ticks {
        self.accessed
    }

    /// Records that a receiver begins to wait here.
    #[inline]
    pub(super) fn begin_waiting(&mut self) {
        self.waiting += 1;
    }

    /// Records that a receiver no longer waits. Until now it has used the entity.
    #[inline]
    pub(super) fn end_waiting(&mut self, now: Now, fx: &mut Effects) {
        self.waiting -= 1;
        self.touch(now);
        if self.settings.auto_delete_on_idle.is_some() {
            self.arm_next(fx);
        }
    }

    /// Makes the engine check this store when the next event is due.
    fn arm_next(&mut self, fx: &mut Effects) {
        if let Some((at, _)) = self.next_event() {
            self.arm(at, fx);
        }
    }

    /// Applies new settings. Locks are released if their duration changes.
    pub(super) fn configure(&mut self, settings: QueueSettings, now: Now, fx: &mut Effects) {
        let lock_changes = settings.lock_duration != self.settings.lock_duration;
        self.lock = LockSpan::new(settings.lock_duration);
        self.settings = settings;
        if let Some((duplicates, window)) = self.duplicates.as_mut().zip(self.settings.duplicate_detection) {
            duplicates.configure(now.ticks, ticks(window), self.settings.max_duplicate_ids);
        }
        if lock_changes {
            self.release_all(now, fx);
        }
        self.touch(now);
        if self.settings.auto_delete_on_idle.is_some() {
            self.arm(now.ticks, fx);
        }
    }

    /// Makes the engine check this store at `instant`.
    #[inline]
    pub(super) fn arm(&mut self, instant: Ticks, fx: &mut Effects) {
        if instant < self.armed {
            self.armed = instant;
            fx.note().due.push((instant, self.id));
        }
    }

    pub(super) fn armed(&self) -> Ticks {
        self.armed
    }

    pub(super) fn disarm(&mut self) {
        self.armed = NEVER;
    }

    /// Whether ids are remembered here.
    #[inline]
    pub(super) fn detects_duplicates(&self) -> bool {
        self.duplicates.is_some()
    }

    /// Looks `properties` up among the remembered ids, if duplicates are detected here.
    #[inline]
    pub(super) fn look_for_duplicate(&mut self, now: Now, properties: &Properties) -> Option<Seen> {
        let partitioned = self.settings.partitioned;
        Some(self.duplicates.as_mut()?.look(now.ticks, properties, partitioned))
    }

    pub(super) fn record_id(&mut self, now: Now, id: Id) {
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.record(now.ticks, id);
        }
    }

    /// Returns how many more ids fit, if duplicates are detected here.
    pub(super) fn space_for_ids(&mut self, now: Now) -> Option<usize> {
        let duplicates = self.duplicates.as_mut()?;
        duplicates.forget_old(now.ticks);
        Some(duplicates.capacity().saturating_sub(duplicates.len()))
    }

    #[inline]
    pub(super) fn number(&mut self, now: Now, message: &Stored) -> Number {
        self.numbers.next(now.utc, message.properties(), self.settings.duplicate_detection.is_some())
    }

    /// Returns the numbers that the next messages will have.
    pub(super) fn upcoming(&self) -> Upcoming {
        Upcoming::new(self.numbers.clone(), self.settings.duplicate_detection.is_some())
    }

    /// Stores a numbered message, where it can be received.
    #[inline]
    pub(super) fn insert(&mut self, now: Now, arrival: Arrival, number: Number, fx: &mut Effects) {
        self.totals.arrived += 1;
        let key = self.store(arrival, number, fx);
        if let Some(ttl) = self.entries[key as usize].message.properties().time_to_live() {
            let ticks = now.ticks.saturating_add(whole_millis(ttl));
            if self.set_expiry(key, Expiry { ticks, shown: number.enqueued.saturating_add(ttl) }) {
                self.arm(ticks, fx);
            }
        }
        self.join_lane(key);
        self.make_ready(key, fx);
    }
}
