//! Accepts messages that were checked, numbers them and stores them.

use std::time::Duration;

use consign_core::{
    Message,
    message::{Properties, SequenceNumber, Stored, random_id::random_id},
    settlement::DeadLetter,
    time::Timestamp,
    transport::SendError,
};

use super::{
    Engine, Entity, Role, StoreId,
    check::{check_batch, scheduled_at},
    entity_mut,
    load::{Balance, Incoming},
    store::{Arrival, Number, Seen},
    time::Now,
};

impl Engine {
    /// Accepts one message, or refuses it. A refused message consumes no sequence number.
    #[inline]
    pub(crate) fn send(&mut self, now: Now, id: StoreId, arrival: Arrival) -> Result<(), SendError> {
        self.advance(now);
        let checked = self.check_disk(std::slice::from_ref(&arrival)).and_then(|()| self.check(now, id, &arrival));
        if let Err(error) = checked {
            self.fx.note().dropped.push(arrival.message);
            return Err(error);
        }
        self.accept(now, id, arrival);
        self.finish(now);
        Ok(())
    }

    /// Accepts one message as [`Engine::send`] does. If `expects` says that a receiver in this process takes it, and no other
    /// message or receiver comes before, it is delivered and completed in the same step, and returned.
    pub(crate) fn send_or_pass(
        &mut self,
        now: Now,
        id: StoreId,
        arrival: Arrival,
        expects: impl FnOnce(&Properties) -> bool,
    ) -> Result<Option<Message>, SendError> {
        self.advance(now);
        if let Err(error) = self.check(now, id, &arrival) {
            self.fx.note().dropped.push(arrival.message);
            return Err(error);
        }
        let passed = self.pass(now, id, arrival, expects);
        self.finish(now);
        Ok(passed)
    }

    /// Delivers and completes a message that was checked, or accepts it as any other.
    fn pass(
        &mut self,
        now: Now,
        id: StoreId,
        mut arrival: Arrival,
        expects: impl FnOnce(&Properties) -> bool,
    ) -> Option<Message> {
        let is_scheduled = scheduled_at(&arrival.message, now, &self.fx).is_some();
        if let Some(entity) = entity_mut(&mut self.entities, id)
            && !is_scheduled
            && entity.passes()
            && expects(arrival.message.properties())
        {
            entity.store.touch(now);
            clamp(&mut arrival.message, entity.store.settings().default_time_to_live);
            return Some(entity.store.pass(now, arrival));
        }
        self.accept(now, id, arrival);
        None
    }

    /// Accepts all messages, or none. Returns their numbers.
    pub(crate) fn send_all(
        &mut self,
        now: Now,
        id: StoreId,
        arrivals: Vec<Arrival>,
        is_batch: bool,
    ) -> Result<Vec<SequenceNumber>, SendError> {
        self.advance(now);
        // A batch may be empty.
        let checked = self
            .check_open(id)
            .and_then(|()| if is_batch { check_batch(&arrivals) } else { Ok(()) })
            .and_then(|()| self.check_disk(&arrivals))
            .and_then(|()| self.check_all(now, id, arrivals.iter().map(Incoming::Sent), Balance::default()))
            .and_then(|_| self.check_keys(id, &arrivals));
        if let Err(error) = checked {
            self.fx.note().dropped.extend(arrivals.into_iter().map(|arrival| arrival.message));
            return Err(error);
        }
        let numbers = arrivals.into_iter().map(|arrival| self.accept(now, id, arrival)).collect();
        self.finish(now);
        Ok(numbers)
    }

    /// Accepts a message that was checked, unless it is a duplicate, and returns its number.
    #[inline]
    pub(super) fn accept(&mut self, now: Now, id: StoreId, arrival: Arrival) -> SequenceNumber {
        self.accept_as(now, id, arrival, None)
    }

    /// Accepts a message as [`Engine::accept`] does. If it is scheduled, it has the number that was reserved for it.
    #[inline]
    pub(super) fn accept_as(
        &mut self,
        now: Now,
        id: StoreId,
        mut arrival: Arrival,
        reserved: Option<Number>,
    ) -> SequenceNumber {
        let Some(entity) = entity_mut(&mut self.entities, id) else { return SequenceNumber::new(0) };
        let store = &mut entity.store;
        store.touch(now);
        let mut new_id = None;
        match store.look_for_duplicate(now, arrival.message.properties()) {
            Some(Seen::Before(original)) => {
                store.count_duplicate();
                self.fx.note().dropped.push(arrival.message);
                return original.unwrap_or_default();
            }
            Some(Seen::New(id)) => {
                store.record_id(now, id);
                new_id = Some(id);
            }
            Some(Seen::Full) | None => {}
        }
        clamp(&mut arrival.message, store.settings().default_time_to_live);
        if let Some(at) = scheduled_at(&arrival.message, now, &self.fx) {
            let number = reserved.unwrap_or_else(|| store.number(now, &arrival.message));
            store.schedule(now.ticks_at(at), arrival, number, new_id, &mut self.fx);
            return number.sequence;
        }
        if let Role::Topic(_) = entity.role {
            return self.arrive(now, id, arrival);
        }
        let number = store.number(now, &arrival.message);
        store.insert(now, arrival, number, &mut self.fx);
        number.sequence
    }

    /// Numbers a message that was sent, or was scheduled and is due, and stores or copies it.
    #[inline]
    pub(super) fn arrive(&mut self, now: Now, id: StoreId, arrival: Arrival) -> SequenceNumber {
        let Some(entity) = entity_mut(&mut self.entities, id) else { return SequenceNumber::new(0) };
        let number = entity.store.number(now, &arrival.message);
        if let Role::Topic(_) = entity.role {
            entity.store.counters_changed(&mut self.fx);
            entity.store.count_copied();
            self.copy(now, id, arrival, number);
        } else {
            entity.store.insert(now, arrival, number, &mut self.fx);
        }
        number.sequence
    }
}

impl Entity {
    /// Whether a message that is accepted now would be the next one of the only receiver.
    fn passes(&self) -> bool {
        matches!(self.role, Role::Queue) && self.forward_to.is_none() && self.store.passes()
    }
}

/// Returns the message as it is stored: it has an id and no trace of a dead letter. One that is sent again starts
/// without its old trail. Called where no lock is held, as the user may own what is removed.
#[inline]
pub(crate) fn arrival(message: Message, at: Option<Timestamp>) -> Arrival {
    let mut message = Stored::new(message);
    if let Some(at) = at {
        message.properties_mut().set_scheduled_enqueue_time(at);
    }
    let mut arrival = Arrival::new(message);
    let message = &mut arrival.message;
    if !message.properties().has_message_id() {
        message.properties_mut().stamp_message_token(random_id());
    }
    if !message.properties().application_properties().is_empty() {
        for key in [DeadLetter::REASON, DeadLetter::DESCRIPTION, DeadLetter::TRAIL] {
            if message.properties().application_properties().get(key).is_some() {
                message.properties_mut().application_properties_mut().remove(key);
            }
        }
    }
    message.clear_dead_letter_source();
    arrival
}

/// Shortens the time to live to what an entity allows.
#[inline]
pub(super) fn clamp(message: &mut Stored, limit: Option<Duration>) {
    let Some(limit) = limit else { return };
    if message.properties().time_to_live().is_none_or(|own| own > limit) {
        // An entity's limit is positive, and the setter refuses nothing else.
        let _ = message.properties_mut().set_time_to_live(limit);
    }
}
