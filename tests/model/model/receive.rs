use consign::transport::ErrorKind;

use super::{Model, Part, Place, Role, Stored, session::Holder, stored::Lock};

/// A locked message: its key, and its lock.
pub(crate) type Taken = (u64, Lock);

/// Since when the oldest message waits, by state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ages {
    pub(crate) active: Option<i64>,
    pub(crate) deferred: Option<i64>,
    pub(crate) dead_lettered: Option<i64>,
    pub(crate) next_scheduled: Option<i64>,
}

/// Where a receiver takes messages from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Part(Part),
    Session(&'a Holder),
}

impl Source<'_> {
    fn has(self, stored: &Stored) -> bool {
        match self {
            Self::Part(part) => stored.part == part,
            Self::Session(holder) => stored.part == Part::Main && stored.content.session.as_ref() == Some(&holder.id),
        }
    }
}

impl Model {
    /// Locks up to `max` messages.
    pub(crate) fn receive(&mut self, id: u32, from: Source, max: usize) -> Result<Vec<Taken>, ErrorKind> {
        let first = self.first_ready(id, from, max)?;
        Ok(first.into_iter().map(|key| (key, self.lock(key))).collect())
    }

    pub(crate) fn receive_and_delete(&mut self, id: u32, from: Source, max: usize) -> Result<Vec<Stored>, ErrorKind> {
        let first = self.first_ready(id, from, max)?;
        Ok(first.into_iter().map(|key| self.remove(key)).collect())
    }

    fn first_ready(&mut self, id: u32, from: Source, max: usize) -> Result<Vec<u64>, ErrorKind> {
        self.check_receive(id, from)?;
        let mut keys = self.keys(|it| it.entity == id && from.has(it) && it.place == Place::Ready);
        keys.truncate(max);
        Ok(keys)
    }

    /// Locks deferred messages: all of them, or none.
    pub(crate) fn receive_deferred(&mut self, id: u32, from: Source, numbers: &[u64]) -> Result<Vec<Taken>, ErrorKind> {
        self.check_receive(id, from)?;
        let mut keys = Vec::new();
        for &number in numbers {
            let wanted = |it: &Stored| it.entity == id && from.has(it) && it.sequence == number;
            let is_there = |it: &Stored| wanted(it) && it.place == Place::Deferred && !it.is_expired(self.now);
            let key = *self.keys(is_there).first().ok_or(ErrorKind::MessageNotFound)?;
            if keys.contains(&key) {
                return Err(ErrorKind::MessageNotFound);
            }
            keys.push(key);
        }
        Ok(keys.into_iter().map(|key| (key, self.lock(key))).collect())
    }

    fn check_receive(&mut self, id: u32, from: Source) -> Result<(), ErrorKind> {
        self.catch_up();
        let settings = &self.entities.get(&id).ok_or(ErrorKind::EntityNotFound)?.settings;
        if !settings.takes_receives() {
            return Err(ErrorKind::EntityDisabled);
        }
        match from {
            Source::Part(Part::Main) if settings.sessions || settings.forward_to.is_some() => {
                return Err(ErrorKind::InvalidOperation);
            }
            Source::Session(holder) if self.session_of(holder).is_none() => return Err(ErrorKind::SessionLockLost),
            _ => {}
        }
        self.touch(id);
        Ok(())
    }

    /// A lock of a message in a session lasts as long as that of the session.
    fn lock(&mut self, key: u64) -> Lock {
        let number = self.next_lock();
        let stored = &self.messages[&key];
        let until = match self.holder_of(stored) {
            Some(session) => session.until,
            None => self.now + self.entity(stored.entity).settings.lock,
        };
        let lock = Lock { number, since: number, until, shown: self.utc_at(until) };
        let stored = self.message(key);
        stored.lock = Some(lock);
        stored.place = if stored.place == Place::Ready { Place::Locked } else { Place::DeferredLocked };
        lock
    }

    /// By sequence number, up to `max` from `from` on.
    pub(crate) fn peek(&mut self, id: u32, of: Source, from: u64, max: usize) -> Vec<&Stored> {
        self.catch_up();
        if !self.entities.contains_key(&id) {
            return Vec::new();
        }
        if self.entity(id).role != Role::Topic {
            self.touch(id);
        }
        if let Source::Session(holder) = of
            && self.session_of(holder).is_none()
        {
            return Vec::new();
        }
        let mut found: Vec<_> =
            self.messages.values().filter(|it| it.entity == id && of.has(it) && it.sequence >= from).collect();
        found.sort_by_key(|stored| stored.sequence);
        found.truncate(max);
        found
    }

    /// Removes the oldest that nobody holds and that are not scheduled.
    pub(crate) fn delete_messages(
        &mut self,
        id: u32,
        part: Part,
        max: usize,
        before: Option<i64>,
    ) -> Result<usize, ErrorKind> {
        self.catch_up();
        let settings = &self.entities.get(&id).ok_or(ErrorKind::EntityNotFound)?.settings;
        if settings.partitioned {
            return Err(ErrorKind::InvalidOperation);
        }
        self.touch(id);
        let is_wanted = |it: &Stored| {
            let is_free = matches!(it.place, Place::Ready | Place::Deferred);
            it.entity == id && it.part == part && is_free && before.is_none_or(|before| it.enqueued < before)
        };
        let mut keys = self.keys(is_wanted);
        keys.truncate(max);
        for &key in &keys {
            self.remove(key);
        }
        Ok(keys.len())
    }

    pub(crate) fn ages(&mut self, id: u32, part: Part) -> Ages {
        self.catch_up();
        let oldest = |part: Part, wanted: &dyn Fn(Place) -> bool| {
            let all = self.messages.values().filter(|it| it.entity == id && it.part == part && wanted(it.place));
            all.map(|it| it.enqueued).min()
        };
        let is_main = part == Part::Main;
        let due = self.messages.values().filter(|it| is_main && it.entity == id).filter_map(|it| it.due).min();
        Ages {
            active: oldest(part, &|place| place == Place::Ready),
            deferred: oldest(part, &|place| place == Place::Deferred),
            dead_lettered: oldest(Part::Dead, &|_| true).filter(|_| is_main),
            next_scheduled: due.map(|due| self.utc + i64::try_from(due - self.now).unwrap()),
        }
    }
}
