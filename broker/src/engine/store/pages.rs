//! Messages that are on the disk and not in memory.
//!
//! Only messages that wait to be received are, and only those whose record is written. The entry of each stays, with
//! all that orders and counts it. A requested message is fetched and returned by [`Store::page_in`]. Until then a
//! receiver waits as if there were none, and a message to be forwarded waits for those before it.

use std::ops::Range;

use consign_core::{Message, message::Stored, settlement::DeadLetter};

use super::{
    Effects, Entry, NEVER, Part, Place, Store,
    bury::{fitted, mark, mark_entry},
    changes::{CHANGED, EXPIRED, LEADS, WANTED, WRITTEN},
    entry::AWAY,
};
use crate::engine::effects::Wanted;

/// The maximum number of messages fetched at once, and of their bytes.
const FETCHED: usize = 256;
const FETCHED_BYTES: u64 = 4 << 20;

/// Which dead letters are fetched to be forwarded. Where some are refused, those behind them come next, and at the end
/// the first ones again.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The orders of those that were fetched last.
    fetched: Range<u64>,
    /// From where the next ones are fetched.
    next: u64,
    /// Whether one of those that were fetched last has left. If none has, the others wait for a retry.
    has_left: bool,
}

impl Round {
    pub(super) fn note_left(&mut self, order: u64) {
        self.has_left |= self.fetched.contains(&order);
    }

    pub(super) fn note_refused(&mut self, order: u64) {
        if self.fetched.contains(&order) {
            self.next = self.fetched.end;
        }
    }
}

impl Store {
    /// Removes a written message from memory, if it is unchanged and waits.
    pub(in super::super) fn page_out(&mut self, key: u32, order: u64, fx: &mut Effects) {
        let Some(entry) = self.entries.get(key as usize).filter(|entry| entry.order == order) else { return };
        if entry.marks & (CHANGED | WRITTEN | AWAY) != WRITTEN || entry.place != Place::Ready {
            return;
        }
        let entry = &mut self.entries[key as usize];
        entry.marks |= AWAY;
        let message = std::mem::replace(&mut entry.message, Stored::away());
        fx.resident -= entry.size();
        fx.note().dropped.push(message);
    }

    /// Removes a message that waits again from memory, if it is on the disk unchanged and too many are in memory.
    pub(super) fn leave_memory(&mut self, key: u32, fx: &mut Effects) {
        if fx.resident > fx.budget {
            let order = self.entries[key as usize].order;
            self.page_out(key, order, fx);
        }
    }

    /// Takes a message that was fetched. `false` if it was not found and should have been.
    pub(in super::super) fn page_in(
        &mut self,
        key: u32,
        order: u64,
        message: Option<Stored>,
        fx: &mut Effects,
    ) -> bool {
        self.fetching = self.fetching.saturating_sub(1);
        let is_here = self.take_in(key, order, message, fx);
        if self.fetching == 0 && self.holds_up {
            self.let_first_leave(fx);
        }
        is_here
    }

    fn take_in(&mut self, key: u32, order: u64, message: Option<Stored>, fx: &mut Effects) -> bool {
        let Some(entry) = self.entries.get_mut(key as usize).filter(|entry| entry.order == order && entry.is_away())
        else {
            return true;
        };
        let Some(message) = message else { return false };
        let has_expired = entry.marks & EXPIRED != 0;
        entry.marks &= !(AWAY | WANTED | EXPIRED);
        entry.message = message;
        fx.resident += entry.size();
        if has_expired {
            let before = entry.size();
            entry.set_size(before.saturating_sub(size_of_expiry(fx)));
            entry.message.clear_dead_letter_source();
            let dead_letter = fitted(&entry.message, DeadLetter::ttl_expired());
            let (_, after) = mark_entry(entry, dead_letter, fx);
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

    /// Moves a message that is away to the dead-letter sub-queue. Its properties change when it is fetched. Until
    /// then its record is that of an expired message that waits, which is equivalent.
    pub(super) fn bury_away(&mut self, key: u32, deliveries: u32, fx: &mut Effects) {
        self.leave_lane(self.entries[key as usize].lane);
        self.clear_expiry(key);
        let entry = &mut self.entries[key as usize];
        entry.failures = deliveries.saturating_sub(1);
        entry.marks |= EXPIRED;
        let added = size_of_expiry(fx);
        entry.set_size(entry.size() + added);
        self.size += added;
        self.enter(key, Part::DeadLetter, fx);
    }

    /// Whether the message that a receiver takes is in memory. If it is not, it stays where it was, and is requested with
    /// those after it. These are also requested when a receiver has taken half of those that were requested before, so
    /// that they are read while it takes the other half.
    #[cold]
    pub(super) fn is_here(&mut self, lane: u32, key: u32, fx: &mut Effects) -> bool {
        let entry = &mut self.entries[key as usize];
        let (order, is_away) = (entry.order, entry.is_away());
        if is_away {
            let is_requested = entry.marks & WANTED != 0;
            self.lanes[lane as usize].ready.insert(order, key);
            if is_requested {
                return false;
            }
        } else {
            entry.marks &= !LEADS;
        }
        // Before the first that is away may be as many as were requested together.
        let next: Vec<u32> = self.lanes[lane as usize].ready.from(&self.entries, lane, order, 2 * FETCHED).collect();
        let is_unrequested = |key: &u32| self.entries[*key as usize].marks & (AWAY | WANTED) == AWAY;
        let requested = self.want_some(next.into_iter().filter(is_unrequested).collect(), fx);
        if let Some(&leads) = requested.get(requested.len() / 2) {
            self.entries[leads as usize].marks |= LEADS;
        }
        !is_away
    }

    /// Requests as many messages of a lane as are fetched at once.
    fn want_those_from(&mut self, lane: u32, order: u64, is_wanted: impl Fn(&Self, &Entry) -> bool, fx: &mut Effects) {
        let next = self.lanes[lane as usize].ready.from(&self.entries, lane, order, FETCHED);
        let wanted = next.filter(|&key| is_wanted(self, &self.entries[key as usize])).collect();
        self.want_some(wanted, fx);
    }

    /// Requests as many of these as are fetched at once, and returns those.
    fn want_some(&mut self, mut keys: Vec<u32>, fx: &mut Effects) -> Vec<u32> {
        let mut bytes = 0;
        let fetched = keys.iter().take(FETCHED).take_while(|&&key| {
            let is_fetched = bytes < FETCHED_BYTES;
            bytes += self.entries[key as usize].size();
            is_fetched
        });
        keys.truncate(fetched.count());
        for &key in &keys {
            self.want(key, fx);
        }
        keys
    }

    /// Requests a message that is away.
    pub(super) fn want(&mut self, key: u32, fx: &mut Effects) {
        let entry = &mut self.entries[key as usize];
        if entry.marks & (AWAY | WANTED) == AWAY {
            entry.marks |= WANTED;
            let order = entry.order;
            self.fetching += 1;
            fx.note().wanted.push(Wanted { store: self.id, key, order });
        }
    }

    /// Whether a message to be forwarded has to wait until messages are fetched. It waits for itself, or in the main
    /// part, which keeps the order, for one before it. However many wait, as many are fetched as for receivers.
    pub(super) fn is_held_up(&mut self, key: u32, fx: &mut Effects) -> bool {
        if !fx.is_recorded() {
            return false;
        }
        let entry = &self.entries[key as usize];
        let (lane, part, order) = (entry.lane, entry.part, entry.order);
        let first = match part {
            Part::Main => self.lanes[lane as usize].ready.first(&self.entries, lane),
            Part::DeadLetter | Part::TransferDeadLetter => Some((order, key)),
        };
        let Some((order, first)) = first.filter(|(_, first)| self.entries[*first as usize].is_away()) else {
            let before = first.filter(|&(_, first)| self.holds_up && first != key);
            fx.note().leaving.extend(before.map(|(_, first)| (self.id, first)));
            return before.is_some();
        };
        self.holds_up = true;
        let is_requested = match part {
            Part::Main => self.entries[first as usize].marks & WANTED != 0,
            // While all that were fetched are refused the others wait for the retry, so that a closed target has few read.
            Part::DeadLetter | Part::TransferDeadLetter => {
                self.fetching > 0 || self.retry != NEVER && !self.round.has_left
            }
        };
        match part {
            _ if is_requested => {}
            Part::Main => self.want_those_from(lane, order, Self::leaves, fx),
            Part::DeadLetter | Part::TransferDeadLetter => self.want_dead_letters(lane, fx),
        }
        true
    }

    /// Requests the next dead letters that leave.
    fn want_dead_letters(&mut self, lane: u32, fx: &mut Effects) {
        let from = |from: u64| {
            let away = self.lanes[lane as usize].ready.in_order_from(&self.entries, lane, from);
            let leaving = away.filter(|&key| self.leaves_from_disk(key));
            leaving.take(FETCHED).collect::<Vec<u32>>()
        };
        let (mut begin, mut keys) = (self.round.next, from(self.round.next));
        if keys.is_empty() {
            (begin, keys) = (0, from(0));
        }
        let requested = self.want_some(keys, fx);
        let end = requested.last().map_or(begin, |&last| self.entries[last as usize].order + 1);
        self.round = Round { fetched: begin..end, next: begin, has_left: false };
    }

    fn leaves_from_disk(&self, key: u32) -> bool {
        let entry = &self.entries[key as usize];
        entry.is_away() && self.leaves(entry)
    }

    /// Lets the next message of a lane leave, after one has left its place in it.
    pub(super) fn let_next_leave(&mut self, lane: u32, part: Part, order: u64, fx: &mut Effects) {
        if !self.holds_up {
            return;
        }
        let next = match part {
            Part::Main => self.lanes[lane as usize].ready.first(&self.entries, lane).map(|(_, key)| key),
            Part::DeadLetter | Part::TransferDeadLetter => {
                let mut later = self.lanes[lane as usize].ready.from(&self.entries, lane, order, usize::MAX);
                later.find(|&key| self.leaves(&self.entries[key as usize]))
            }
        };
        fx.note().leaving.extend(next.map(|key| (self.id, key)));
    }

    /// Lets the first message to be forwarded leave, or fetches it, as nothing is being fetched any more.
    fn let_first_leave(&mut self, fx: &mut Effects) {
        let dead = Part::DeadLetter.lane();
        // Where sessions are, each with a lane, only dead letters leave.
        let main = if self.settings.forward_to.is_some() {
            self.lanes.iter().map(|(lane, _)| lane).collect()
        } else {
            Vec::new()
        };
        let lanes =
            main.into_iter().filter_map(|lane| u32::try_from(lane).ok()).filter(|lane| *lane != dead).chain([dead]);
        let first = |lane: u32| {
            let mut ready = self.lanes[lane as usize].ready.from(&self.entries, lane, 0, usize::MAX);
            // Dead letters in memory were offered already.
            let is_first = |key: u32| {
                if lane == dead { self.leaves_from_disk(key) } else { self.leaves(&self.entries[key as usize]) }
            };
            ready.find(|&key| is_first(key))
        };
        let first: Vec<u32> = lanes.filter_map(first).collect();
        self.holds_up = !first.is_empty();
        fx.note().leaving.extend(first.into_iter().map(|key| (self.id, key)));
    }

    /// Returns some messages that have expired and do not show that yet, from this order on.
    pub(in super::super) fn unsaid(&self, from: u64) -> Vec<Wanted> {
        let lane = Part::DeadLetter.lane();
        let dead = self.lanes[lane as usize].ready.from(&self.entries, lane, from, usize::MAX);
        let unsaid = dead.filter(|&key| self.entries[key as usize].marks & EXPIRED != 0).take(FETCHED);
        unsaid.map(|key| Wanted { store: self.id, key, order: self.entries[key as usize].order }).collect()
    }

    /// Removes a message from memory again that was fetched to be forwarded and could not, where there are too many.
    pub(in super::super) fn put_away(&mut self, key: u32, fx: &mut Effects) {
        if fx.resident > fx.budget {
            let order = self.entries[key as usize].order;
            self.page_out(key, order, fx);
        }
    }
}

/// Returns the bytes that a message grows by when it shows that it has expired.
fn size_of_expiry(fx: &mut Effects) -> u64 {
    let mut size = 0;
    mark(&mut Stored::new(Message::new("")), &mut size, DeadLetter::ttl_expired(), fx);
    size
}

/// Marks a peeked message as expired.
pub(crate) fn say_expired(message: &mut Stored) {
    message.clear_dead_letter_source();
    let dead_letter = fitted(message, DeadLetter::ttl_expired());
    mark(message, &mut 0, dead_letter, &mut Effects::default());
}
