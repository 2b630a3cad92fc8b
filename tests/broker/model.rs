//! A queue with its dead-letter sub-queue, written to be obviously right: one flat map, scanned from end to end for every
//! question. It shares no code with the broker. Times are milliseconds.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Locked { lock: u64, until: u64 },
    Deferred,
    DeferredLocked { lock: u64, until: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) body: u64,
    pub(crate) dead: bool,
    pub(crate) place: Place,
    pub(crate) failures: u32,
    pub(crate) enqueued: u64,
    /// As it is shown; `None` is never.
    pub(crate) expires_at: Option<u64>,
    /// By the monotonic clock.
    expires: Option<u64>,
    /// What the last settlement with changes wrote.
    pub(crate) mark: Option<u64>,
    pub(crate) reason: Option<&'static str>,
}

/// What a settlement does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settle {
    Complete,
    Abandon(Option<u64>),
    Defer(Option<u64>),
    DeadLetter(Option<u64>),
    Release,
    Renew,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    LockLost,
    InvalidOperation,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) lock_duration: u64,
    pub(crate) max_delivery_count: u32,
    pub(crate) default_ttl: Option<u64>,
    pub(crate) bury_expired: bool,
    pub(crate) now: u64,
    pub(crate) utc: u64,
    pub(crate) stored: BTreeMap<u64, Stored>,
    last_sequence: u64,
    last_enqueued: u64,
    last_lock: u64,
}

impl Stored {
    fn lock(&self) -> Option<(u64, u64)> {
        match self.place {
            Place::Locked { lock, until } | Place::DeferredLocked { lock, until } => Some((lock, until)),
            Place::Ready | Place::Deferred => None,
        }
    }

    pub(crate) fn is_deferred(&self) -> bool {
        matches!(self.place, Place::Deferred | Place::DeferredLocked { .. })
    }

    fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl Model {
    pub(crate) fn new(utc: u64, lock_duration: u64, max_delivery_count: u32) -> Self {
        Self {
            lock_duration,
            max_delivery_count,
            default_ttl: None,
            bury_expired: false,
            now: 0,
            utc,
            stored: BTreeMap::new(),
            last_sequence: 0,
            last_enqueued: 0,
            last_lock: 0,
        }
    }

    pub(crate) fn advance(&mut self, by: u64) {
        self.now += by;
        self.utc += by;
    }

    /// Lets everything happen that is due, one thing after the other, each at its own instant.
    pub(crate) fn catch_up(&mut self) {
        loop {
            let ends = |stored: &Stored| match stored.place {
                Place::Ready if !stored.dead => stored.expires,
                _ => stored.lock().map(|(_, until)| until),
            };
            let due = self.stored.iter().filter_map(|(&sequence, stored)| Some((ends(stored)?, sequence))).min();
            match due {
                Some((instant, sequence)) if instant <= self.now => match self.stored[&sequence].place {
                    Place::Ready => self.expire(sequence),
                    _ => self.unlock(sequence, instant, true),
                },
                _ => return,
            }
        }
    }

    pub(crate) fn send(&mut self, body: u64, ttl: Option<u64>) -> u64 {
        self.catch_up();
        self.last_sequence += 1;
        self.last_enqueued = self.last_enqueued.max(self.utc);
        let ttl = ttl.into_iter().chain(self.default_ttl).min();
        let stored = Stored {
            body,
            dead: false,
            place: Place::Ready,
            failures: 0,
            enqueued: self.last_enqueued,
            expires_at: ttl.map(|ttl| self.last_enqueued + ttl),
            expires: ttl.map(|ttl| self.now + ttl),
            mark: None,
            reason: None,
        };
        self.stored.insert(self.last_sequence, stored);
        self.last_sequence
    }

    /// Locks up to `max` messages and returns their sequence numbers and locks.
    pub(crate) fn receive(&mut self, dead: bool, max: usize) -> Vec<(u64, u64)> {
        self.first_ready(dead, max).into_iter().map(|sequence| (sequence, self.lock(sequence))).collect()
    }

    pub(crate) fn receive_and_delete(&mut self, dead: bool, max: usize) -> Vec<(u64, Stored)> {
        let first = self.first_ready(dead, max);
        first.into_iter().map(|sequence| (sequence, self.stored.remove(&sequence).unwrap())).collect()
    }

    /// `None` when one of the numbers is not to be had.
    pub(crate) fn receive_deferred(&mut self, dead: bool, numbers: &[u64]) -> Option<Vec<(u64, u64)>> {
        self.catch_up();
        let now = self.now;
        for (at, number) in numbers.iter().enumerate() {
            let stored = self.stored.get(number).filter(|stored| stored.dead == dead)?;
            if stored.place != Place::Deferred || stored.is_expired(now) || numbers[..at].contains(number) {
                return None;
            }
        }
        Some(numbers.iter().map(|&number| (number, self.lock(number))).collect())
    }

    pub(crate) fn settle(&mut self, lock: u64, settle: Settle) -> Result<(), Refused> {
        self.catch_up();
        let held = |stored: &Stored| stored.lock().is_some_and(|(held, _)| held == lock);
        let (&sequence, stored) = self.stored.iter_mut().find(|(_, stored)| held(stored)).ok_or(Refused::LockLost)?;
        if let Settle::Abandon(mark) | Settle::Defer(mark) | Settle::DeadLetter(mark) = settle
            && !(stored.dead && matches!(settle, Settle::DeadLetter(_)))
        {
            stored.mark = mark.or(stored.mark);
        }
        match settle {
            Settle::Complete => drop(self.stored.remove(&sequence)),
            Settle::Abandon(_) => self.unlock(sequence, self.now, true),
            Settle::Release => self.unlock(sequence, self.now, false),
            Settle::Defer(_) => stored.place = Place::Deferred,
            Settle::DeadLetter(_) if stored.dead => return Err(Refused::InvalidOperation),
            Settle::DeadLetter(_) => {
                let deliveries = stored.failures + 1;
                self.bury(sequence, "asked", deliveries);
            }
            Settle::Renew => {
                let renewed = self.now + self.lock_duration;
                if let Place::Locked { until, .. } | Place::DeferredLocked { until, .. } = &mut stored.place {
                    *until = renewed;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn lose_locks(&mut self, dead: bool) {
        self.catch_up();
        let locked = self.stored.iter().filter(|(_, stored)| stored.dead == dead && stored.lock().is_some());
        let locked: Vec<u64> = locked.map(|(&sequence, _)| sequence).collect();
        for sequence in locked {
            self.unlock(sequence, self.now, true);
        }
    }

    pub(crate) fn lock_of(&self, sequence: u64) -> Option<u64> {
        self.stored.get(&sequence)?.lock().map(|(lock, _)| lock)
    }

    /// Ready, locked, deferred, and dead-lettered as the main part sees it.
    pub(crate) fn counts(&mut self, dead: bool) -> [usize; 4] {
        self.catch_up();
        let count = |wanted: &dyn Fn(&Stored) -> bool| {
            self.stored.values().filter(|stored| stored.dead == dead && wanted(stored)).count()
        };
        [
            count(&|stored| stored.place == Place::Ready),
            count(&|stored| stored.lock().is_some()),
            count(&|stored| stored.place == Place::Deferred),
            if dead { 0 } else { self.stored.values().filter(|stored| stored.dead).count() },
        ]
    }

    pub(crate) fn peek(&mut self, dead: bool, from: u64, max: usize) -> Vec<(u64, &Stored)> {
        self.catch_up();
        let shown = self.stored.iter().filter(|&(&sequence, stored)| stored.dead == dead && sequence >= from);
        shown.map(|(&sequence, stored)| (sequence, stored)).take(max).collect()
    }

    fn first_ready(&mut self, dead: bool, max: usize) -> Vec<u64> {
        self.catch_up();
        let ready = self.stored.iter().filter(|(_, stored)| stored.dead == dead && stored.place == Place::Ready);
        ready.map(|(&sequence, _)| sequence).take(max).collect()
    }

    fn lock(&mut self, sequence: u64) -> u64 {
        self.last_lock += 1;
        let (lock, until) = (self.last_lock, self.now + self.lock_duration);
        let stored = self.stored.get_mut(&sequence).unwrap();
        stored.place = match stored.place {
            Place::Ready => Place::Locked { lock, until },
            _ => Place::DeferredLocked { lock, until },
        };
        lock
    }

    fn unlock(&mut self, sequence: u64, instant: u64, failed: bool) {
        let stored = self.stored.get_mut(&sequence).unwrap();
        let back = if stored.is_deferred() { Place::Deferred } else { Place::Ready };
        stored.place = back;
        if stored.dead {
            return;
        }
        stored.failures += u32::from(failed);
        if back == Place::Deferred {
            return;
        }
        let failures = stored.failures;
        if stored.is_expired(instant) {
            self.expire(sequence);
        } else if failed && failures >= self.max_delivery_count {
            self.bury(sequence, "MaxDeliveryCountExceeded", failures);
        }
    }

    fn expire(&mut self, sequence: u64) {
        if self.bury_expired {
            let deliveries = self.stored[&sequence].failures;
            self.bury(sequence, "TTLExpiredException", deliveries);
        } else {
            self.stored.remove(&sequence);
        }
    }

    /// A dead letter reads as many deliveries as it had, and one at least.
    fn bury(&mut self, sequence: u64, reason: &'static str, deliveries: u32) {
        let stored = self.stored.get_mut(&sequence).unwrap();
        stored.dead = true;
        stored.place = Place::Ready;
        stored.failures = deliveries.max(1) - 1;
        stored.expires = None;
        stored.expires_at = None;
        stored.reason = Some(reason);
    }
}
