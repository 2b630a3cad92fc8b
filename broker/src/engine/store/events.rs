use consign_core::settlement::DeadLetter;

use super::{Arrival, Effects, NEVER, Now, Part, Place, Store, Ticks, bury::fitted, sorted::place, ticks};

/// The effect of a failed delivery on its count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Counts,
    IsForgiven,
}

/// An event that time triggers. At one instant events are applied in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    LockEnds,
    SessionEnds,
    Expires,
    IsDue,
    DeadLettersAgain,
    Idle,
}

impl Store {
    /// Returns the next event that time triggers, and when it is due.
    pub(in super::super) fn next_event(&self) -> Option<(Ticks, Event)> {
        let idle = self.settings.auto_delete_on_idle.filter(|_| !self.is_kept());
        [
            self.locks.first(&self.entries).map(|(_, until)| (until, Event::LockEnds)),
            self.sessions.as_ref().and_then(|it| it.first_end()).map(|(until, _)| (until, Event::SessionEnds)),
            self.first_expiry().filter(|_| !self.quirks.lazy_expiry).map(|at| (at, Event::Expires)),
            self.scheduled.first(&self.entries).map(|(due, _)| (due, Event::IsDue)),
            (self.retry != NEVER).then_some((self.retry, Event::DeadLettersAgain)),
            idle.map(|idle| (self.accessed.saturating_add(ticks(idle)), Event::Idle)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether the entity is not deleted, however long it is not used.
    pub(in super::super) fn is_kept(&self) -> bool {
        self.settings.forward_to.is_some() || self.scheduled.len() > 0 || self.waiting > 0
    }

    /// Applies an event that was due at `instant`. Returns a message that enters the entity anew.
    pub(in super::super) fn happen(&mut self, instant: Ticks, event: Event, fx: &mut Effects) -> Option<Arrival> {
        match event {
            Event::LockEnds => {
                let (key, _) = self.locks.first(&self.entries)?;
                self.totals.locks_lost += 1;
                self.unlock(key, instant, Failure::Counts, fx);
            }
            Event::SessionEnds => {
                let (_, lane) = self.sessions.as_ref()?.first_end()?;
                #[cfg(feature = "durable")]
                if !self.end_locks_of_session(instant, lane, fx) {
                    return None;
                }
                self.totals.locks_lost += 1;
                self.end_session(instant, lane, Failure::Counts, fx);
            }
            Event::Expires => {
                let key = self.expiries.first()?;
                self.expiries.remove(place(self.expiry(key).ticks, self.entries[key as usize].order));
                // A lock is not interrupted, and a deferred message waits for its number; both are checked again when
                // they are released.
                if self.entries[key as usize].place == Place::Ready {
                    self.take_ready(key);
                    self.expire(key, fx);
                }
            }
            Event::IsDue => return self.take_due(fx),
            Event::DeadLettersAgain => self.let_dead_letters_leave(fx),
            // The engine deletes it.
            Event::Idle => {}
        }
        None
    }

    fn first_expiry(&self) -> Option<Ticks> {
        self.expiries.first().map(|key| self.expiry(key).ticks)
    }

    /// Expires the messages that a receiver would find expired, where time does not trigger their expiry.
    pub(super) fn expire_lazily(&mut self, now: Now, fx: &mut Effects) {
        while self.first_expiry().is_some_and(|at| at <= now.ticks) {
            self.happen(now.ticks, Event::Expires, fx);
        }
    }

    /// Ends a lock at that `instant`. The message is available again, deferred again, dead-lettered, or removed.
    pub(super) fn unlock(&mut self, key: u32, instant: Ticks, failure: Failure, fx: &mut Effects) {
        self.lock_changed(key, fx);
        self.remove_lock(key);
        let entry = &mut self.entries[key as usize];
        if entry.part != Part::Main {
            return self.put_back(key, fx);
        }
        if failure == Failure::Counts {
            entry.failures = entry.failures.saturating_add(1);
            self.changed(key, fx);
        }
        let entry = &self.entries[key as usize];
        let expires = self.expiry_of(key, entry).ticks;
        if entry.place == Place::DeferredLocked {
            self.set_aside(key, fx);
        } else if expires <= instant {
            self.expire(key, fx);
        } else if failure == Failure::Counts && entry.failures >= self.settings.max_delivery_count {
            self.bury_undeliverable(key, fx);
        } else {
            // A call that read a later time than this one may have passed its expiry over while it was locked.
            if expires != NEVER {
                let place = place(expires, entry.order);
                if self.expiries.get(place).is_none() {
                    self.expiries.insert(place, key);
                }
                self.arm(expires, fx);
            }
            self.make_ready(key, fx);
            #[cfg(feature = "durable")]
            self.leave_memory(key, fx);
        }
    }

    /// Puts a message whose lock has ended into its previous place.
    pub(super) fn put_back(&mut self, key: u32, fx: &mut Effects) {
        if self.entries[key as usize].place == Place::DeferredLocked {
            self.set_aside(key, fx);
        } else {
            self.make_ready(key, fx);
        }
    }

    /// Expires a message of the main part that is in no index but its lane.
    fn expire(&mut self, key: u32, fx: &mut Effects) {
        self.totals.expired += 1;
        if self.settings.dead_letter_on_expiration {
            let deliveries = self.entries[key as usize].failures;
            #[cfg(feature = "durable")]
            if self.entries[key as usize].is_away() {
                self.bury_away(key, deliveries, fx);
                return;
            }
            let dead_letter = fitted(&self.entries[key as usize].message, DeadLetter::ttl_expired());
            self.bury(key, deliveries, dead_letter, fx);
        } else {
            let expired = self.remove(key, fx);
            fx.note().dropped.push(expired.message);
        }
    }

    /// Ends every lock of `part` as if it had run out.
    pub(in super::super) fn lose_locks(&mut self, now: Now, part: Part, fx: &mut Effects) {
        self.end_locks(now, Some(part), Failure::Counts, fx);
    }

    /// Releases every lock.
    pub(super) fn release_all(&mut self, now: Now, fx: &mut Effects) {
        self.end_locks(now, None, Failure::IsForgiven, fx);
    }

    fn end_locks(&mut self, now: Now, part: Option<Part>, failure: Failure, fx: &mut Effects) {
        let is_wanted = |&key: &u32| part.is_none_or(|part| self.entries[key as usize].part == part);
        let held: Vec<u32> = self.locks.iter(&self.entries).filter(is_wanted).collect();
        if failure == Failure::Counts {
            self.totals.locks_lost += held.len() as u64;
        }
        for key in held {
            self.unlock(key, now.ticks, failure, fx);
        }
        if part.is_none_or(|part| part == Part::Main) {
            while let Some((_, lane)) = self.sessions.as_ref().and_then(|sessions| sessions.first_end()) {
                self.end_session(now.ticks, lane, failure, fx);
            }
        }
    }
}
