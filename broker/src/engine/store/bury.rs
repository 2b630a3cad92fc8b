use consign_core::{
    message::Stored,
    settlement::{DeadLetter, DeadLetterReason},
};

use super::{Arrival, Effects, Entry, NEVER, Now, Number, Part, Place, Store, Ticks};

/// The delay before a dead letter that could not be forwarded is tried again.
const RETRY: Ticks = 10_000_000_000;

impl Store {
    /// Moves a message that is in no index but its lane to the dead-letter sub-queue. It keeps its sequence number
    /// and its delivery count.
    pub(super) fn bury(&mut self, key: u32, deliveries: u32, dead_letter: DeadLetter, fx: &mut Effects) {
        self.leave_lane(self.entries[key as usize].lane);
        self.clear_expiry(key);
        let entry = &mut self.entries[key as usize];
        entry.failures = deliveries.saturating_sub(1);
        let (before, after) = mark_entry(entry, dead_letter, fx);
        self.resized(before, after, fx);
        self.enter(key, Part::DeadLetter, fx);
    }

    /// Stores a numbered message as a dead letter at once.
    pub(in super::super) fn insert_dead(
        &mut self,
        part: Part,
        arrival: Arrival,
        number: Number,
        dead_letter: DeadLetter,
        fx: &mut Effects,
    ) {
        let mut arrival = arrival;
        let dead_letter = fitted(&arrival.message, dead_letter);
        mark(&mut arrival.message, &mut arrival.size, dead_letter, fx);
        let key = self.store(arrival, number, fx);
        self.enter(key, part, fx);
    }

    pub(super) fn enter(&mut self, key: u32, part: Part, fx: &mut Effects) {
        if !self.entries[key as usize].is_away() {
            self.changed(key, fx);
        }
        let entry = &mut self.entries[key as usize];
        entry.message.clear_dead_letter_source();
        entry.lane = part.lane();
        self.set_part(key, part);
        self.make_ready(key, fx);
    }

    pub(super) fn bury_undeliverable(&mut self, key: u32, fx: &mut Effects) {
        let entry = &self.entries[key as usize];
        let deliveries = entry.failures;
        let dead_letter = fitted(&entry.message, DeadLetter::max_delivery_count_exceeded(deliveries, None));
        self.bury(key, deliveries, dead_letter, fx);
    }

    /// Returns a message to be forwarded: its part, and the message itself.
    pub(in super::super) fn leaving(&mut self, key: u32, fx: &mut Effects) -> Option<(Part, Arrival)> {
        let entry = self.entries.get(key as usize)?;
        if entry.place != Place::Ready || !self.leaves(entry) {
            return None;
        }
        #[cfg(feature = "durable")]
        if self.is_held_up(key, fx) {
            return None;
        }
        let _ = &fx;
        let entry = &self.entries[key as usize];
        let (message, origin) = (entry.message.clone(), Some(self.origin_of(key, entry)));
        Some((entry.part, Arrival { message, size: entry.size(), origin, hops: entry.hops() }))
    }

    /// Whether the entity forwards such a message.
    #[inline]
    pub(super) fn leaves(&self, entry: &Entry) -> bool {
        match entry.part {
            Part::Main => self.settings.forward_to.is_some(),
            Part::DeadLetter => self.settings.forward_dead_letters_to.is_some() && !entry.stays(),
            Part::TransferDeadLetter => false,
        }
    }

    /// Removes a message that was forwarded to another entity.
    pub(in super::super) fn has_left(&mut self, key: u32, fx: &mut Effects) {
        self.take_ready(key);
        let entry = self.remove(key, fx);
        #[cfg(feature = "durable")]
        if entry.part != Part::Main {
            self.round.note_left(entry.order);
        }
        #[cfg(feature = "durable")]
        self.let_next_leave(entry.lane, entry.part, entry.order, fx);
        fx.note().dropped.push(entry.message);
    }

    /// Dead-letters a message that could not be forwarded, with `dead_letter`. A dead letter is tried again later, or
    /// never.
    pub(in super::super) fn cannot_leave(&mut self, now: Now, key: u32, dead_letter: DeadLetter, fx: &mut Effects) {
        let has_no_hops = dead_letter.reason == DeadLetterReason::MaxTransferHopCountExceeded;
        let entry = &mut self.entries[key as usize];
        entry.set_stays(has_no_hops);
        #[cfg(feature = "durable")]
        let (lane, order) = (entry.lane, entry.order);
        if entry.part == Part::Main {
            let dead_letter = fitted(&entry.message, dead_letter);
            self.take_ready(key);
            self.bury(key, 0, dead_letter, fx);
            #[cfg(feature = "durable")]
            self.let_next_leave(lane, Part::Main, order, fx);
        } else if has_no_hops {
            self.changed(key, fx);
        } else {
            #[cfg(feature = "durable")]
            {
                self.round.note_refused(order);
                self.put_away(key, fx);
            }
            if self.retry == NEVER {
                self.retry = now.ticks.saturating_add(RETRY);
                self.arm(self.retry, fx);
            }
        }
    }

    /// Skips all retries due by `now` but the last, so that a call after a long time is not delayed by them. Returns
    /// whether any were skipped.
    pub(in super::super) fn skip_retries(&mut self, now: Ticks) -> bool {
        let skipped = now.saturating_sub(self.retry) / RETRY;
        self.retry += skipped * RETRY;
        skipped > 0
    }

    /// Marks the dead letters that can be forwarded, in order.
    pub(super) fn let_dead_letters_leave(&mut self, fx: &mut Effects) {
        self.retry = NEVER;
        let lane = Part::DeadLetter.lane();
        let ready = self.lanes[lane as usize].ready.from(&self.entries, lane, 0, usize::MAX);
        let mut keys: Vec<u32> = ready.filter(|&key| self.leaves(&self.entries[key as usize])).collect();
        keys.sort_unstable_by_key(|&key| self.entries[key as usize].order);
        fx.note().leaving.extend(keys.into_iter().map(|key| (self.id, key)));
    }

    /// Marks all messages that can be forwarded, in order.
    pub(in super::super) fn let_leave(&mut self, fx: &mut Effects) {
        self.retry = NEVER;
        if self.settings.forward_to.is_none() && self.settings.forward_dead_letters_to.is_none() {
            return;
        }
        let ready = self.entries.iter().filter(|(_, entry)| entry.place == Place::Ready && self.leaves(entry));
        let mut keys: Vec<(u64, usize)> = ready.map(|(key, entry)| (entry.order, key)).collect();
        keys.sort_unstable();
        // Locks that were released may have put some of them there, in the order of the locks.
        fx.note().leaving.retain(|&(store, _)| store != self.id);
        fx.note().leaving.extend(keys.into_iter().filter_map(|(_, key)| Some((self.id, u32::try_from(key).ok()?))));
    }
}

/// Returns a dead letter of the broker with the texts that its message has space for. That of a client is refused instead.
pub(super) fn fitted(message: &Stored, mut dead_letter: DeadLetter) -> DeadLetter {
    dead_letter.fit(message.properties());
    dead_letter
}

/// Writes the reason of a dead letter into the properties of an entry, and returns its sizes before and after.
pub(super) fn mark_entry(entry: &mut Entry, dead_letter: DeadLetter, fx: &mut Effects) -> (u64, u64) {
    let before = entry.size();
    let mut after = before;
    mark(&mut entry.message, &mut after, dead_letter, fx);
    entry.set_size(after);
    (before, after)
}

/// Writes the reason of a dead letter into its properties, and counts the change of its size. The user may own
/// replaced values.
pub(super) fn mark(message: &mut Stored, size: &mut u64, dead_letter: DeadLetter, fx: &mut Effects) {
    let before = message.size() as u64;
    let present = message.properties().application_properties();
    let written = [DeadLetter::REASON, DeadLetter::DESCRIPTION];
    if !dead_letter.changes.is_empty() || written.iter().any(|key| present.get(key).is_some()) {
        fx.note().dropped.push(message.clone());
    }
    let properties = message.properties_mut().application_properties_mut();
    dead_letter.write_to(properties);
    *size = (*size + message.size() as u64).saturating_sub(before);
}
