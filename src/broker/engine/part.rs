use std::collections::{BTreeMap, VecDeque};

use slab::Slab;

use super::entry::{Entry, NIL, Part, Place, Ticks};
use crate::message::SequenceNumber;

/// The indexes over one half of a queue. The messages themselves are in the slab.
///
/// New messages arrive in sequence order and leave at the front, so they stand in a deque and cost no tree. What comes
/// back behind the front goes into a tree beside it. An entry that leaves from the middle stays in the deque as a stale
/// pair until it reaches the front, or until there are as many stale pairs as good ones.
#[derive(Debug)]
pub(super) struct Indexes {
    part: Part,
    fresh: VecDeque<(SequenceNumber, u32)>,
    returned: BTreeMap<SequenceNumber, u32>,
    deferred: BTreeMap<SequenceNumber, u32>,
    first_lock: u32,
    last_lock: u32,
    ready: usize,
    locked: usize,
    /// Messages that became ready since someone was last told.
    arrivals: usize,
}

impl Indexes {
    pub(super) fn new(part: Part) -> Self {
        Self {
            part,
            fresh: VecDeque::new(),
            returned: BTreeMap::new(),
            deferred: BTreeMap::new(),
            first_lock: NIL,
            last_lock: NIL,
            ready: 0,
            locked: 0,
            arrivals: 0,
        }
    }

    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn locked(&self) -> usize {
        self.locked
    }

    pub(super) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    pub(super) fn take_arrivals(&mut self) -> usize {
        std::mem::take(&mut self.arrivals)
    }

    /// Puts an entry among those that can be received, at the place of its sequence number.
    #[inline]
    pub(super) fn make_ready(&mut self, entry: &mut Entry, key: u32) {
        entry.place = Place::Ready;
        entry.part = self.part;
        let sequence = entry.sequence;
        if self.fresh.back().is_none_or(|&(last, _)| last < sequence) {
            self.fresh.push_back((sequence, key));
        } else if self.fresh.front().is_some_and(|&(first, _)| sequence < first) {
            self.fresh.push_front((sequence, key));
        } else {
            self.returned.insert(sequence, key);
        }
        self.ready += 1;
        self.arrivals += 1;
    }

    /// Takes the entry with the lowest sequence number of those that can be received.
    #[inline]
    pub(super) fn pop_ready(&mut self, entries: &Slab<Entry>) -> Option<u32> {
        while let Some(&(sequence, key)) = self.fresh.front() {
            if self.is_ready(entries, sequence, key) {
                break;
            }
            self.fresh.pop_front();
        }
        let fresh = self.fresh.front().copied();
        let key = match (fresh, self.returned.first_key_value()) {
            (Some((sequence, _)), Some((&returned, _))) if returned < sequence => self.returned.pop_first()?.1,
            (Some((_, key)), _) => {
                self.fresh.pop_front();
                key
            }
            (None, _) => self.returned.pop_first()?.1,
        };
        self.ready -= 1;
        Some(key)
    }

    /// Takes an entry out from wherever it stands among those that can be received.
    pub(super) fn remove_ready(&mut self, entries: &Slab<Entry>, sequence: SequenceNumber) {
        self.ready -= 1;
        if self.returned.remove(&sequence).is_some() {
            return;
        }
        if self.fresh.len() > 64 && self.fresh.len() > 2 * (self.ready - self.returned.len()) {
            let part = self.part;
            self.fresh.retain(|&(kept, key)| kept != sequence && is_ready(entries, part, kept, key));
        }
    }

    fn is_ready(&self, entries: &Slab<Entry>, sequence: SequenceNumber, key: u32) -> bool {
        is_ready(entries, self.part, sequence, key)
    }

    /// Appends an entry to the locks. All locks of a queue last equally long, so the list is in order of their ends.
    #[inline]
    pub(super) fn push_lock(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let last = self.last_lock;
        let entry = &mut entries[key as usize];
        (entry.previous, entry.next) = (last, NIL);
        match entries.get_mut(last as usize) {
            Some(last) => last.next = key,
            None => self.first_lock = key,
        }
        self.last_lock = key;
        self.locked += 1;
    }

    #[inline]
    pub(super) fn remove_lock(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let entry = &mut entries[key as usize];
        let (previous, next) = (entry.previous, entry.next);
        (entry.previous, entry.next) = (NIL, NIL);
        match entries.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.first_lock = next,
        }
        match entries.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.last_lock = previous,
        }
        self.locked -= 1;
    }

    /// The lock that ends first, and when.
    #[inline]
    pub(super) fn first_lock(&self, entries: &Slab<Entry>) -> Option<(u32, Ticks)> {
        entries.get(self.first_lock as usize).map(|entry| (self.first_lock, entry.locked_until))
    }

    pub(super) fn defer(&mut self, entry: &mut Entry, key: u32) {
        entry.place = Place::Deferred;
        self.deferred.insert(entry.sequence, key);
    }

    pub(super) fn deferred_key(&self, sequence: SequenceNumber) -> Option<u32> {
        self.deferred.get(&sequence).copied()
    }

    pub(super) fn take_deferred(&mut self, sequence: SequenceNumber) {
        self.deferred.remove(&sequence);
    }

    /// Up to `max` entries from sequence number `from` on, in order, whatever their place.
    pub(super) fn ascending(&self, entries: &Slab<Entry>, from: SequenceNumber, max: usize) -> Vec<u32> {
        let start = self.fresh.partition_point(|&(sequence, _)| sequence < from);
        let fresh =
            self.fresh.range(start..).filter(|&&(sequence, key)| self.is_ready(entries, sequence, key)).copied();
        let trees = [&self.returned, &self.deferred];
        let mut found: Vec<_> = fresh.take(max).collect();
        for tree in trees {
            found.extend(tree.range(from..).take(max).map(|(&sequence, &key)| (sequence, key)));
        }
        let mut lock = self.first_lock;
        while let Some(entry) = entries.get(lock as usize) {
            if entry.sequence >= from {
                found.push((entry.sequence, lock));
            }
            lock = entry.next;
        }
        found.sort_unstable();
        found.truncate(max);
        found.into_iter().map(|(_, key)| key).collect()
    }
}

fn is_ready(entries: &Slab<Entry>, part: Part, sequence: SequenceNumber, key: u32) -> bool {
    entries
        .get(key as usize)
        .is_some_and(|entry| entry.sequence == sequence && entry.place == Place::Ready && entry.part == part)
}
