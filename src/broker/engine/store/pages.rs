//! Messages that are on the disk and not in memory.
//!
//! Only messages that wait to be received are, and only those whose record is written: of each the entry stays, with all
//! that orders and counts it. What is asked for is fetched and comes back as [`Store::page_in`]; until then a receiver
//! waits as if there were nothing.

use super::{
    Effects, NEVER, Part, Place, Store,
    bury::mark,
    changes::{AWAY, CHANGED, EXPIRED, WANTED, WRITTEN},
    events::ttl_expired,
    sorted::place,
};
use crate::{Message, broker::engine::effects::Wanted, message::Stored, time::Timestamp};

/// How many messages are fetched at once at most, and how many bytes.
const FETCHED: usize = 256;
const FETCHED_BYTES: u64 = 4 << 20;

impl Store {
    /// Takes a message out of memory that was written, if it is still as it was and waits.
    pub(in super::super) fn page_out(&mut self, key: u32, order: u64, fx: &mut Effects) {
        let Some(entry) = self.entries.get(key as usize).filter(|entry| entry.order == order) else { return };
        if entry.marks & (CHANGED | WRITTEN | AWAY) != WRITTEN || entry.place != Place::Ready || self.leaves(entry) {
            return;
        }
        let entry = &mut self.entries[key as usize];
        entry.marks |= AWAY;
        let message = std::mem::replace(&mut entry.message, Stored::away());
        fx.resident -= entry.size;
        fx.note().dropped.push(message);
    }

    /// A message that was fetched is in memory again. `false` if it was not found and should have been.
    pub(in super::super) fn page_in(
        &mut self,
        key: u32,
        order: u64,
        message: Option<Stored>,
        fx: &mut Effects,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(key as usize).filter(|entry| entry.order == order && entry.is_away())
        else {
            return true;
        };
        let Some(message) = message else { return false };
        let has_expired = entry.marks & EXPIRED != 0;
        entry.marks &= !(AWAY | WANTED | EXPIRED);
        entry.message = message;
        fx.resident += entry.size;
        if has_expired {
            let before = entry.size;
            entry.size = entry.size.saturating_sub(size_of_expiry(fx));
            entry.message.clear_dead_letter_source();
            mark(&mut entry.message, &mut entry.size, ttl_expired(), fx);
            let after = entry.size;
            self.resized(before, after, fx);
            self.changed(key, fx);
        }
        let entry = &self.entries[key as usize];
        if entry.place == Place::Ready {
            if self.leaves(entry) {
                fx.note().leaving.push((self.id, key));
            }
            let (lane, part) = (entry.lane, entry.part);
            self.announce(lane, part, fx);
        }
        true
    }

    /// Moves a message that is away to the dead-letter sub-queue. It is told so when it is fetched. Until then the disk has
    /// it as one that waits and whose time is up, which comes to the same.
    pub(super) fn bury_away(&mut self, key: u32, deliveries: u32, fx: &mut Effects) {
        self.leave_lane(self.entries[key as usize].lane);
        let entry = &mut self.entries[key as usize];
        let expiry = place(entry.expires, entry.order);
        (entry.expires, entry.expires_at) = (NEVER, Timestamp::MAX);
        entry.failures = deliveries.saturating_sub(1);
        entry.marks |= EXPIRED;
        let added = size_of_expiry(fx);
        entry.size += added;
        self.size += added;
        self.expiries.remove(expiry);
        self.enter(key, Part::DeadLetter, fx);
    }

    /// Asks for a message that a receiver would take, and for those that come after it.
    #[cold]
    pub(super) fn want_from(&mut self, lane: u32, key: u32, fx: &mut Effects) {
        let order = self.entries[key as usize].order;
        self.lanes[lane as usize].ready.insert(order, key);
        let next: Vec<u32> = self.lanes[lane as usize].ready.from(&self.entries, lane, order, FETCHED).collect();
        let mut bytes = 0;
        for key in next {
            if bytes >= FETCHED_BYTES {
                break;
            }
            bytes += self.entries[key as usize].size;
            self.want(key, fx);
        }
    }

    /// Asks for a message that is away.
    pub(super) fn want(&mut self, key: u32, fx: &mut Effects) {
        let entry = &mut self.entries[key as usize];
        if entry.marks & (AWAY | WANTED) == AWAY {
            entry.marks |= WANTED;
            let order = entry.order;
            fx.note().wanted.push(Wanted { store: self.id, key, order });
        }
    }
}

/// What a message counts more when it says that it has expired.
fn size_of_expiry(fx: &mut Effects) -> u64 {
    let mut size = 0;
    mark(&mut Stored::new(Message::new("")), &mut size, ttl_expired(), fx);
    size
}

/// Makes a message say that it has expired, where somebody looks at it.
pub(crate) fn say_expired(message: &mut Stored) {
    message.clear_dead_letter_source();
    mark(message, &mut 0, ttl_expired(), &mut Effects::default());
}
