use super::{Model, Place, Stored};

impl Model {
    /// The broker is closed, and opened again on another monotonic clock when so much time has passed. Only UTC tells
    /// how long ago a thing was. What came due meanwhile happens at its own instant.
    pub(crate) fn reopen(&mut self, after: u64, hold_locks: bool) {
        self.catch_up();
        let keys: Vec<u64> = self.messages.keys().copied().collect();
        for &key in &keys {
            let holds = hold_locks && !self.is_in_session(&self.messages[&key]);
            let number = self.next_lock();
            match &mut self.message(key).lock {
                // Nobody has it any more.
                Some(lock) if holds => (lock.number, lock.since) = (number, number),
                lock => *lock = None,
            }
        }
        self.sessions.retain_mut(|session| {
            session.lock = None;
            session.state.is_some()
        });
        self.advance(after);
        for key in keys {
            let stored = self.message(key);
            if stored.lock.is_none() && stored.is_locked() {
                stored.place = if stored.is_deferred() { Place::Deferred } else { Place::Ready };
            }
            let Stored { expires_at, lock, due, content, .. } = self.messages[&key].clone();
            let expires = expires_at.map(|at| self.instant_of(at));
            let due = due.and(content.at).map(|at| self.instant_of(at));
            let until = lock.map(|lock| self.instant_of(lock.shown));
            let stored = self.message(key);
            (stored.expires, stored.due) = (expires, due);
            if let Some((lock, until)) = stored.lock.as_mut().zip(until) {
                lock.until = until;
            }
        }
        let (now, utc) = (self.now, self.utc);
        for entity in self.entities.values_mut() {
            // It was not idle while nobody could use it.
            (entity.accessed, entity.retry) = (now, None);
            for remembered in &mut entity.ids {
                remembered.first = now - u64::try_from(utc - remembered.accepted).unwrap();
            }
        }
        // Things came due at instants that were passed before.
        self.caught_up = 0;
        self.catch_up();
        for id in self.entities.keys().copied().collect::<Vec<_>>() {
            self.let_leave(id);
            self.hand_over();
        }
    }

    /// The instant at which UTC was this, or is going to be.
    fn instant_of(&self, utc: i64) -> u64 {
        self.now.checked_add_signed(utc - self.utc).unwrap()
    }
}
