use super::{
    Engine,
    entry::{NEVER, Part, Place, Ticks},
};
use crate::{
    settlement::{DeadLetter, DeadLetterReason},
    time::{Moment, Timestamp},
};

/// The time of a command: monotonic for what ends, UTC for what is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) ticks: Ticks,
    pub(crate) utc: Timestamp,
}

impl From<Moment> for Now {
    #[inline]
    fn from(moment: Moment) -> Self {
        let ticks = moment.elapsed.as_secs().saturating_mul(1_000_000_000);
        Self { ticks: ticks.saturating_add(u64::from(moment.elapsed.subsec_nanos())), utc: moment.utc }
    }
}

/// What a failed delivery does to its count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Counts,
    IsForgiven,
}

impl Engine {
    /// Applies everything that was due by `now`: ended locks, then expired messages.
    #[inline]
    pub(super) fn advance(&mut self, now: Now) {
        for part in [Part::Main, Part::DeadLetter] {
            while let Some((key, until)) = self.first_lock(part) {
                if until > now.ticks {
                    break;
                }
                self.unlock(key, until, Failure::Counts);
            }
        }
        while let Some(&(expires, key)) = self.expiries.first() {
            if expires > now.ticks {
                break;
            }
            self.expiries.pop_first();
            let entry = &self.entries[key as usize];
            // A lock is not interrupted, and a deferred message waits for its number; both are looked at again when
            // they come back.
            if entry.place == Place::Ready {
                let sequence = entry.sequence;
                self.main.remove_ready(&self.entries, sequence);
                self.expire(key);
            }
        }
    }

    /// The next instant at which something happens by itself.
    pub(crate) fn next_deadline(&self) -> Option<Ticks> {
        let locks = [&self.main, &self.dead].into_iter().filter_map(|part| part.first_lock(&self.entries));
        let expiry = self.expiries.first().map(|&(expires, _)| expires);
        locks.map(|(_, until)| until).chain(expiry).min()
    }

    #[inline]
    pub(super) fn first_lock(&self, part: Part) -> Option<(u32, Ticks)> {
        match part {
            Part::Main => self.main.first_lock(&self.entries),
            Part::DeadLetter => self.dead.first_lock(&self.entries),
        }
    }

    /// Ends a lock and puts the message where it belonged at that `instant`: back, set aside again, dead-lettered, or
    /// removed.
    pub(super) fn unlock(&mut self, key: u32, instant: Ticks, failure: Failure) {
        let part = self.entries[key as usize].part;
        self.remove_lock(part, key);
        let entry = &mut self.entries[key as usize];
        entry.lock = 0;
        if part == Part::DeadLetter {
            match entry.place {
                Place::DeferredLocked => self.dead.defer(entry, key),
                _ => self.dead.make_ready(entry, key),
            }
            return;
        }
        if failure == Failure::Counts {
            entry.failures = entry.failures.saturating_add(1);
        }
        if entry.place == Place::DeferredLocked {
            self.main.defer(entry, key);
        } else if entry.expires <= instant {
            self.expire(key);
        } else if failure == Failure::Counts && entry.failures >= self.settings.max_delivery_count {
            self.bury_undeliverable(key);
        } else {
            // Its expiry may have been passed over while it was locked, by a call that read a later time than this one.
            if entry.expires != NEVER {
                self.expiries.insert((entry.expires, key));
            }
            self.main.make_ready(entry, key);
        }
    }

    /// Ends a message of the main part whose time is up and that stands in no index any more.
    fn expire(&mut self, key: u32) {
        if self.settings.dead_letter_on_expiration {
            let deliveries = self.entries[key as usize].failures;
            let text = "The message expired and was dead lettered.";
            self.bury(key, deliveries, DeadLetter::new(DeadLetterReason::TtlExpired, text));
        } else {
            let expired = self.remove(key);
            self.expired.push(expired);
        }
    }
}
