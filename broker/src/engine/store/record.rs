//! Conversion of one entity's messages to records and back.

use std::collections::BTreeSet;

use super::{
    Arrival, Effects, Entry, Expiry, NEVER, Now, Number, Part, Place, Store,
    changes::{CHANGED, WRITTEN},
    entry::{EXPIRES, MOVED},
};
use crate::engine::{
    effects::Wanted,
    record::{
        self, CounterRecord, Gone, IdRecord, MessageRecord, MessageState, MessageView, RecordSink, SessionRecord,
    },
};
use crate::sabotage::Defect;

impl Store {
    /// Passes to `sink` the changes since the last call.
    pub(in super::super) fn write_changes(&mut self, now: Now, sink: &mut impl RecordSink, fx: &mut Effects) {
        let serial = self.id.serial;
        self.changes.is_listed = false;
        let counters = self.numbers.record();
        if counters.order != self.changes.written_order {
            self.changes.written_order = counters.order;
            sink.put_counter(serial, &counters);
        }
        for order in self.changes.removed.drain(..) {
            sink.remove_message(serial, order);
        }
        let mut changed = std::mem::take(&mut self.changes.entries);
        for at in changed.drain(..) {
            // It may be gone, and its place reused by one that was written already.
            let Some(entry) = self.entries.get_mut(at as usize).filter(|entry| entry.marks & CHANGED != 0) else {
                continue;
            };
            entry.marks = entry.marks & (EXPIRES | MOVED) | WRITTEN;
            if fx.resident > fx.budget && entry.place == Place::Ready {
                fx.note().written.push(Wanted { store: self.id, key: at, order: entry.order });
            }
            let entry = &self.entries[at as usize];
            let view = MessageView { state: self.state(at, entry, now, fx.records_locks()), message: &entry.message };
            sink.put_message(serial, entry.order, view);
        }
        self.changes.entries = changed;
        for id in std::mem::take(&mut self.changes.sessions) {
            match self.state_of(&id) {
                Some((state, updated)) => sink.put_session(serial, &SessionRecord { id, state: Some(state), updated }),
                None => sink.remove_session(serial, &id),
            }
        }
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.write_changes(serial, now, sink);
        }
        self.changes.give_back();
    }

    pub(in super::super) fn take_settings_changed(&mut self) -> bool {
        std::mem::take(&mut self.changes.settings)
    }

    pub(in super::super) fn secret(&self) -> Option<[u8; 16]> {
        self.duplicates.as_ref().map(|duplicates| duplicates.secret())
    }

    pub(in super::super) fn set_secret(&mut self, secret: [u8; 16]) {
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.set_secret(secret);
        }
    }

    /// Returns the records of this entity that may be on the disk.
    pub(in super::super) fn written(&self) -> Gone {
        let written = self.entries.iter().filter(|(_, entry)| entry.marks & WRITTEN != 0);
        let mut messages: Vec<u64> = written.map(|(_, entry)| entry.order).collect();
        messages.extend(&self.changes.removed);
        let mut sessions: BTreeSet<Box<str>> = self.sessions_with_state().map(Into::into).collect();
        sessions.extend(self.changes.sessions.iter().cloned());
        let ids = self.duplicates.as_ref().map_or(0..0, |duplicates| duplicates.written());
        Gone { serial: self.id.serial, messages, sessions, ids }
    }

    /// Restores the counters; `false` if these are the counters of another kind of entity.
    pub(in super::super) fn restore_counters(&mut self, record: &CounterRecord) -> bool {
        self.changes.written_order = record.order;
        self.numbers.restore(record)
    }

    /// Restores a session; `false` if the entity has no sessions.
    pub(in super::super) fn restore_session(&mut self, record: SessionRecord) -> bool {
        if self.sessions.is_none() {
            return false;
        }
        self.restore_state(&record.id, record.state, record.updated);
        true
    }

    /// Restores an id; `false` if the entity detects no duplicates.
    pub(in super::super) fn restore_id(&mut self, now: Now, number: u64, record: IdRecord) -> bool {
        let Some(duplicates) = &mut self.duplicates else { return false };
        duplicates.restore(now, number, record);
        true
    }

    /// Restores a message to its place. One that was locked is free, or stays locked without a holder until its lock
    /// ends.
    pub(in super::super) fn restore(
        &mut self,
        now: Now,
        order: u64,
        record: MessageRecord,
        hold_locks: bool,
        fx: &mut Effects,
    ) {
        let MessageRecord { state, message } = record;
        let MessageState { part, sequence, origin, enqueued, size, hops, .. } = state;
        let arrival = Arrival { message, size, origin: Some(origin), hops };
        let at = self.store(arrival, Number { sequence, order, enqueued }, fx);
        let entry = &mut self.entries[at as usize];
        fx.resident += entry.size();
        entry.failures = state.failures;
        entry.set_stays(state.stays);
        entry.marks |= WRITTEN;
        if Defect::ForgetDeliveryCount.is_there() {
            entry.failures = 0;
        }
        self.set_part(at, part);
        if let (record::Place::Scheduled, Some(due)) = (state.place, state.due) {
            self.await_due(at, now.ticks_at(due), fx);
            return;
        }
        if let Some(expires_at) = state.expires_at {
            let ticks = now.ticks_at(expires_at);
            self.set_expiry(at, Expiry { ticks, shown: expires_at });
            self.arm(ticks, fx);
        }
        if part == Part::Main {
            self.join_lane(at);
        } else {
            self.entries[at as usize].lane = part.lane();
        }
        let is_deferred = state.place == record::Place::Deferred;
        if state.locked_until.is_some() && !hold_locks {
            // A later process may hold locks.
            self.note_changed(at, fx);
        }
        // A lock that has run out meanwhile ends at its own instant, as it would have in its process.
        match state.locked_until.filter(|_| hold_locks && !self.is_in_session(at)) {
            Some(until) => {
                let place = if is_deferred { Place::DeferredLocked } else { Place::Locked };
                self.hold(at, now.ticks_at(until), place, fx);
            }
            None if is_deferred => self.set_aside(at, fx),
            None => self.make_ready(at, fx),
        }
        if fx.resident > fx.budget {
            self.page_out(at, order, fx);
        }
    }

    /// Ends a restore after all messages.
    pub(in super::super) fn finish_restoring(&mut self, fx: &mut Effects) {
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.finish_restoring(|number| self.scheduled.by_number.get(number).is_some());
        }
        self.arm_next(fx);
    }

    /// Returns the state of an entry. A lock is part of it only where its end is written too.
    fn state(&self, key: u32, entry: &Entry, now: Now, with_lock: bool) -> MessageState {
        let is_held = with_lock && matches!(entry.place, Place::Locked | Place::DeferredLocked);
        let expiry = self.expiry_of(key, entry);
        MessageState {
            part: entry.part,
            place: match entry.place {
                Place::Ready | Place::Locked => record::Place::Ready,
                Place::Deferred | Place::DeferredLocked => record::Place::Deferred,
                Place::Scheduled => record::Place::Scheduled,
            },
            sequence: entry.sequence,
            origin: self.origin_of(key, entry),
            enqueued: entry.enqueued,
            expires_at: (expiry.ticks != NEVER).then_some(expiry.shown),
            due: (entry.place == Place::Scheduled).then(|| now.utc_at(entry.locked_until)),
            locked_until: is_held.then(|| now.utc_at(entry.locked_until)),
            size: entry.size(),
            failures: entry.failures,
            hops: entry.hops(),
            stays: entry.stays(),
        }
    }
}
