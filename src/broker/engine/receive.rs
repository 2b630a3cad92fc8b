use std::collections::HashSet;

use super::{
    Engine,
    entry::{Entry, Part, Place, Ticks},
    time::Now,
};
use crate::{
    Message,
    message::{MessageState, Received, SequenceNumber},
    transport::{ErrorKind, ReceiveError},
};

/// One locked message and what it takes to settle it.
pub(crate) struct Locked {
    pub(crate) message: Message,
    pub(crate) key: u32,
    pub(crate) lock: u64,
    pub(crate) lock_duration: std::time::Duration,
}

impl Engine {
    /// Locks up to `max` messages in sequence order and hands them to `out`.
    #[inline]
    pub(crate) fn receive(&mut self, now: Now, part: Part, max: usize, mut out: impl FnMut(Locked)) -> usize {
        self.advance(now);
        let mut taken = 0;
        while taken < max {
            let (indexes, entries) = self.split(part);
            let Some(key) = indexes.pop_ready(entries) else { break };
            out(self.lock(now, key, Place::Locked));
            taken += 1;
        }
        taken
    }

    /// Removes up to `max` messages in sequence order and hands them to `out`.
    pub(crate) fn receive_and_delete(
        &mut self,
        now: Now,
        part: Part,
        max: usize,
        mut out: impl FnMut(Message),
    ) -> usize {
        self.advance(now);
        let mut taken = 0;
        while taken < max {
            let (indexes, entries) = self.split(part);
            let Some(key) = indexes.pop_ready(entries) else { break };
            let entry = &self.entries[key as usize];
            out(delivered(entry, None));
            // The delivery has it too.
            drop(self.remove(key));
            taken += 1;
        }
        taken
    }

    /// Locks deferred messages by their numbers: all of them, or none.
    pub(crate) fn receive_deferred(
        &mut self,
        now: Now,
        part: Part,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Locked>, ReceiveError> {
        self.advance(now);
        let mut keys = Vec::new();
        let mut asked = HashSet::new();
        for &number in numbers {
            let key = self.indexes(part).deferred_key(number);
            let found = key.filter(|&key| self.entries[key as usize].expires > now.ticks && asked.insert(key));
            let Some(key) = found else {
                let detail = format!("{number} is not deferred here");
                return Err(ReceiveError::new(ErrorKind::MessageNotFound).with_detail(detail));
            };
            keys.push(key);
        }
        let mut locked = Vec::with_capacity(keys.len());
        for (&number, key) in numbers.iter().zip(keys) {
            self.indexes(part).take_deferred(number);
            locked.push(self.lock(now, key, Place::DeferredLocked));
        }
        Ok(locked)
    }

    #[inline]
    fn lock(&mut self, now: Now, key: u32, place: Place) -> Locked {
        self.last_lock += 1;
        let lock = self.last_lock;
        let duration = self.settings.lock_duration;
        let entry = &mut self.entries[key as usize];
        entry.place = place;
        entry.lock = lock;
        entry.locked_until = now.ticks.saturating_add(ticks(duration));
        let part = entry.part;
        let message = delivered(entry, Some(now.utc.saturating_add(duration)));
        let (indexes, entries) = self.split(part);
        indexes.push_lock(entries, key);
        Locked { message, key, lock, lock_duration: duration }
    }
}

#[inline]
pub(super) fn ticks(duration: std::time::Duration) -> Ticks {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

/// The message as a receiver sees it.
#[inline]
fn delivered(entry: &Entry, locked_until: Option<crate::time::Timestamp>) -> Message {
    let mut received = Received::new(entry.sequence, entry.enqueued, entry.failures.saturating_add(1));
    received.expires_at = entry.expires_at;
    received.locked_until = locked_until;
    received.dead_lettered = entry.part == Part::DeadLetter;
    if entry.place == Place::DeferredLocked {
        received.state = MessageState::Deferred;
    }
    entry.message.deliver(received)
}
