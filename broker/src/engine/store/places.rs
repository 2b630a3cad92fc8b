//! The place of a message: among the entries, in its lane, and in the indexes of its place.

use slab::Slab;

use super::{
    super::effects::{Effects, Line},
    Arrival, Entry, FIXED_LANES, KEPT, Number, Part, Place, Store,
    entry::EXPIRES,
    numbers,
};

impl Store {
    /// Adds a message to the entries. It is in no index yet.
    pub(super) fn store(&mut self, arrival: Arrival, number: Number, fx: &mut Effects) -> u32 {
        let Arrival { message, size, origin, hops } = arrival;
        let slot = self.entries.vacant_entry();
        // At 256 bytes and more each, 2^32 messages are more than the largest memory holds.
        let key = u32::try_from(slot.key()).expect("fewer than 2^32 messages in one entity");
        let entry = slot.insert(Entry::new(message, number, size, hops));
        self.size += entry.size();
        if let Some(origin) = origin {
            self.set_origin(key, origin);
        }
        if let Some(index) = &mut self.index {
            index.insert(Part::Main, number.sequence, number.order, key);
        }
        self.stored(key, fx);
        key
    }

    /// Chooses the lane of a message of the main part.
    #[inline]
    pub(super) fn join_lane(&mut self, key: u32) {
        let entry = &self.entries[key as usize];
        let lane = if self.sessions.is_some() {
            // A message without a session is refused, or dead-lettered, before this. Otherwise the session without a
            // name would keep it.
            let session = entry.message.properties().session_id().unwrap_or("").to_owned();
            self.session_lane(&session)
        } else if self.settings.partitioned {
            FIXED_LANES + u32::from(numbers::partition_of(entry.sequence))
        } else {
            Part::Main.lane()
        };
        self.entries[key as usize].lane = lane;
        if let Some(session) = &mut self.lanes[lane as usize].session {
            session.messages += 1;
        }
    }

    /// Notes an arrival for the receivers in a line. The store has their number, which is mostly 0.
    #[inline]
    pub(super) fn arrived(&self, line: Line, fx: &mut Effects) {
        if self.waiting > 0 {
            fx.note().arrivals.push(line);
        }
    }

    /// Adds an entry to those that can be received, at its place in the order.
    #[inline]
    pub(super) fn make_ready(&mut self, key: u32, fx: &mut Effects) {
        let entry = &mut self.entries[key as usize];
        entry.place = Place::Ready;
        let (lane, part, order) = (entry.lane, entry.part, entry.order);
        self.tally[part as usize].ready += 1;
        let at = &mut self.lanes[lane as usize];
        at.ready.insert(order, key);
        if self.leaves(&self.entries[key as usize]) {
            fx.note().leaving.push((self.id, key));
        }
        self.announce(lane, part, fx);
    }

    /// Notes an arrival for the receivers of a lane.
    #[inline]
    pub(super) fn announce(&mut self, lane: u32, part: Part, fx: &mut Effects) {
        if self.lanes[lane as usize].session.is_none() {
            self.arrived(Line::Messages(self.id, part), fx);
        } else {
            self.session_arrival(lane, fx);
        }
    }

    pub(super) fn set_aside(&mut self, key: u32, fx: &mut Effects) {
        self.changed(key, fx);
        let entry = &mut self.entries[key as usize];
        entry.place = Place::Deferred;
        self.lanes[entry.lane as usize].deferred.insert(entry.sequence, key);
        self.tally[entry.part as usize].deferred += 1;
    }

    pub(super) fn take_aside(&mut self, key: u32) {
        let entry = &self.entries[key as usize];
        self.lanes[entry.lane as usize].deferred.remove(entry.sequence);
        self.tally[entry.part as usize].deferred -= 1;
    }

    pub(super) fn take_ready(&mut self, key: u32) {
        let entry = &self.entries[key as usize];
        let (lane, part, order) = (entry.lane, entry.part, entry.order);
        self.lanes[lane as usize].ready.remove(&self.entries, lane, order);
        self.tally[part as usize].ready -= 1;
        self.relist(lane);
    }

    /// Removes an entry from its lane. It is in none of its indexes any more.
    #[inline]
    pub(super) fn leave_lane(&mut self, lane: u32) {
        if self.sessions.is_some()
            && let Some(session) = &mut self.lanes[lane as usize].session
        {
            session.messages -= 1;
            self.tidy_session(lane);
        }
    }

    #[expect(clippy::inline_always, reason = "a call copies the entry twice, of which few fields are looked at")]
    #[inline(always)]
    pub(super) fn take_entry(&mut self, key: u32, fx: &mut Effects) -> Entry {
        let entry = self.entries.remove(key as usize);
        if let Some(index) = &mut self.index {
            index.remove(entry.part, entry.sequence, entry.order);
        }
        if entry.marks & EXPIRES != 0 {
            self.forget_expiry(key, entry.order);
        }
        self.gone(&entry, fx);
        if self.entries.is_empty() && self.entries.capacity() > KEPT {
            self.give_entries_back();
        }
        entry
    }

    #[cold]
    pub(super) fn give_entries_back(&mut self) {
        self.entries = Slab::new();
        self.asides = None;
    }

    /// Removes a message. It is in no index but its lane.
    #[inline]
    pub(super) fn remove(&mut self, key: u32, fx: &mut Effects) -> Entry {
        let entry = self.take_entry(key, fx);
        self.forget(&entry);
        entry
    }

    #[inline]
    pub(super) fn forget(&mut self, entry: &Entry) {
        self.leave_lane(entry.lane);
        self.size -= entry.size();
    }
}
