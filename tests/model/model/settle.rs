use std::collections::BTreeMap;

use consign::{message::PropertyValue, transport::ErrorKind};

use super::{Model, Part, Place};

pub(crate) const REASON: &str = "DeadLetterReason";
pub(crate) const DESCRIPTION: &str = "DeadLetterErrorDescription";

/// Properties of the application to set.
pub(crate) type Changes = BTreeMap<String, PropertyValue>;

/// What a settlement does.
#[derive(Clone, Debug)]
pub(crate) enum Settle {
    Complete,
    Abandon(Changes),
    Defer(Changes),
    DeadLetter { reason: String, description: String, changes: Changes },
}

impl Model {
    /// The message whose current lock this is, where the entity lets it be settled.
    pub(super) fn held(&self, id: u32, lock: u64) -> Result<u64, ErrorKind> {
        let entity = self.entities.get(&id).ok_or(ErrorKind::MessageLockLost)?;
        if !entity.settings.takes_receives() {
            return Err(ErrorKind::EntityDisabled);
        }
        self.locked_by(lock).ok_or(ErrorKind::MessageLockLost)
    }

    pub(crate) fn locked_by(&self, lock: u64) -> Option<u64> {
        self.keys(|stored| stored.lock.is_some_and(|held| held.number == lock)).first().copied()
    }

    pub(crate) fn settle(&mut self, id: u32, lock: u64, settle: Settle) -> Result<(), ErrorKind> {
        self.catch_up();
        self.touch_open(id);
        let key = self.held(id, lock)?;
        self.check_settle(key, &settle)?;
        self.apply(key, settle);
        self.hand_over();
        Ok(())
    }

    pub(super) fn check_settle(&self, key: u64, settle: &Settle) -> Result<(), ErrorKind> {
        match settle {
            Settle::DeadLetter { .. } if self.messages[&key].part != Part::Main => Err(ErrorKind::InvalidOperation),
            _ => Ok(()),
        }
    }

    pub(super) fn apply(&mut self, key: u64, settle: Settle) {
        match settle {
            Settle::Complete => drop(self.remove(key)),
            Settle::Abandon(changes) => {
                self.change(key, changes);
                self.unlock(key, true);
            }
            Settle::Defer(changes) => {
                self.change(key, changes);
                let stored = self.message(key);
                (stored.place, stored.lock) = (Place::Deferred, None);
            }
            Settle::DeadLetter { reason, description, changes } => {
                let stored = self.message(key);
                stored.lock = None;
                let deliveries = stored.failures + 1;
                for (name, value) in changes {
                    stored.write(&name, Some(value));
                }
                self.bury(key, &reason, &description, deliveries);
            }
        }
    }

    /// The reason and the description of a dead letter are the broker's.
    fn change(&mut self, key: u64, changes: Changes) {
        for (name, value) in changes.into_iter().filter(|(name, _)| name != REASON && name != DESCRIPTION) {
            self.message(key).write(&name, Some(value));
        }
    }

    /// Extends a lock, and answers until when it holds.
    pub(crate) fn renew(&mut self, id: u32, lock: u64) -> Result<i64, ErrorKind> {
        self.catch_up();
        self.touch_open(id);
        let key = self.held(id, lock)?;
        self.check_renew(key)?;
        Ok(self.apply_renew(key))
    }

    pub(super) fn check_renew(&self, key: u64) -> Result<(), ErrorKind> {
        if self.is_in_session(&self.messages[&key]) { Err(ErrorKind::InvalidOperation) } else { Ok(()) }
    }

    pub(super) fn apply_renew(&mut self, key: u64) -> i64 {
        let (now, since) = (self.now, self.next_lock());
        let duration = self.entity(self.messages[&key].entity).settings.lock;
        let shown = self.utc_at(now + duration);
        let lock = self.message(key).lock.as_mut().unwrap();
        (lock.since, lock.until, lock.shown) = (since, now + duration, shown);
        shown
    }

    /// Gives a message back. That is allowed whatever the status of the entity.
    pub(crate) fn release(&mut self, entity: u32, lock: u64) -> Result<(), ErrorKind> {
        self.catch_up();
        if self.entities.contains_key(&entity) {
            self.touch(entity);
        }
        let key = self.locked_by(lock).ok_or(ErrorKind::MessageLockLost)?;
        self.unlock(key, false);
        self.hand_over();
        Ok(())
    }

    pub(crate) fn lose_locks(&mut self, id: u32, part: Part) {
        self.catch_up();
        self.end_locks(id, &|of| of == part, true);
        self.hand_over();
    }

    /// Ends all locks in the order in which they would end: those of messages, and then those of sessions.
    pub(super) fn end_locks(&mut self, id: u32, wanted: &dyn Fn(Part) -> bool, failed: bool) {
        let mut keys = self.keys(|it| it.entity == id && wanted(it.part) && it.is_locked() && !self.is_in_session(it));
        keys.sort_by_key(|key| self.messages[key].lock.map(|lock| lock.since));
        for key in keys {
            self.unlock(key, failed);
        }
        if wanted(Part::Main) {
            let held = |model: &Self| {
                let held = model.sessions.iter().enumerate().filter(|(_, it)| it.entity == id && it.lock.is_some());
                held.min_by_key(|(_, it)| it.lock.map(|lock| (lock.until, lock.number))).map(|(at, _)| at)
            };
            while let Some(at) = held(self) {
                self.end_session(at, failed);
            }
        }
    }

    /// Ends a lock and puts the message where it belongs now.
    pub(super) fn unlock(&mut self, key: u64, failed: bool) {
        let now = self.now;
        let stored = self.message(key);
        stored.lock = None;
        let was_deferred = stored.is_deferred();
        stored.place = if was_deferred { Place::Deferred } else { Place::Ready };
        if stored.part == Part::Main {
            stored.failures += u32::from(failed);
            let (entity, failures, is_expired) = (stored.entity, stored.failures, stored.is_expired(now));
            if was_deferred {
                return;
            }
            if is_expired {
                return self.expire(key);
            }
            if failed && failures >= self.entity(entity).settings.max_deliveries {
                let description = format!("Message could not be consumed after {failures} delivery attempts.");
                return self.bury(key, "MaxDeliveryCountExceeded", &description, failures);
            }
        }
        if !was_deferred {
            self.make_ready(key);
        }
    }

    pub(super) fn expire(&mut self, key: u64) {
        let stored = &self.messages[&key];
        let failures = stored.failures;
        if self.entity(stored.entity).settings.bury_expired {
            self.bury(key, "TTLExpiredException", "The message expired and was dead lettered.", failures);
        } else {
            self.remove(key);
        }
    }

    /// Moves a message to the dead-letter queue, where it reads as many deliveries as it had, and one at least.
    pub(super) fn bury(&mut self, key: u64, reason: &str, description: &str, deliveries: u32) {
        let stored = self.message(key);
        stored.part = Part::Dead;
        stored.failures = deliveries.max(1) - 1;
        (stored.expires, stored.expires_at) = (None, None);
        stored.mark_dead(reason, description);
        self.make_ready(key);
    }

    fn touch_open(&mut self, id: u32) {
        if self.entities.get(&id).is_some_and(|entity| entity.settings.takes_receives()) {
            self.touch(id);
        }
    }
}

impl super::Stored {
    /// The failed deliveries that a peek shows. A dead letter has those before the delivery that dead-lettered it, which has failed
    /// too if it was the last one.
    pub(crate) fn shown_failures(&self) -> u32 {
        let reason = self.content.application.get(REASON);
        let is_last = self.part != Part::Main && reason == Some(&"MaxDeliveryCountExceeded".into());
        self.failures + u32::from(is_last)
    }

    /// Writes why it died. Where it came from is known outside of a dead-letter queue only.
    pub(super) fn mark_dead(&mut self, reason: &str, description: &str) {
        self.write(REASON, Some(reason.into()));
        self.write(DESCRIPTION, Some(description).filter(|text| !text.is_empty()).map(Into::into));
        self.source = None;
    }
}
