use std::time::Duration;

use hashbrown::{HashTable, hash_table::Entry};

use super::{
    Begin, StoreError, StoreErrorKind,
    slots::{Digest, Slots, State},
};

/// The right to end a reservation in a [`MemoryStore`](super::MemoryStore).
#[doc(hidden)]
#[derive(Debug)]
pub struct MemoryToken {
    digest: Digest,
    holder: u64,
    slot: u32,
}

/// All that a store in memory knows. Instants are nanoseconds of the clock's monotonic time.
pub(super) struct Known {
    window: u64,
    max: usize,
    max_reserved: usize,
    /// The slots of ids that are known, by their digests. A committed id whose window is over may have a slot that stands
    /// here no more, until it is the oldest.
    table: HashTable<u32>,
    slots: Slots,
    /// Before that no lease is over.
    next_lease_end: u64,
    next_holder: u64,
}

impl Known {
    /// How many ids one call forgets at most. Each call adds one, so that the memory does not grow.
    const FORGET: usize = 32;
    const ALWAYS_IN_PROGRESS: usize = 1_024;

    pub(super) fn new(window: u64, max: usize) -> Self {
        Self {
            window,
            max,
            max_reserved: (max / 4).max(Self::ALWAYS_IN_PROGRESS),
            table: HashTable::new(),
            slots: Slots::new(),
            next_lease_end: u64::MAX,
            next_holder: 0,
        }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        (self.max, self.max_reserved) = (max, (max / 4).max(Self::ALWAYS_IN_PROGRESS));
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub(super) fn begin(&mut self, digest: Digest, now: u64, lease: u64) -> Result<Begin<MemoryToken>, StoreError> {
        self.forget_committed(now);
        if self.table.len() == self.table.capacity() {
            self.grow();
        }
        let (until, is_full, slots) = (now.saturating_add(lease), self.is_full(), &self.slots);
        match self.table.entry(digest[0], |&at| slots[at].digest == digest, |&at| slots[at].digest[0]) {
            Entry::Vacant(free) if !is_full => {
                let slot = self.slots.reserve(digest, until, self.next_holder);
                free.insert(slot);
                Ok(Begin::New(self.token(digest, slot, until)))
            }
            Entry::Vacant(_) => self.begin_in_full(digest, now, until),
            Entry::Occupied(found) => {
                let slot = *found.get();
                self.begin_known(slot, now, until)
            }
        }
    }

    /// The right of the next holder.
    #[inline]
    fn token(&mut self, digest: Digest, slot: u32, until: u64) -> MemoryToken {
        let holder = self.next_holder;
        self.next_holder += 1;
        self.next_lease_end = self.next_lease_end.min(until);
        MemoryToken { digest, holder, slot }
    }

    #[inline(never)]
    fn begin_known(&mut self, at: u32, now: u64, until: u64) -> Result<Begin<MemoryToken>, StoreError> {
        let next_holder = self.next_holder;
        let slot = &mut self.slots[at];
        let (digest, left) = (slot.digest, slot.until.saturating_sub(now));
        match &mut slot.state {
            State::Reserved { .. } if left > 0 => Ok(Begin::InProgress { left: Duration::from_nanos(left) }),
            State::Reserved { holder, .. } => {
                (*holder, slot.until) = (next_holder, until);
                Ok(Begin::New(self.token(digest, at, until)))
            }
            _ if left > 0 => Ok(Begin::Committed),
            // Its slot is free when it is the oldest.
            _ => {
                self.remove(at);
                self.begin_in_full(digest, now, until)
            }
        }
    }

    #[cold]
    fn begin_in_full(&mut self, digest: Digest, now: u64, until: u64) -> Result<Begin<MemoryToken>, StoreError> {
        self.make_room(now)?;
        let slot = self.slots.reserve(digest, until, self.next_holder);
        self.insert(digest, slot);
        Ok(Begin::New(self.token(digest, slot, until)))
    }

    /// Reserves capacity for four times as many ids, because all of them are moved by that.
    #[cold]
    fn grow(&mut self) {
        let (len, slots) = (self.table.len(), &self.slots);
        // Where half of the table was removed from, it has capacity once it is in order.
        if len > self.table.num_buckets() / 2 {
            let more = (3 * len).min(self.max.saturating_sub(len));
            self.table.reserve(more, |&at| slots[at].digest[0]);
            self.slots.make_room(more);
        }
    }

    pub(super) fn renew(&mut self, token: &MemoryToken, until: u64) -> Result<(), StoreError> {
        let Some((slot, _)) = self.slots.held(token.slot, token.holder) else {
            return Err(StoreError::new(StoreErrorKind::Superseded));
        };
        slot.until = until;
        self.next_lease_end = self.next_lease_end.min(until);
        Ok(())
    }

    #[inline]
    pub(super) fn commit(&mut self, token: &MemoryToken, now: u64) -> Result<(), StoreError> {
        let until = now.saturating_add(self.window);
        let Some((_, place)) = self.slots.held(token.slot, token.holder) else {
            return self.commit_late(token.digest, now, until);
        };
        self.slots.commit(place, until);
        Ok(())
    }

    /// Commits an id whose lease is over.
    #[cold]
    fn commit_late(&mut self, digest: Digest, now: u64, until: u64) -> Result<(), StoreError> {
        let slots = &self.slots;
        if let Ok(found) = self.table.find_entry(digest[0], |&at| slots[at].digest == digest) {
            let slot = &self.slots[*found.get()];
            match slot.state {
                State::Reserved { .. } => return Err(StoreError::new(StoreErrorKind::Superseded)),
                _ if slot.until > now => return Ok(()),
                _ => drop(found.remove()),
            }
        }
        self.make_room(now)?;
        let at = self.slots.add_committed(digest, until);
        self.insert(digest, at);
        Ok(())
    }

    pub(super) fn forget(&mut self, token: &MemoryToken) {
        if let Some((_, place)) = self.slots.held(token.slot, token.holder) {
            self.free_reserved(place);
        }
    }

    fn free_reserved(&mut self, place: u32) {
        let at = self.slots.free_reserved(place);
        self.remove(at);
    }

    /// Forgets some ids whose window is over, the oldest first.
    #[inline]
    fn forget_committed(&mut self, now: u64) {
        for _ in 0..Self::FORGET {
            let Some(at) = self.slots.oldest_over(now) else { break };
            self.remove(at);
            self.slots.free_oldest();
        }
    }

    /// Does nothing if the id was forgotten before.
    fn remove(&mut self, at: u32) {
        if let Ok(found) = self.table.find_entry(self.slots[at].digest[0], |&other| other == at) {
            found.remove();
        }
    }

    fn insert(&mut self, digest: Digest, at: u32) {
        let slots = &self.slots;
        self.table.insert_unique(digest[0], at, |&at| slots[at].digest[0]);
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.len() >= self.max || self.slots.reserved() as usize >= self.max_reserved
    }

    /// Fails unless one more can be reserved.
    fn make_room(&mut self, now: u64) -> Result<(), StoreError> {
        if self.is_full() && self.next_lease_end <= now {
            self.forget_reserved(now);
        }
        if self.is_full() { Err(StoreError::new(StoreErrorKind::Full)) } else { Ok(()) }
    }

    /// Forgets all reserved ids whose lease is over.
    fn forget_reserved(&mut self, now: u64) {
        self.next_lease_end = u64::MAX;
        // From the last one on, because a place that becomes free is taken by the last.
        for place in (0..self.slots.reserved()).rev() {
            let until = self.slots.reserved_at(place).until;
            if until <= now {
                self.free_reserved(place);
            } else {
                self.next_lease_end = self.next_lease_end.min(until);
            }
        }
    }
}
