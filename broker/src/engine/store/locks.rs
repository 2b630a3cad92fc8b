use std::time::Duration;

use consign_core::time::Timestamp;
use slab::Slab;

use super::{
    Now, Store, Ticks,
    entry::{Entry, NIL},
    ticks,
};

/// The duration of a lock, in the units that deliveries use.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockSpan {
    pub(super) ticks: Ticks,
    pub(super) millis: u32,
}

impl LockSpan {
    pub(super) fn new(duration: Duration) -> Self {
        Self { ticks: ticks(duration), millis: u32::try_from(duration.as_millis()).unwrap_or(u32::MAX) }
    }

    /// Returns the end that is shown for a lock that begins now.
    #[inline]
    pub(super) fn shown_from(self, now: Now) -> Timestamp {
        Timestamp::from_millis(now.utc.as_millis().saturating_add(i64::from(self.millis)))
    }
}

/// Locks that end by their own time, or with one session. The list is threaded through the entries, in order of their
/// ends. All locks of an entity last equally long, so a new one is mostly appended.
#[derive(Debug)]
pub(super) struct Locks {
    first: u32,
    last: u32,
}

impl Default for Locks {
    fn default() -> Self {
        Self { first: NIL, last: NIL }
    }
}

impl Locks {
    /// Adds an entry whose lock ends `until` then to the list.
    #[inline]
    pub(super) fn push<'e>(&mut self, entries: &'e mut Slab<Entry>, key: u32, until: Ticks) -> &'e mut Entry {
        let mut previous = self.last;
        // A call that reads the clock earlier than another may come after it.
        while let Some(later) = entries.get(previous as usize).filter(|entry| entry.locked_until > until) {
            previous = later.previous;
        }
        let next = match entries.get_mut(previous as usize) {
            Some(previous) => std::mem::replace(&mut previous.next, key),
            None => std::mem::replace(&mut self.first, key),
        };
        match entries.get_mut(next as usize) {
            Some(next) => next.previous = key,
            None => self.last = key,
        }
        let entry = &mut entries[key as usize];
        (entry.previous, entry.next, entry.locked_until) = (previous, next, until);
        entry
    }

    #[inline]
    pub(super) fn remove(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let entry = &mut entries[key as usize];
        let (previous, next) = (entry.previous, entry.next);
        (entry.previous, entry.next) = (NIL, NIL);
        self.unlink(entries, previous, next);
    }

    /// Closes the gap that a lock between these two has left.
    #[inline]
    pub(super) fn unlink(&mut self, entries: &mut Slab<Entry>, previous: u32, next: u32) {
        match entries.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match entries.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
    }

    /// Returns the lock that ends first, and when.
    #[inline]
    pub(super) fn first(&self, entries: &Slab<Entry>) -> Option<(u32, Ticks)> {
        entries.get(self.first as usize).map(|entry| (self.first, entry.locked_until))
    }

    pub(super) fn iter<'e>(&self, entries: &'e Slab<Entry>) -> impl Iterator<Item = u32> + use<'e> {
        let mut key = self.first;
        std::iter::from_fn(move || {
            let entry = entries.get(key as usize)?;
            Some(std::mem::replace(&mut key, entry.next))
        })
    }
}

impl Store {
    #[inline]
    pub(super) fn locks(&mut self, lane: u32) -> (&mut Locks, &mut Slab<Entry>) {
        if self.sessions.is_some()
            && let Some(session) = &mut self.lanes[lane as usize].session
        {
            return (&mut session.locks, &mut self.entries);
        }
        (&mut self.locks, &mut self.entries)
    }

    #[inline]
    pub(super) fn locks_of(&mut self, key: u32) -> (&mut Locks, &mut Slab<Entry>) {
        let lane = if self.sessions.is_some() { self.entries[key as usize].lane } else { 0 };
        self.locks(lane)
    }

    /// Ends the lock of an entry, which is then in no index but its lane.
    #[inline]
    pub(super) fn remove_lock(&mut self, key: u32) {
        let entry = &mut self.entries[key as usize];
        entry.lock = 0;
        let part = entry.part;
        let (locks, entries) = self.locks_of(key);
        locks.remove(entries, key);
        self.tally[part as usize].locked -= 1;
    }
}
