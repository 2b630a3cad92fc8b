//! The commands on one entity: those of a receiver and a lease.

use bytes::Bytes;
use consign_core::{
    Disposition, Message,
    administration::Counts,
    message::{SequenceNumber, Stored},
    time::Timestamp,
    transport::{ErrorKind, ReceiveError, SendError},
};

use super::{
    Engine, Entity, Part, Role, StoreId,
    effects::Effects,
    entity_mut,
    store::{Accepted, Ages, Locked, Peeked, Refused, Settlement, Source},
    time::Now,
};

impl Engine {
    /// Locks up to `max` messages in order and passes them to `out`.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now: Now,
        id: StoreId,
        source: Source,
        max: usize,
        out: impl FnMut(Locked),
    ) -> Result<usize, ReceiveError> {
        self.advance(now);
        let entity = receivable(entity_mut(&mut self.entities, id), source)?;
        entity.store.touch(now);
        let taken = entity.store.receive(now, source, max, &mut self.fx, out);
        self.finish(now);
        Ok(taken)
    }

    /// Removes up to `max` messages in order and passes them to `out`.
    pub(crate) fn receive_and_delete(
        &mut self,
        now: Now,
        id: StoreId,
        source: Source,
        max: usize,
        out: impl FnMut(Message),
    ) -> Result<usize, ReceiveError> {
        self.advance(now);
        let entity = receivable(entity_mut(&mut self.entities, id), source)?;
        entity.store.touch(now);
        let taken = entity.store.receive_and_delete(now, source, max, &mut self.fx, out);
        self.finish(now);
        Ok(taken)
    }

    /// Locks deferred messages by their numbers: all of them, or none. Several have at most `max_bytes` together.
    pub(crate) fn receive_deferred(
        &mut self,
        now: Now,
        id: StoreId,
        source: Source,
        numbers: &[SequenceNumber],
        max_bytes: u64,
    ) -> Result<Vec<Locked>, ReceiveError> {
        self.advance(now);
        let entity = receivable(entity_mut(&mut self.entities, id), source)?;
        entity.store.touch(now);
        let locked = entity.store.receive_deferred(now, source, numbers, max_bytes, &mut self.fx);
        self.finish(now);
        locked
    }

    /// Settles the delivery that `key` and `lock` name. Returns the message if it is removed.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        now: Now,
        id: StoreId,
        key: u32,
        lock: u64,
        disposition: &Disposition,
    ) -> Result<Option<Stored>, Refused> {
        self.advance(now);
        let entity = holdable(entity_mut(&mut self.entities, id), Refused::LockLost)?;
        entity.store.touch(now);
        let settled = entity.store.settle_if_it_fits(now, key, lock, disposition, &mut self.fx);
        self.finish(now);
        settled
    }

    /// Returns the refusal of a settlement, if it would be refused.
    pub(crate) fn check_settlement(
        &mut self,
        now: Now,
        id: StoreId,
        key: u32,
        lock: u64,
        settlement: &Settlement,
    ) -> Result<(), Refused> {
        self.advance(now);
        let entity = self.entity(id).ok_or(Refused::LockLost)?;
        entity.store.check_settlement(now, key, lock, settlement).map(drop)
    }

    /// Completes deliveries of one entity, one after the other.
    #[inline]
    pub(crate) fn completing(&mut self, now: Now, id: StoreId) -> Completing<'_> {
        self.advance(now);
        let mut entity = entity_mut(&mut self.entities, id);
        if let Some(entity) = &mut entity {
            entity.store.touch(now);
        }
        Completing { entity, fx: &mut self.fx, now }
    }

    /// Extends a lock to its full duration from now, and returns when it ends.
    pub(crate) fn renew(&mut self, now: Now, id: StoreId, key: u32, lock: u64) -> Result<Timestamp, Refused> {
        self.advance(now);
        let entity = holdable(entity_mut(&mut self.entities, id), Refused::LockLost)?;
        entity.store.touch(now);
        let renewed = entity.store.renew(now, key, lock, &mut self.fx);
        self.finish(now);
        renewed
    }

    /// Ends a lock without counting the delivery.
    pub(crate) fn release(&mut self, now: Now, id: StoreId, key: u32, lock: u64) -> Result<(), Refused> {
        self.advance(now);
        let entity = entity_mut(&mut self.entities, id).ok_or(Refused::LockLost)?;
        entity.store.touch(now);
        let released = entity.store.release(now, key, lock, &mut self.fx);
        self.finish(now);
        released
    }

    /// Ends every lock of `part` as if it had run out.
    pub(crate) fn lose_locks(&mut self, now: Now, id: StoreId, part: Part) {
        self.advance(now);
        if let Some(entity) = entity_mut(&mut self.entities, id) {
            entity.store.lose_locks(now, part, &mut self.fx);
            self.finish(now);
        }
    }

    /// Returns up to `max` messages from sequence number `from` on, in order, without locking any.
    pub(crate) fn peek(
        &mut self,
        now: Now,
        id: StoreId,
        source: Source,
        from: SequenceNumber,
        max: usize,
    ) -> Vec<Peeked> {
        self.advance(now);
        let Some(entity) = entity_mut(&mut self.entities, id) else { return Vec::new() };
        if !matches!(entity.role, Role::Topic(_)) {
            entity.store.touch(now);
        }
        entity.store.peek(source, from, max)
    }

    /// Removes scheduled messages: all of them, or none.
    pub(crate) fn cancel(&mut self, now: Now, id: StoreId, numbers: &[SequenceNumber]) -> Result<(), SendError> {
        self.advance(now);
        let entity = entity_mut(&mut self.entities, id).ok_or_else(super::check::gone)?;
        entity.store.touch(now);
        let cancelled = entity.store.cancel(numbers, &mut self.fx);
        self.finish(now);
        cancelled
    }

    /// Removes up to `max` messages that are neither locked nor scheduled, the oldest first.
    pub(crate) fn delete_messages(
        &mut self,
        now: Now,
        id: StoreId,
        source: Source,
        max: usize,
        before: Option<Timestamp>,
    ) -> usize {
        self.advance(now);
        let Some(entity) = entity_mut(&mut self.entities, id) else { return 0 };
        entity.store.touch(now);
        entity.store.delete(source, max, before, &mut self.fx)
    }

    pub(crate) fn counts(&mut self, now: Now, id: StoreId, part: Part) -> Counts {
        self.advance(now);
        let mut counts = self.entity(id).map(|entity| entity.store.counts(part)).unwrap_or_default();
        counts.size = self.used(id);
        counts
    }

    pub(crate) fn ages(&mut self, now: Now, id: StoreId, part: Part) -> Ages {
        self.advance(now);
        self.entity(id).map(|entity| entity.store.ages(now, part)).unwrap_or_default()
    }

    /// Records that a receiver begins to wait at an entity.
    #[inline]
    pub(crate) fn begin_waiting(&mut self, id: StoreId) {
        if let Some(entity) = entity_mut(&mut self.entities, id) {
            entity.store.begin_waiting();
        }
    }

    /// Records that a receiver no longer waits at an entity.
    #[inline]
    pub(crate) fn end_waiting(&mut self, now: Now, id: StoreId) {
        if let Some(entity) = entity_mut(&mut self.entities, id) {
            entity.store.end_waiting(now, &mut self.fx);
            self.finish(now);
        }
    }

    pub(crate) fn has_ready(&self, id: StoreId, part: Part) -> bool {
        self.entity(id).is_some_and(|entity| entity.store.has_ready(part))
    }

    /// Whether there is a session to accept.
    pub(crate) fn has_session(&self, id: StoreId) -> bool {
        self.entity(id).is_some_and(|entity| entity.store.has_session())
    }

    /// Locks the session of this id, or without one the next that is available.
    pub(crate) fn accept_session(
        &mut self,
        now: Now,
        id: StoreId,
        session: Option<&str>,
    ) -> Result<Option<Accepted>, ReceiveError> {
        self.advance(now);
        let entity = open(entity_mut(&mut self.entities, id))?;
        entity.store.touch(now);
        let accepted = match session {
            Some(session) => entity.store.accept_session(now, session, &mut self.fx).map(Some),
            None => entity.store.accept_next_session(now, &mut self.fx),
        };
        self.finish(now);
        accepted
    }

    pub(crate) fn renew_session(&mut self, now: Now, id: StoreId, lane: u32, lock: u64) -> Result<Timestamp, Refused> {
        self.advance(now);
        let entity = holdable(entity_mut(&mut self.entities, id), Refused::SessionLockLost)?;
        entity.store.touch(now);
        let renewed = entity.store.renew_session(now, lane, lock, &mut self.fx);
        self.finish(now);
        renewed
    }

    pub(crate) fn close_session(&mut self, now: Now, id: StoreId, lane: u32, lock: u64) -> Result<(), Refused> {
        self.advance(now);
        let entity = entity_mut(&mut self.entities, id).ok_or(Refused::SessionLockLost)?;
        entity.store.touch(now);
        let closed = entity.store.close_session(now, lane, lock, &mut self.fx);
        self.finish(now);
        closed
    }

    pub(crate) fn session_state(
        &mut self,
        now: Now,
        id: StoreId,
        lane: u32,
        lock: u64,
    ) -> Result<Option<Bytes>, Refused> {
        self.advance(now);
        let entity = holdable(entity_mut(&mut self.entities, id), Refused::SessionLockLost)?;
        entity.store.touch(now);
        entity.store.session_state(lane, lock)
    }

    /// Sets the state of a session. The replaced or refused state is left in the argument, to be dropped where no
    /// lock is held.
    pub(crate) fn set_session_state(
        &mut self,
        now: Now,
        id: StoreId,
        lane: u32,
        lock: u64,
        state: &mut Option<Bytes>,
    ) -> Result<(), Refused> {
        self.advance(now);
        // The limits of a subscription are those of its topic.
        let top = self.top_level(id);
        let used = self.used(top);
        let settings = self.entity(top).map(|entity| entity.store.settings());
        let (size, limit) = settings.map_or((0, 0), |settings| (settings.max_size, settings.max_message_size));
        let entity = holdable(entity_mut(&mut self.entities, id), Refused::SessionLockLost)?;
        entity.store.touch(now);
        entity.store.set_session_state(now, lane, lock, state, size.saturating_sub(used), limit, &mut self.fx)
    }

    pub(crate) fn session_ids(&mut self, now: Now, id: StoreId) -> Vec<String> {
        self.advance(now);
        self.entity(id).map(|entity| entity.store.session_ids()).unwrap_or_default()
    }

    pub(crate) fn session_ids_updated_after(&mut self, now: Now, id: StoreId, after: Timestamp) -> Vec<String> {
        self.advance(now);
        self.entity(id).map(|entity| entity.store.session_ids_updated_after(after)).unwrap_or_default()
    }
}

/// Completes deliveries of one entity.
pub(crate) struct Completing<'e> {
    entity: Option<&'e mut Entity>,
    fx: &'e mut Effects,
    now: Now,
}

impl Completing<'_> {
    /// Completes the delivery that `key` and `lock` name. Returns the message.
    #[inline]
    pub(crate) fn complete(&mut self, key: u32, lock: u64) -> Result<Stored, Refused> {
        let entity = holdable(self.entity.as_deref_mut(), Refused::LockLost)?;
        entity.store.complete(self.now, key, lock, self.fx)
    }
}

#[inline]
fn open(entity: Option<&mut Entity>) -> Result<&mut Entity, ReceiveError> {
    match entity {
        Some(entity) if entity.store.settings().status.allows_receive() => Ok(entity),
        entity => Err(closed(entity)),
    }
}

#[cold]
fn closed(entity: Option<&mut Entity>) -> ReceiveError {
    match entity {
        Some(entity) => ReceiveError::new(ErrorKind::EntityDisabled).with_detail(entity.path.to_string()),
        None => ReceiveError::new(ErrorKind::EntityNotFound),
    }
}

/// Returns an entity whose messages and sessions may be locked and settled. A deleted entity has no locks.
#[inline]
fn holdable(entity: Option<&mut Entity>, lost: Refused) -> Result<&mut Entity, Refused> {
    let entity = entity.ok_or(lost)?;
    if entity.store.settings().status.allows_receive() { Ok(entity) } else { Err(Refused::Disabled) }
}

#[inline]
fn receivable(entity: Option<&mut Entity>, source: Source) -> Result<&mut Entity, ReceiveError> {
    let entity = open(entity)?;
    entity.store.check_source(source)?;
    if source == Source::Part(Part::Main) && entity.store.settings().forward_to.is_some() {
        return Err(forwards());
    }
    Ok(entity)
}

#[cold]
fn forwards() -> ReceiveError {
    ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the entity forwards its messages")
}
