use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use consign_core::{
    message::SequenceNumber,
    time::Timestamp,
    transport::{ErrorKind, ReceiveError},
};

use super::{
    Effects, Line, Now, Store, Ticks,
    events::Failure,
    lane::Lane,
    session::{Session, size_of_state},
    settle::Refused,
};

/// The sessions of an entity that requires them.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    lanes: HashMap<Box<str>, u32>,
    /// Sessions without a holder and with a message, by the order of their first.
    available: BTreeSet<(u64, u32)>,
    /// When locked sessions end; at one instant, in the order of their locks. With the number of the lock and the
    /// lane.
    ends: BTreeSet<(Ticks, u64, u32)>,
}

/// A session that was locked.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) id: Box<str>,
    pub(crate) lane: u32,
    pub(crate) lock: u64,
    pub(crate) until: Timestamp,
}

impl Sessions {
    pub(super) fn first_end(&self) -> Option<(Ticks, u32)> {
        self.ends.first().map(|&(until, _, lane)| (until, lane))
    }

    /// Returns the sessions one of which has the first message that can be received: the first of those that are available, and
    /// those that are locked.
    pub(super) fn first_lanes(&self) -> impl Iterator<Item = u32> {
        let available = self.available.first().map(|&(_, lane)| lane);
        available.into_iter().chain(self.ends.iter().map(|&(_, _, lane)| lane))
    }
}

impl Store {
    pub(super) fn session_lane(&mut self, id: &str) -> u32 {
        let Some(sessions) = &mut self.sessions else { return 0 };
        if let Some(&lane) = sessions.lanes.get(id) {
            return lane;
        }
        let slot = self.lanes.vacant_entry();
        let lane = u32::try_from(slot.key()).expect("fewer than 2^32 sessions in one entity");
        slot.insert(Lane { session: Some(Box::new(Session::new(id))), ..Lane::default() });
        sessions.lanes.insert(id.into(), lane);
        lane
    }

    fn session(&self, lane: u32) -> Option<&Session> {
        self.lanes.get(lane as usize)?.session.as_deref()
    }

    /// Returns the session whose current lock is still `lock`.
    fn held_session(&mut self, lane: u32, lock: u64) -> Result<&mut Session, Refused> {
        let session = self.lanes.get_mut(lane as usize).and_then(|lane| lane.session.as_deref_mut());
        session.filter(|session| session.lock == lock && lock != 0).ok_or(Refused::SessionLockLost)
    }

    pub(super) fn is_held(&self, lane: u32, lock: u64) -> bool {
        self.session(lane).is_some_and(|session| session.lock == lock)
    }

    /// Returns when the lock of a session ends.
    pub(super) fn session_until(&self, lane: u32) -> Ticks {
        self.session(lane).map_or(0, |session| session.until)
    }

    /// Locks the session of this id, which may be empty.
    pub(crate) fn accept_session(&mut self, now: Now, id: &str, fx: &mut Effects) -> Result<Accepted, ReceiveError> {
        self.check_sessions()?;
        let lane = self.session_lane(id);
        if self.session(lane).is_some_and(|session| session.lock != 0) {
            return Err(ReceiveError::new(ErrorKind::SessionCannotBeLocked));
        }
        Ok(self.lock_session(now, lane, fx))
    }

    /// Locks the session without a holder whose first message was accepted first.
    pub(crate) fn accept_next_session(&mut self, now: Now, fx: &mut Effects) -> Result<Option<Accepted>, ReceiveError> {
        self.check_sessions()?;
        let first = self.sessions.as_ref().and_then(|sessions| sessions.available.first().copied());
        Ok(first.map(|(_, lane)| self.lock_session(now, lane, fx)))
    }

    pub(crate) fn has_session(&self) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| !sessions.available.is_empty())
    }

    fn check_sessions(&self) -> Result<(), ReceiveError> {
        match self.sessions {
            Some(_) => Ok(()),
            None => Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the entity has no sessions")),
        }
    }

    fn lock_session(&mut self, now: Now, lane: u32, fx: &mut Effects) -> Accepted {
        let lock = fx.next_lock();
        let until = now.ticks.saturating_add(self.lock.ticks);
        let mut id = Box::default();
        if let Some(session) = &mut self.lanes[lane as usize].session {
            (session.lock, session.until) = (lock, until);
            id = session.id.clone();
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.ends.insert((until, lock, lane));
        }
        self.arm(until, fx);
        self.relist(lane);
        Accepted { id, lane, lock, until: self.lock.shown_from(now) }
    }

    /// Extends the lock of a session to its full duration from now.
    pub(crate) fn renew_session(
        &mut self,
        now: Now,
        lane: u32,
        lock: u64,
        fx: &mut Effects,
    ) -> Result<Timestamp, Refused> {
        let until = now.ticks.saturating_add(self.lock.ticks);
        let session = self.held_session(lane, lock)?;
        let before = std::mem::replace(&mut session.until, until);
        if let Some(sessions) = &mut self.sessions {
            sessions.ends.remove(&(before, lock, lane));
            sessions.ends.insert((until, lock, lane));
        }
        self.arm(until, fx);
        Ok(self.lock.shown_from(now))
    }

    /// Ends the lock of a session for its holder: no delivery counts.
    pub(crate) fn close_session(&mut self, now: Now, lane: u32, lock: u64, fx: &mut Effects) -> Result<(), Refused> {
        self.held_session(lane, lock)?;
        self.end_session(now.ticks, lane, Failure::IsForgiven, fx);
        Ok(())
    }

    /// Ends the lock of a session, and with it those of its messages.
    pub(super) fn end_session(&mut self, instant: Ticks, lane: u32, failure: Failure, fx: &mut Effects) {
        let Some(session) = &mut self.lanes[lane as usize].session else { return };
        let (until, lock) = (session.until, session.lock);
        let held: Vec<u32> = session.locks.iter(&self.entries).collect();
        if let Some(sessions) = &mut self.sessions {
            sessions.ends.remove(&(until, lock, lane));
        }
        // It is still locked, so it stays while its messages are moved.
        for key in held {
            self.unlock(key, instant, failure, fx);
        }
        if let Some(session) = &mut self.lanes[lane as usize].session {
            session.lock = 0;
        }
        self.arrived(Line::Session(self.id, lane), fx);
        self.offer_session(lane, fx);
        self.tidy_session(lane);
    }

    /// Ends locks of a session whose time has passed; `false` if the rest waits for the disk. The session stays locked
    /// meanwhile.
    #[cfg(feature = "durable")]
    pub(super) fn end_locks_of_session(&mut self, instant: Ticks, lane: u32, fx: &mut Effects) -> bool {
        let Some(session) = &self.lanes[lane as usize].session else { return true };
        let held: Vec<u32> = session.locks.iter(&self.entries).collect();
        held.into_iter().all(|key| {
            let has_space = !fx.has_enough_unwritten();
            if has_space {
                self.unlock(key, instant, Failure::Counts, fx);
            }
            has_space
        })
    }

    pub(crate) fn session_state(&mut self, lane: u32, lock: u64) -> Result<Option<Bytes>, Refused> {
        self.held_session(lane, lock).map(|session| session.state.clone())
    }

    /// Sets the state, or clears it, and leaves the previous one in `state`. It may grow by `available`, and to `limit`.
    #[expect(clippy::too_many_arguments, reason = "each of them comes from another part of the engine")]
    pub(crate) fn set_session_state(
        &mut self,
        now: Now,
        lane: u32,
        lock: u64,
        state: &mut Option<Bytes>,
        available: u64,
        limit: usize,
        fx: &mut Effects,
    ) -> Result<(), Refused> {
        let after = size_of_state(state.as_ref());
        let session = self.held_session(lane, lock)?;
        let before = size_of_state(session.state.as_ref());
        if state.as_ref().is_some_and(|state| state.len() > limit) {
            return Err(Refused::StateTooLarge { limit });
        }
        if after.saturating_sub(before) > available {
            return Err(Refused::Full);
        }
        let id = fx.is_recorded().then(|| session.id.clone());
        if let Some(id) = id {
            let is_written = !self.changes.sessions.contains(&id);
            let written = if is_written { after } else { after.saturating_sub(before) };
            fx.check_state(after > before, written)?;
            self.session_changed(id, written, fx);
        }
        let session = self.held_session(lane, lock)?;
        std::mem::swap(&mut session.state, state);
        session.updated = now.utc;
        self.size = self.size - before + after;
        Ok(())
    }

    /// Records that a message of a session can be received.
    pub(super) fn session_arrival(&mut self, lane: u32, fx: &mut Effects) {
        if self.session(lane).is_some_and(|session| session.lock != 0) {
            self.arrived(Line::Session(self.id, lane), fx);
        } else {
            self.offer_session(lane, fx);
        }
    }

    /// Lists a session without a holder. It is one arrival for one waiting receiver, however many messages it has.
    fn offer_session(&mut self, lane: u32, fx: &mut Effects) {
        let listed = |store: &Self| store.session(lane).is_some_and(|session| session.listed.is_some());
        let before = listed(self);
        self.relist(lane);
        if !before && listed(self) {
            self.arrived(Line::Sessions(self.id), fx);
        }
    }

    /// Updates the place of a session among those that are available.
    #[inline]
    pub(super) fn relist(&mut self, lane: u32) {
        let at = &mut self.lanes[lane as usize];
        let Some(session) = &mut at.session else { return };
        let first = if session.lock == 0 { at.ready.first(&self.entries, lane).map(|(order, _)| order) } else { None };
        let before = std::mem::replace(&mut session.listed, first);
        if before == first {
            return;
        }
        let Some(sessions) = &mut self.sessions else { return };
        if let Some(before) = before {
            sessions.available.remove(&(before, lane));
        }
        if let Some(first) = first {
            sessions.available.insert((first, lane));
        }
    }

    /// Removes a session that is empty.
    pub(super) fn tidy_session(&mut self, lane: u32) {
        let at = &self.lanes[lane as usize];
        let Some(session) = &at.session else { return };
        if session.messages > 0 || session.state.is_some() || session.lock != 0 {
            return;
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.lanes.remove(&session.id);
        }
        self.lanes.remove(lane as usize);
    }

    /// Returns the ids of the sessions that have a message or a state, in order.
    pub(crate) fn session_ids(&self) -> Vec<String> {
        let Some(sessions) = &self.sessions else { return Vec::new() };
        let exists =
            |lane: u32| self.session(lane).is_some_and(|session| session.messages > 0 || session.state.is_some());
        let existing = sessions.lanes.iter().filter(|&(_, &lane)| exists(lane));
        let mut ids: Vec<String> = existing.map(|(id, _)| id.to_string()).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the ids of the sessions whose state was set after this time, in order.
    pub(crate) fn session_ids_updated_after(&self, after: Timestamp) -> Vec<String> {
        let sessions = self.lanes.iter().filter_map(|(_, lane)| lane.session.as_deref());
        let updated = sessions.filter(|session| session.state.is_some() && session.updated > after);
        let mut ids: Vec<String> = updated.map(|session| session.id().to_owned()).collect();
        ids.sort_unstable();
        ids
    }

    #[cfg(feature = "durable")]
    pub(super) fn sessions_with_state(&self) -> impl Iterator<Item = &str> {
        let sessions = self.lanes.iter().filter_map(|(_, lane)| lane.session.as_deref());
        sessions.filter(|session| session.state.is_some()).map(Session::id)
    }

    /// Returns the state of a session, and when it was set.
    #[cfg(feature = "durable")]
    pub(super) fn state_of(&self, id: &str) -> Option<(Bytes, Timestamp)> {
        let lane = *self.sessions.as_ref()?.lanes.get(id)?;
        let session = self.session(lane)?;
        Some((session.state.clone()?, session.updated))
    }

    /// Restores the state of a session, which may be new.
    #[cfg(feature = "durable")]
    pub(super) fn restore_state(&mut self, id: &str, state: Option<Bytes>, updated: Timestamp) {
        let lane = self.session_lane(id);
        self.size += size_of_state(state.as_ref());
        if let Some(session) = &mut self.lanes[lane as usize].session {
            (session.state, session.updated) = (state, updated);
        }
    }

    /// Returns a deferred message by its number, if a holder of the session may receive it.
    pub(super) fn deferred_in(&self, lane: u32, number: SequenceNumber) -> Option<u32> {
        self.lanes.get(lane as usize)?.deferred.get(number)
    }
}
