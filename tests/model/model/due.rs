use super::{Model, Part, Place, Stored, forward::RETRY};

/// What happens by itself, in the order of one instant. Each names what it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The lock of a message ends.
    LockEnds { since: u64, key: u64 },
    /// The lock of a session ends.
    SessionEnds { number: u64 },
    /// A message expires.
    Expires { key: u64 },
    /// A scheduled message becomes active.
    BecomesActive { key: u64 },
    /// Dead letters are tried again.
    Retry,
    /// The entity is idle, and is deleted.
    Idle,
}

impl Model {
    /// Lets everything happen that is due, one thing after the other, each at its own instant.
    pub(crate) fn catch_up(&mut self) {
        let (now, utc) = (self.now, self.utc);
        // What a command makes due is due later.
        if self.caught_up == now {
            return;
        }
        self.caught_up = now;
        while let Some((instant, entity, due)) = self.due().into_iter().min()
            && instant <= now
        {
            if let (Due::Retry, skipped @ 1..) = (due, (now - instant) / RETRY) {
                // Of the tries that came due while nobody called, the last is made.
                self.entity_mut(entity).retry = Some(instant + skipped * RETRY);
                continue;
            }
            self.now = instant;
            self.utc = utc - i64::try_from(now - instant).unwrap();
            self.happen(entity, due);
            self.hand_over();
        }
        (self.now, self.utc) = (now, utc);
    }

    /// Everything that is going to happen by itself, with its instant and the entity.
    pub(crate) fn due(&self) -> Vec<(u64, u32, Due)> {
        let mut all = Vec::new();
        for (&key, stored) in &self.messages {
            let due = match stored.place {
                Place::Ready if stored.part == Part::Main => stored.expires.map(|at| (at, Due::Expires { key })),
                Place::Scheduled => stored.due.map(|at| (at, Due::BecomesActive { key })),
                _ if self.is_in_session(stored) => None,
                _ => stored.lock.map(|lock| (lock.until, Due::LockEnds { since: lock.since, key })),
            };
            all.extend(due.map(|(at, due)| (at, stored.entity, due)));
        }
        for session in &self.sessions {
            all.extend(session.lock.map(|lock| (lock.until, session.entity, Due::SessionEnds { number: lock.number })));
        }
        for (&id, entity) in &self.entities {
            all.extend(entity.retry.map(|at| (at, id, Due::Retry)));
            all.extend(self.idle_at(id).map(|at| (at, id, Due::Idle)));
        }
        all
    }

    /// When an entity is deleted if it is not used any more. A topic is used with its subscriptions.
    fn idle_at(&self, id: u32) -> Option<u64> {
        let idle = self.entity(id).settings.idle?;
        let used: Vec<u32> = self.subscriptions(id).into_iter().chain([id]).collect();
        let is_scheduled = |stored: &Stored| used.contains(&stored.entity) && stored.place == Place::Scheduled;
        if used.iter().any(|&id| self.entity(id).settings.forward_to.is_some())
            || self.messages.values().any(is_scheduled)
        {
            return None;
        }
        used.iter().map(|&id| self.entity(id).accessed + idle).max()
    }

    fn happen(&mut self, entity: u32, due: Due) {
        match due {
            Due::LockEnds { key, .. } => self.unlock(key, true),
            Due::SessionEnds { number } => {
                let ends = |session: &super::Session| session.lock.is_some_and(|lock| lock.number == number);
                let at = self.sessions.iter().position(ends).unwrap();
                self.end_session(at, true);
            }
            Due::Expires { key } => self.expire(key),
            Due::BecomesActive { key } => self.become_active(key),
            Due::Retry => self.let_leave(entity),
            Due::Idle => self.delete_entity(entity),
        }
    }
}
