use consign_core::{
    Disposition,
    message::{Field, InvalidArgument, Problem, Stored, limits},
    settlement::{Changes, DeadLetter},
    time::Timestamp,
};

use super::{Effects, Now, Part, Store, bury::fitted, changes::CHANGED, events::Failure};
use crate::{engine::space::Lack, sabotage::Defect};

/// Why a settlement, or a call on a session, had no effect.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    /// The lock is gone, or was never this one.
    LockLost,
    /// The session's lock is gone, and with it those of its messages.
    SessionLockLost,
    /// An argument breaks a rule; the lock holds.
    Invalid(Box<InvalidArgument>),
    /// A dead letter cannot be dead-lettered again; the lock holds.
    AlreadyDead,
    /// The lock of a message in a session lasts as long as that of the session, which is renewed instead.
    InSession,
    /// The state of a session is larger than a message may be.
    StateTooLarge { limit: usize },
    /// The state of a session does not fit into the entity.
    Full,
    /// The entity is closed to receivers; the lock holds.
    Disabled,
    /// The disk does not take it now; the lock holds.
    Disk(Box<Lack>),
}

/// The settlement that a lease requests.
#[derive(Debug)]
pub(crate) enum Settlement {
    By(Disposition),
    /// Lock for the full duration from now.
    Renew,
}

impl Store {
    /// Settles the delivery that `key` and `lock` name. Returns the message if it is removed. Values of the
    /// disposition are copied, so that the caller drops the last of them, where no lock is held.
    #[inline]
    pub(in super::super) fn settle(
        &mut self,
        now: Now,
        key: u32,
        lock: u64,
        disposition: &Disposition,
        fx: &mut Effects,
    ) -> Result<Option<Stored>, Refused> {
        if matches!(disposition, Disposition::Complete) {
            return self.complete(now, key, lock, fx).map(Some);
        }
        let part = self.held(now, key, lock)?;
        self.settle_otherwise(now, key, part, disposition, fx).map(|()| None)
    }

    /// Does the same, where the disk, if there is one, has space for what a settlement writes. A completion frees space.
    #[inline]
    pub(in super::super) fn settle_if_it_fits(
        &mut self,
        now: Now,
        key: u32,
        lock: u64,
        disposition: &Disposition,
        fx: &mut Effects,
    ) -> Result<Option<Stored>, Refused> {
        if matches!(disposition, Disposition::Complete) {
            return self.complete(now, key, lock, fx).map(Some);
        }
        let part = self.held(now, key, lock)?;
        check(part, disposition)?;
        fx.check_settlement(self.written_by(key, disposition))?;
        self.settle_otherwise(now, key, part, disposition, fx).map(|()| None)
    }

    /// Returns the bytes that a settlement adds to what waits for the disk.
    fn written_by(&self, key: u32, disposition: &Disposition) -> u64 {
        let entry = &self.entries[key as usize];
        match disposition {
            Disposition::Complete => 0,
            _ if entry.marks & CHANGED != 0 => 0,
            Disposition::Abandon(changes) if entry.part != Part::Main && changes.is_empty() => 0,
            _ => entry.size(),
        }
    }

    /// Removes the message of the delivery that `key` and `lock` name.
    #[inline]
    pub(in super::super) fn complete(
        &mut self,
        now: Now,
        key: u32,
        lock: u64,
        fx: &mut Effects,
    ) -> Result<Stored, Refused> {
        self.held(now, key, lock)?;
        let entry = self.take_entry(key, fx);
        let (locks, entries) = self.locks(entry.lane);
        locks.unlink(entries, entry.previous, entry.next);
        self.tally[entry.part as usize].locked -= 1;
        self.totals.completed += 1;
        self.forget(&entry);
        Ok(entry.message)
    }

    fn settle_otherwise(
        &mut self,
        now: Now,
        key: u32,
        part: Part,
        disposition: &Disposition,
        fx: &mut Effects,
    ) -> Result<(), Refused> {
        check(part, disposition)?;
        match disposition {
            Disposition::Complete => {}
            Disposition::Abandon(changes) => {
                self.totals.abandoned += 1;
                if self.change(key, changes, fx) {
                    self.unlock(key, now.ticks, Failure::Counts, fx);
                } else {
                    self.bury_locked(key, self.header_size_exceeded(key), fx);
                }
            }
            Disposition::Defer(changes) => {
                self.totals.deferred += 1;
                if self.change(key, changes, fx) {
                    self.remove_lock(key);
                    self.set_aside(key, fx);
                } else {
                    self.bury_locked(key, self.header_size_exceeded(key), fx);
                }
            }
            Disposition::DeadLetter(dead_letter) => {
                self.totals.dead_lettered += 1;
                let fits = self.fits(key, dead_letter);
                let dead_letter = if fits { DeadLetter::clone(dead_letter) } else { self.header_size_exceeded(key) };
                self.bury_locked(key, dead_letter, fx);
            }
        }
        Ok(())
    }

    /// Whether [`Store::settle`] would accept this, and how many bytes that would free and write.
    pub(in super::super) fn check_settlement(
        &self,
        now: Now,
        key: u32,
        lock: u64,
        settlement: &Settlement,
    ) -> Result<(u64, u64), Refused> {
        if !self.settings.status.allows_receive() {
            return Err(Refused::Disabled);
        }
        let part = self.held(now, key, lock)?;
        match settlement {
            Settlement::By(Disposition::Complete) => Ok((self.entries[key as usize].size(), 0)),
            Settlement::By(disposition) => check(part, disposition).map(|()| (0, self.written_by(key, disposition))),
            Settlement::Renew if self.is_in_session(key) => Err(Refused::InSession),
            Settlement::Renew => Ok((0, 0)),
        }
    }

    #[inline]
    pub(super) fn is_in_session(&self, key: u32) -> bool {
        self.sessions.is_some() && self.lanes[self.entries[key as usize].lane as usize].session.is_some()
    }

    /// Extends a lock to its full duration from now, and returns when it ends.
    pub(in super::super) fn renew(
        &mut self,
        now: Now,
        key: u32,
        lock: u64,
        fx: &mut Effects,
    ) -> Result<Timestamp, Refused> {
        self.held(now, key, lock)?;
        if self.is_in_session(key) {
            return Err(Refused::InSession);
        }
        let until = now.ticks.saturating_add(self.lock.ticks);
        self.locks.remove(&mut self.entries, key);
        self.locks.push(&mut self.entries, key, until);
        self.lock_changed(key, fx);
        self.arm(until, fx);
        Ok(self.lock.shown_from(now))
    }

    /// Ends a lock without counting the delivery.
    pub(in super::super) fn release(&mut self, now: Now, key: u32, lock: u64, fx: &mut Effects) -> Result<(), Refused> {
        self.held(now, key, lock)?;
        self.totals.released += 1;
        self.unlock(key, now.ticks, Failure::IsForgiven, fx);
        Ok(())
    }

    /// Returns the part of a message whose current lock is still `lock`.
    #[inline]
    fn held(&self, now: Now, key: u32, lock: u64) -> Result<Part, Refused> {
        match self.entries.get(key as usize) {
            // Only the message of a session may outlive its own lock: that of the session may have been renewed. For
            // others, an earlier clock reading of another thread may have moved this call before the end of the lock.
            Some(entry)
                if (entry.lock == lock || Defect::IgnoreLockToken.is_there())
                    && (entry.locked_until > now.ticks || self.is_in_session(key)) =>
            {
                Ok(entry.part)
            }
            _ => Err(Refused::LockLost),
        }
    }

    /// Merges `changes` into the properties. `false`, and nothing is changed, if they would be too large.
    fn change(&mut self, key: u32, changes: &Changes, fx: &mut Effects) -> bool {
        if changes.is_empty() {
            return true;
        }
        let entry = &mut self.entries[key as usize];
        let before = entry.message.size() as u64;
        let mut message = entry.message.clone();
        message.properties_mut().application_properties_mut().merge(changes.clone().into_permitted());
        if message.properties().check().is_err() {
            return false;
        }
        let after = message.size() as u64;
        fx.note().dropped.push(std::mem::replace(&mut entry.message, message));
        entry.set_size((entry.size() + after).saturating_sub(before));
        self.resized(before, after, fx);
        self.changed(key, fx);
        true
    }

    /// Whether the properties stay within their limits with what a dead letter adds. The reason is always admitted.
    fn fits(&self, key: u32, dead_letter: &DeadLetter) -> bool {
        if dead_letter.changes.is_empty() && dead_letter.description.is_empty() {
            return true;
        }
        let mut properties = self.entries[key as usize].message.properties().clone();
        if let Some(changes) = dead_letter.changes.properties() {
            properties.application_properties_mut().merge(changes.clone());
        }
        if !dead_letter.description.is_empty() {
            properties
                .application_properties_mut()
                .insert(DeadLetter::DESCRIPTION, dead_letter.description.clone().into_owned());
        }
        properties.check().is_ok()
    }

    fn header_size_exceeded(&self, key: u32) -> DeadLetter {
        fitted(&self.entries[key as usize].message, DeadLetter::header_size_exceeded())
    }

    fn bury_locked(&mut self, key: u32, dead_letter: DeadLetter, fx: &mut Effects) {
        let entry = &self.entries[key as usize];
        let (part, deliveries) = (entry.part, entry.failures.saturating_add(1));
        self.lock_changed(key, fx);
        self.remove_lock(key);
        if part == Part::Main {
            self.bury(key, deliveries, dead_letter, fx);
        } else {
            // Its properties outgrew their limit in the dead-letter sub-queue, where it stays as it was.
            self.put_back(key, fx);
        }
    }
}

fn check(part: Part, disposition: &Disposition) -> Result<(), Refused> {
    let Disposition::DeadLetter(dead_letter) = disposition else { return Ok(()) };
    if part != Part::Main {
        return Err(Refused::AlreadyDead);
    }
    check_text(Field::DeadLetterReason, dead_letter.reason.as_str())?;
    check_text(Field::DeadLetterErrorDescription, &dead_letter.description)?;
    Ok(())
}

impl From<InvalidArgument> for Refused {
    fn from(error: InvalidArgument) -> Self {
        Self::Invalid(Box::new(error))
    }
}

fn check_text(field: Field, text: &str) -> Result<(), InvalidArgument> {
    let limit = limits::DEAD_LETTER_TEXT;
    if limits::is_longer_than(text, limit) {
        return Err(InvalidArgument::new(field, Problem::TooLong { limit }));
    }
    Ok(())
}
