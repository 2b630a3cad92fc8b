use consign::transport::ErrorKind;

use super::{Model, Part, Place, Stored, send::OVERHEAD, stored::Lock};

/// A session that has a state or a holder.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) entity: u32,
    pub(crate) id: String,
    pub(crate) state: Option<Vec<u8>>,
    pub(crate) lock: Option<Lock>,
}

impl Session {
    /// What its state counts.
    pub(super) fn bytes(&self) -> u64 {
        bytes(self.state.as_ref())
    }
}

fn bytes(state: Option<&Vec<u8>>) -> u64 {
    state.map_or(0, |state| state.len() as u64 + OVERHEAD)
}

/// What the holder of a session has.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) entity: u32,
    pub(crate) id: String,
    pub(crate) lock: u64,
    /// As it is shown.
    pub(crate) until: i64,
}

impl Model {
    /// A session settles its messages together, but for the dead ones.
    pub(crate) fn is_in_session(&self, stored: &Stored) -> bool {
        stored.part == Part::Main && self.entity(stored.entity).settings.sessions
    }

    /// The lock of the session that a message is in.
    pub(super) fn holder_of(&self, stored: &Stored) -> Option<Lock> {
        let is_its = |it: &&Session| it.entity == stored.entity && Some(&it.id) == stored.content.session.as_ref();
        self.sessions.iter().filter(|_| self.is_in_session(stored)).find(is_its).and_then(|session| session.lock)
    }

    /// The session that is still held by this lock.
    pub(crate) fn session_of(&self, holder: &Holder) -> Option<usize> {
        self.sessions.iter().position(|it| it.lock.is_some_and(|lock| lock.number == holder.lock))
    }

    /// Locks the session of this id, or without one the first that has a message and that nobody holds.
    pub(crate) fn accept_session(&mut self, entity: u32, id: Option<&str>) -> Result<Option<Holder>, ErrorKind> {
        self.catch_up();
        let settings = &self.entities.get(&entity).ok_or(ErrorKind::EntityNotFound)?.settings;
        if !settings.takes_receives() {
            return Err(ErrorKind::EntityDisabled);
        }
        let (duration, has_sessions) = (settings.lock, settings.sessions);
        self.touch(entity);
        if !has_sessions {
            return Err(ErrorKind::InvalidOperation);
        }
        let is_held = |id: &str| self.sessions.iter().any(|it| it.entity == entity && it.id == id && it.lock.is_some());
        let id = match id {
            Some(id) if is_held(id) => return Err(ErrorKind::SessionCannotBeLocked),
            Some(id) => id.to_owned(),
            None => {
                let ready = self.messages.values().filter(|it| {
                    it.entity == entity && it.part == Part::Main && it.place == Place::Ready && !is_held(it.session())
                });
                match ready.map(|it| it.session().to_owned()).next() {
                    Some(id) => id,
                    None => return Ok(None),
                }
            }
        };
        let number = self.next_lock();
        let until = self.now + duration;
        let shown = self.utc_at(until);
        let lock = Some(Lock { number, since: number, until, shown });
        match self.sessions.iter_mut().find(|it| it.entity == entity && it.id == id) {
            Some(session) => session.lock = lock,
            None => self.sessions.push(Session { entity, id: id.clone(), state: None, lock }),
        }
        Ok(Some(Holder { entity, id, lock: number, until: shown }))
    }

    fn check_holder(&mut self, holder: &Holder) -> Result<usize, ErrorKind> {
        self.catch_up();
        let entity = self.entities.get(&holder.entity).ok_or(ErrorKind::SessionLockLost)?;
        if !entity.settings.takes_receives() {
            return Err(ErrorKind::EntityDisabled);
        }
        self.touch(holder.entity);
        self.session_of(holder).ok_or(ErrorKind::SessionLockLost)
    }

    /// Extends the lock, and with it those of the messages.
    pub(crate) fn renew_session(&mut self, holder: &mut Holder) -> Result<i64, ErrorKind> {
        let at = self.check_holder(holder)?;
        let (duration, since) = (self.entity(holder.entity).settings.lock, self.next_lock());
        let until = self.now + duration;
        holder.until = self.utc_at(until);
        let lock = self.sessions[at].lock.as_mut().unwrap();
        (lock.since, lock.until, lock.shown) = (since, until, holder.until);
        Ok(holder.until)
    }

    /// Ends the lock by the holder's will, whatever the status of the entity: no delivery counts.
    pub(crate) fn close_session(&mut self, holder: &Holder) -> Result<(), ErrorKind> {
        self.catch_up();
        if self.entities.contains_key(&holder.entity) {
            self.touch(holder.entity);
        }
        let at = self.session_of(holder).ok_or(ErrorKind::SessionLockLost)?;
        self.end_session(at, false);
        self.hand_over();
        Ok(())
    }

    /// Ends the lock of a session, and those of its messages.
    pub(super) fn end_session(&mut self, at: usize, failed: bool) {
        let Session { entity, id, .. } = self.sessions[at].clone();
        let its = |it: &Stored| it.entity == entity && it.content.session.as_ref() == Some(&id);
        let mut keys = self.keys(|it| its(it) && it.part == Part::Main && it.is_locked());
        keys.sort_by_key(|key| self.messages[key].lock.map(|lock| lock.since));
        for key in keys {
            self.unlock(key, failed);
        }
        self.sessions[at].lock = None;
        self.sessions.retain(|session| session.lock.is_some() || session.state.is_some());
    }

    pub(crate) fn session_state(&mut self, holder: &Holder) -> Result<Option<Vec<u8>>, ErrorKind> {
        let at = self.check_holder(holder)?;
        Ok(self.sessions[at].state.clone())
    }

    /// A state is at most as large as a message, and counts against the quota; of a subscription against its topic's.
    pub(crate) fn set_session_state(&mut self, holder: &Holder, state: Option<Vec<u8>>) -> Result<(), ErrorKind> {
        let at = self.check_holder(holder)?;
        let top = self.top_level(holder.entity);
        let settings = &self.entity(top).settings;
        let (before, after) = (bytes(self.sessions[at].state.as_ref()), bytes(state.as_ref()));
        if state.as_ref().is_some_and(|state| state.len() as u64 > settings.max_message_size) {
            return Err(ErrorKind::MessageSizeExceeded);
        }
        if after > before && self.used(top) - before + after > settings.max_size {
            return Err(ErrorKind::QuotaExceeded);
        }
        self.sessions[at].state = state;
        Ok(())
    }

    /// The sessions that have a message or a state. A message that is scheduled or dead is in none.
    pub(crate) fn session_ids(&mut self, id: u32) -> Vec<String> {
        self.catch_up();
        if !self.entities.get(&id).is_some_and(|entity| entity.settings.sessions) {
            return Vec::new();
        }
        let with_message = self
            .messages
            .values()
            .filter(|it| it.entity == id && it.part == Part::Main && it.place != Place::Scheduled);
        let with_state = self.sessions.iter().filter(|it| it.entity == id && it.state.is_some());
        let mut ids: Vec<_> = with_message.map(|it| it.session().to_owned()).collect();
        ids.extend(with_state.map(|session| session.id.clone()));
        ids.sort();
        ids.dedup();
        ids
    }
}

impl Stored {
    fn session(&self) -> &str {
        self.content.session.as_deref().unwrap_or_default()
    }
}
