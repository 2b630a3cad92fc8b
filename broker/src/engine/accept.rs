use std::{collections::BTreeSet, time::Duration};

use consign_core::{
    Message,
    administration::QueueSettings,
    message::{Properties, SequenceNumber, Stored, limits, random_id::random_id},
    settlement::DeadLetter,
    time::Timestamp,
    transport::{ErrorKind, SendError, SessionRequired},
};

use super::{
    Engine, Entity, Role, StoreId,
    effects::Effects,
    entity_mut,
    store::{Arrival, Id, Number, Seen, common_key},
    time::Now,
};
use crate::QueueSender;

/// The maximum bytes of a batch, bodies and properties.
const MAX_BATCH: u64 = QueueSender::MAX_BATCH as u64;

/// What a send adds to an entity.
#[derive(Debug, Default)]
struct Load {
    bytes: u64,
    ids: BTreeSet<Id>,
    /// Whether the size of the copies of a topic is an estimate; `bytes` is not too low.
    is_estimate: bool,
}

/// The other changes of a transaction to the bytes of an entity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    /// The bytes that it removes.
    pub(super) freed: u64,
    /// The bytes that it keeps as dead letters.
    pub(super) kept: u64,
}

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
            .and_then(|()| self.check_all(now, id, arrivals.iter(), Balance::default()))
            .and_then(|()| self.check_keys(id, &arrivals));
        if let Err(error) = checked {
            self.fx.note().dropped.extend(arrivals.into_iter().map(|arrival| arrival.message));
            return Err(error);
        }
        let numbers = arrivals.into_iter().map(|arrival| self.accept(now, id, arrival)).collect();
        self.finish(now);
        Ok(numbers)
    }

    /// Whether the disk, if there is one, has space for a message, and could read it again.
    #[inline]
    #[cfg_attr(
        not(feature = "durable"),
        allow(
            clippy::unused_self,
            clippy::unnecessary_wraps,
            clippy::needless_pass_by_value,
            reason = "as it is where there may be a disk"
        )
    )]
    pub(super) fn check_disk<'a>(&self, arrivals: impl IntoIterator<Item = &'a Arrival>) -> Result<(), SendError> {
        #[cfg(feature = "durable")]
        if self.fx.is_recorded() {
            return arrivals.into_iter().try_for_each(|arrival| self.check_storable(&arrival.message));
        }
        let _ = arrivals;
        Ok(())
    }

    #[inline]
    pub(super) fn check(&mut self, now: Now, id: StoreId, arrival: &Arrival) -> Result<(), SendError> {
        let mut load = Load::default();
        self.weigh(now, id, arrival, &mut load, true)?;
        match self.check_load(now, id, &load, 0) {
            Err(_) if load.is_estimate => self.check_exactly(now, id, std::iter::once(arrival), Balance::default()),
            checked => checked,
        }
    }

    pub(super) fn check_all<'a>(
        &mut self,
        now: Now,
        id: StoreId,
        arrivals: impl Iterator<Item = &'a Arrival> + Clone,
        balance: Balance,
    ) -> Result<(), SendError> {
        let mut load = Load { bytes: balance.kept, ..Load::default() };
        for arrival in arrivals.clone() {
            self.weigh(now, id, arrival, &mut load, true)?;
        }
        match self.check_load(now, id, &load, balance.freed) {
            Err(_) if load.is_estimate => self.check_exactly(now, id, arrivals, balance),
            checked => checked,
        }
    }

    /// Does the same without an estimate, for a topic that is almost full.
    #[cold]
    fn check_exactly<'a>(
        &mut self,
        now: Now,
        id: StoreId,
        arrivals: impl Iterator<Item = &'a Arrival>,
        balance: Balance,
    ) -> Result<(), SendError> {
        let mut load = Load { bytes: balance.kept, ..Load::default() };
        for arrival in arrivals {
            self.weigh(now, id, arrival, &mut load, false)?;
        }
        self.check_load(now, id, &load, balance.freed)
    }

    /// Whether the entity accepts a batch: if it is partitioned the messages have one key.
    fn check_keys(&self, id: StoreId, batch: &[Arrival]) -> Result<(), SendError> {
        let mut keys = batch.iter().map(|arrival| common_key(arrival.message.properties()));
        let first = keys.next();
        if self.entity(id).is_some_and(|entity| entity.store.settings().partitioned)
            && keys.any(|key| Some(key) != first)
        {
            let detail = "the messages for a partitioned entity differ in their key";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        Ok(())
    }

    fn check_open(&self, id: StoreId) -> Result<(), SendError> {
        let entity = self.entity(id).ok_or_else(gone)?;
        if entity.store.settings().status.allows_send() { Ok(()) } else { Err(closed(entity)) }
    }

    /// Whether the entity accepts a message like this, and what it adds to the load.
    #[inline]
    fn weigh(
        &mut self,
        now: Now,
        id: StoreId,
        arrival: &Arrival,
        load: &mut Load,
        is_estimate: bool,
    ) -> Result<(), SendError> {
        let Some(entity) = entity_mut(&mut self.entities, id) else { return Err(gone()) };
        let (settings, properties) = (entity.store.settings(), arrival.message.properties());
        if !settings.status.allows_send() {
            return Err(closed(entity));
        }
        check_message(settings, arrival)?;
        if settings.requires_session && properties.session_id().is_none() {
            return Err(SessionRequired.into());
        }
        match entity.store.look_for_duplicate(now, properties) {
            Some(Seen::Before(_)) => return Ok(()),
            Some(Seen::Full) => return Err(too_many_ids(entity)),
            Some(Seen::New(id)) if !load.ids.insert(id) => return Ok(()),
            Some(Seen::New(_)) | None => {}
        }
        let is_copied =
            matches!(entity.role, Role::Topic(_)) && scheduled_at(&arrival.message, now, &self.fx).is_none();
        let bytes = if is_copied {
            load.is_estimate = is_estimate;
            self.bytes_of_copies(now, id, arrival, is_estimate)
        } else {
            arrival.size
        };
        load.bytes = load.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Whether the whole load fits into the entity, once `freed` is gone.
    #[inline]
    fn check_load(&mut self, now: Now, id: StoreId, load: &Load, freed: u64) -> Result<(), SendError> {
        let used = self.used(id).saturating_sub(freed);
        let Some(entity) = entity_mut(&mut self.entities, id) else { return Err(gone()) };
        if load.ids.len() > 1 && entity.store.space_for_ids(now).is_some_and(|space| space < load.ids.len()) {
            return Err(too_many_ids(entity));
        }
        let limit = entity.store.settings().max_size;
        // A send that adds nothing, such as a duplicate, does not exceed the limit, even where the limit was lowered.
        if load.bytes == 0 || used.saturating_add(load.bytes) <= limit {
            return Ok(());
        }
        Err(SendError::new(ErrorKind::QuotaExceeded).with_detail(format!("the entity holds at most {limit} bytes")))
    }

    /// Bytes that count against the quota of an entity. The messages of a topic are those of its subscriptions.
    #[inline]
    pub(super) fn used(&self, id: StoreId) -> u64 {
        let Some(entity) = self.entity(id) else { return 0 };
        let own = entity.store.size();
        match &entity.role {
            Role::Topic(topic) => {
                let of = |id: &StoreId| self.entity(*id).map_or(0, |entity| entity.store.size());
                own + topic.subscriptions.values().map(of).sum::<u64>()
            }
            Role::Queue | Role::Subscription(_) => own,
        }
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
        self.arrive(now, id, arrival)
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

/// Returns when a message is due, if that is later.
#[inline]
fn scheduled_at(message: &Stored, now: Now, fx: &Effects) -> Option<Timestamp> {
    let at = message.properties().scheduled_enqueue_time()?;
    Some(fx.on_broker_clock(at)).filter(|&at| at > now.utc)
}

/// Whether several messages are small enough for one batch. A single message may be of any size.
fn check_batch(arrivals: &[Arrival]) -> Result<(), SendError> {
    let (size, limit) = (arrivals.iter().map(|arrival| arrival.size - QueueSettings::OVERHEAD).sum::<u64>(), MAX_BATCH);
    if arrivals.len() > 1 && size > limit {
        let detail = format!("{size} bytes in one batch, at most {limit}");
        return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(detail));
    }
    Ok(())
}

/// Whether an entity may hold a message like this.
#[inline]
pub(super) fn check_message(settings: &QueueSettings, arrival: &Arrival) -> Result<(), SendError> {
    let (size, limit) = (arrival.size - QueueSettings::OVERHEAD, settings.max_message_size);
    // A message within the limit of one property, with the id that the broker adds, is within those of all of them.
    // Only the limit of their number needs a check.
    let properties = arrival.message.properties();
    let is_small = size + (limits::ID as u64) < limits::PROPERTY_BYTES as u64;
    if !is_small || !properties.application_properties().is_empty() {
        properties.check()?;
    }
    arrival.message.check_levels()?;
    if size > limit as u64 {
        let detail = format!("{size} bytes, at most {limit}");
        return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(detail));
    }
    Ok(())
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

#[cold]
pub(super) fn gone() -> SendError {
    SendError::new(ErrorKind::EntityNotFound)
}

#[cold]
fn closed(entity: &Entity) -> SendError {
    SendError::new(ErrorKind::EntityDisabled).with_detail(entity.path.to_string())
}

#[cold]
fn too_many_ids(entity: &Entity) -> SendError {
    let detail = format!("at most {} ids are remembered", entity.store.settings().max_duplicate_ids);
    SendError::new(ErrorKind::QuotaExceeded).with_detail(detail)
}
