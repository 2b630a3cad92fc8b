use super::{
    Engine,
    entry::{Part, Place},
    receive::ticks,
    time::{Failure, Now},
};
use crate::{
    Disposition,
    message::{ApplicationProperties, Field, InvalidArgument, Problem, Stored, limits},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
};

/// Why a settlement had no effect.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    /// The lock is gone, or was never this one.
    LockLost,
    /// An argument breaks a rule; the lock holds.
    Invalid(InvalidArgument),
    /// A dead letter cannot be dead-lettered again; the lock holds.
    AlreadyDead,
}

impl Engine {
    /// Settles the delivery that `key` and `lock` name. Answers with the message if it is gone.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        now: Now,
        key: u32,
        lock: u64,
        disposition: Disposition,
    ) -> Result<Option<Stored>, Refused> {
        let part = self.held(now, key, lock)?;
        if matches!(disposition, Disposition::Complete) {
            self.remove_lock(part, key);
            return Ok(Some(self.remove(key)));
        }
        self.settle_otherwise(now, key, part, disposition).map(|()| None)
    }

    fn settle_otherwise(&mut self, now: Now, key: u32, part: Part, disposition: Disposition) -> Result<(), Refused> {
        match disposition {
            Disposition::Complete => {}
            Disposition::Abandon(changes) => {
                if self.change(key, changes) {
                    self.unlock(key, now.ticks, Failure::Counts);
                } else {
                    self.bury_locked(key, header_size_exceeded());
                }
            }
            Disposition::Defer(changes) => {
                if self.change(key, changes) {
                    self.remove_lock(part, key);
                    let (indexes, entries) = self.split(part);
                    let entry = &mut entries[key as usize];
                    entry.lock = 0;
                    indexes.defer(entry, key);
                } else {
                    self.bury_locked(key, header_size_exceeded());
                }
            }
            Disposition::DeadLetter(dead_letter) => {
                if part == Part::DeadLetter {
                    return Err(Refused::AlreadyDead);
                }
                check_text(Field::DeadLetterReason, dead_letter.reason.as_str())?;
                check_text(Field::DeadLetterErrorDescription, &dead_letter.description)?;
                let fits = self.fits(key, &dead_letter);
                self.bury_locked(key, if fits { *dead_letter } else { header_size_exceeded() });
            }
        }
        Ok(())
    }

    /// Extends a lock to its full duration from now, and answers until when it holds.
    pub(crate) fn renew(&mut self, now: Now, key: u32, lock: u64) -> Result<Timestamp, Refused> {
        let part = self.held(now, key, lock)?;
        self.remove_lock(part, key);
        self.entries[key as usize].locked_until = now.ticks.saturating_add(ticks(self.settings.lock_duration));
        let (indexes, entries) = self.split(part);
        indexes.push_lock(entries, key);
        Ok(now.utc.saturating_add(self.settings.lock_duration))
    }

    /// Ends a lock without counting the delivery.
    pub(crate) fn release(&mut self, now: Now, key: u32, lock: u64) -> Result<(), Refused> {
        self.held(now, key, lock)?;
        self.unlock(key, now.ticks, Failure::IsForgiven);
        Ok(())
    }

    /// Ends every lock of `part` as if it had run out.
    pub(crate) fn lose_locks(&mut self, now: Now, part: Part) {
        self.advance(now);
        while let Some((key, _)) = self.first_lock(part) {
            self.unlock(key, now.ticks, Failure::Counts);
        }
    }

    /// The part of a message whose current lock is still `lock`.
    #[inline]
    fn held(&self, now: Now, key: u32, lock: u64) -> Result<Part, Refused> {
        match self.entries.get(key as usize) {
            Some(entry) if entry.lock == lock && entry.is_locked() && entry.locked_until > now.ticks => Ok(entry.part),
            _ => Err(Refused::LockLost),
        }
    }

    /// Merges `changes` into the properties. `false`, and nothing is changed, if they would be too large.
    fn change(&mut self, key: u32, changes: Changes) -> bool {
        if changes.is_empty() {
            return true;
        }
        let entry = &mut self.entries[key as usize];
        let before = entry.message.size() as u64;
        let mut message = entry.message.clone();
        message.properties_mut().application_mut().merge(without_broker_keys(changes.into_properties()));
        if message.properties().check().is_err() {
            return false;
        }
        let after = message.size() as u64;
        entry.message = message;
        entry.size = (entry.size + after).saturating_sub(before);
        self.size = (self.size + after).saturating_sub(before);
        true
    }

    /// Whether the properties stay within their limits with what a dead letter adds. The reason is always admitted.
    fn fits(&self, key: u32, dead_letter: &DeadLetter) -> bool {
        if dead_letter.changes.is_empty() && dead_letter.description.is_empty() {
            return true;
        }
        let mut properties = self.entries[key as usize].message.properties().clone();
        if let Some(changes) = dead_letter.changes.properties() {
            properties.application_mut().merge(changes.clone());
        }
        if !dead_letter.description.is_empty() {
            properties.application_mut().insert(DeadLetter::DESCRIPTION, dead_letter.description.clone().into_owned());
        }
        properties.check().is_ok()
    }

    fn bury_locked(&mut self, key: u32, dead_letter: DeadLetter) {
        let entry = &mut self.entries[key as usize];
        entry.lock = 0;
        let (part, deliveries) = (entry.part, entry.failures.saturating_add(1));
        self.remove_lock(part, key);
        if part == Part::DeadLetter {
            // Its properties outgrew their limit in the dead-letter sub-queue, where it stays as it was.
            let entry = &mut self.entries[key as usize];
            match entry.place {
                Place::DeferredLocked => self.dead.defer(entry, key),
                _ => self.dead.make_ready(entry, key),
            }
            return;
        }
        self.bury(key, deliveries, dead_letter);
    }
}

/// What an application cannot change when it abandons or defers.
fn without_broker_keys(mut changes: ApplicationProperties) -> ApplicationProperties {
    changes.remove(DeadLetter::REASON);
    changes.remove(DeadLetter::DESCRIPTION);
    changes
}

impl From<InvalidArgument> for Refused {
    fn from(error: InvalidArgument) -> Self {
        Self::Invalid(error)
    }
}

fn check_text(field: Field, text: &str) -> Result<(), InvalidArgument> {
    let limit = limits::DEAD_LETTER_TEXT;
    if limits::is_longer_than(text, limit) {
        return Err(InvalidArgument::new(field, Problem::TooLong { limit }));
    }
    Ok(())
}

fn header_size_exceeded() -> DeadLetter {
    let text = "The properties of the message exceed 65534 bytes.";
    DeadLetter::new(DeadLetterReason::HeaderSizeExceeded, text)
}
