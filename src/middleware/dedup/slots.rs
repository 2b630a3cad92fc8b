use std::{
    mem,
    ops::{Index, IndexMut},
};

/// A keyed digest. Two halves instead of 128 bits, which would be aligned to 16 bytes.
pub(super) type Digest = [u64; 2];

/// No slot.
const NONE: u32 = u32::MAX;

/// What is known of each id. A slot keeps its number from the reservation of an id until the id is forgotten.
pub(super) struct Slots {
    all: Vec<Slot>,
    /// The first slot that is free; each names the next one.
    free: u32,
    /// The slots of reserved ids, in no order.
    reserved: Vec<u32>,
    /// The ends of the list of committed ids, in the order of their commits; each names the next one.
    oldest: u32,
    newest: u32,
}

pub(super) struct Slot {
    pub(super) digest: Digest,
    /// The end of the lease, or of the window.
    pub(super) until: u64,
    pub(super) state: State,
}

pub(super) enum State {
    Free {
        next: u32,
    },
    Reserved {
        holder: u64,
        /// Where it stands among the reserved ones.
        place: u32,
    },
    Committed {
        next: u32,
    },
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self { all: Vec::new(), free: NONE, reserved: Vec::new(), oldest: NONE, newest: NONE }
    }

    /// How many ids are reserved.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are 2^31 ids at most")]
    pub(super) fn reserved(&self) -> u32 {
        self.reserved.len() as u32
    }

    /// The reserved id that stands at this place.
    pub(super) fn reserved_at(&self, place: u32) -> &Slot {
        &self[self.reserved[place as usize]]
    }

    /// Reserves capacity for so many more.
    pub(super) fn make_room(&mut self, more: usize) {
        self.all.reserve(more);
    }

    /// Reserves an id, in a slot that was free.
    #[inline]
    pub(super) fn reserve(&mut self, digest: Digest, until: u64, holder: u64) -> u32 {
        let state = State::Reserved { holder, place: self.reserved() };
        let at = self.add(Slot { digest, until, state });
        self.reserved.push(at);
        at
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are 2^31 ids at most, and 32 that are over")]
    fn add(&mut self, slot: Slot) -> u32 {
        let at = self.free;
        let Some(free) = self.all.get_mut(at as usize) else {
            self.all.push(slot);
            return self.all.len() as u32 - 1;
        };
        if let State::Free { next } = mem::replace(free, slot).state {
            self.free = next;
        }
        at
    }

    /// The slot of a reservation, and its place among the reserved ones, if the holder has it still.
    #[inline]
    pub(super) fn held(&mut self, at: u32, holder: u64) -> Option<(&mut Slot, u32)> {
        let slot = self.all.get_mut(at as usize)?;
        match slot.state {
            State::Reserved { holder: by, place } if by == holder => Some((slot, place)),
            _ => None,
        }
    }

    /// Commits the id that stands at this place among the reserved ones.
    #[inline]
    pub(super) fn commit(&mut self, place: u32, until: u64) {
        let at = self.take(place);
        self.append(at, until);
    }

    /// Adds an id that is committed without a reservation.
    pub(super) fn add_committed(&mut self, digest: Digest, until: u64) -> u32 {
        let at = self.add(Slot { digest, until, state: State::Committed { next: NONE } });
        self.append(at, until);
        at
    }

    #[inline]
    fn append(&mut self, at: u32, until: u64) {
        let slot = &mut self[at];
        slot.until = until;
        slot.state = State::Committed { next: NONE };
        match mem::replace(&mut self.newest, at) {
            NONE => self.oldest = at,
            before => self[before].state = State::Committed { next: at },
        }
    }

    /// Frees the slot that stands at this place among the reserved ones.
    pub(super) fn free_reserved(&mut self, place: u32) -> u32 {
        let at = self.take(place);
        self.free(at);
        at
    }

    /// Removes a place among the reserved ones, which the last of them takes.
    #[inline]
    fn take(&mut self, place: u32) -> u32 {
        let at = self.reserved.swap_remove(place as usize);
        if let Some(&moved) = self.reserved.get(place as usize)
            && let State::Reserved { place: of_moved, .. } = &mut self[moved].state
        {
            *of_moved = place;
        }
        at
    }

    /// The committed id that is forgotten next, if its window is over.
    #[inline]
    pub(super) fn oldest_over(&self, now: u64) -> Option<u32> {
        self.all.get(self.oldest as usize).filter(|slot| slot.until <= now).map(|_| self.oldest)
    }

    /// Frees the slot of the oldest committed id.
    pub(super) fn free_oldest(&mut self) {
        let at = self.oldest;
        if let State::Committed { next } = self[at].state {
            self.oldest = next;
            if next == NONE {
                self.newest = NONE;
            }
            self.free(at);
        }
    }

    fn free(&mut self, at: u32) {
        self[at].state = State::Free { next: self.free };
        self.free = at;
    }
}

impl Index<u32> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, at: u32) -> &Slot {
        &self.all[at as usize]
    }
}

impl IndexMut<u32> for Slots {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.all[at as usize]
    }
}
