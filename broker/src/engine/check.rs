//! Whether an entity accepts messages: its state, its limits and its quota.

use consign_core::{
    administration::QueueSettings,
    message::{Stored, limits},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

use super::{
    Engine, Entity, Role, StoreId,
    effects::Effects,
    entity_mut,
    load::{Balance, Incoming, Load},
    store::{Arrival, Seen, common_key},
    time::Now,
};

/// The maximum bytes of a batch, bodies and properties.
pub(crate) const MAX_BATCH: usize = 1 << 20;

impl Engine {
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
            let mut bytes = 0_u64;
            for arrival in arrivals {
                self.check_storable(&arrival.message)?;
                bytes = bytes.saturating_add(arrival.size);
            }
            return self.check_unwritten(bytes);
        }
        let _ = arrivals;
        Ok(())
    }

    /// Whether the disk, if there is one, has space for all that a transaction sends to several entities.
    #[cfg_attr(
        not(feature = "durable"),
        allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as it is where there may be a disk")
    )]
    pub(super) fn check_together(&self, bytes: u64) -> Result<(), SendError> {
        #[cfg(feature = "durable")]
        if self.fx.is_recorded() {
            return self.check_unwritten(bytes);
        }
        let _ = bytes;
        Ok(())
    }

    #[inline]
    pub(super) fn check(&mut self, now: Now, id: StoreId, arrival: &Arrival) -> Result<(), SendError> {
        match self.entity(id) {
            // Nearly every entity is like this: what is sent adds its size, and nothing else.
            Some(entity) if !entity.store.detects_duplicates() && !matches!(entity.role, Role::Topic(_)) => {
                admits(entity, arrival).and_then(|()| fits(entity, entity.store.size(), arrival.size))
            }
            _ => self.check_by_load(now, id, arrival),
        }
    }

    #[inline(never)]
    fn check_by_load(&mut self, now: Now, id: StoreId, arrival: &Arrival) -> Result<(), SendError> {
        let mut load = Load::default();
        let incoming = Incoming::Sent(arrival);
        self.weigh(now, id, incoming, &mut load)?;
        let checked = match self.check_load(now, id, &load, 0) {
            Err(_) if load.is_estimate => self.check_exactly(now, id, std::iter::once(incoming), Balance::default()),
            checked => checked,
        };
        checked.map(drop)
    }

    /// Returns the bytes that the messages add, which may be an estimate that is not too low.
    pub(super) fn check_all<'a>(
        &mut self,
        now: Now,
        id: StoreId,
        arrivals: impl Iterator<Item = Incoming<'a>> + Clone,
        balance: Balance,
    ) -> Result<u64, SendError> {
        let mut load = Load { bytes: balance.kept, ..Load::default() };
        for arrival in arrivals.clone() {
            self.weigh(now, id, arrival, &mut load)?;
        }
        match self.check_load(now, id, &load, balance.freed) {
            Err(_) if load.is_estimate => self.check_exactly(now, id, arrivals, balance),
            checked => checked,
        }
    }

    /// Does the same without an estimate, for a topic or a disk that is almost full.
    #[cold]
    pub(super) fn check_exactly<'a>(
        &mut self,
        now: Now,
        id: StoreId,
        arrivals: impl Iterator<Item = Incoming<'a>>,
        balance: Balance,
    ) -> Result<u64, SendError> {
        let upcoming = self.entity(id).map(|entity| entity.store.upcoming());
        let mut load = Load { bytes: balance.kept, upcoming, ..Load::default() };
        for arrival in arrivals {
            self.weigh(now, id, arrival, &mut load)?;
        }
        self.check_load(now, id, &load, balance.freed)
    }

    /// Whether the entity accepts a batch: if it is partitioned the messages have one key.
    pub(super) fn check_keys(&self, id: StoreId, batch: &[Arrival]) -> Result<(), SendError> {
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

    pub(super) fn check_open(&self, id: StoreId) -> Result<(), SendError> {
        let entity = self.entity(id).ok_or_else(gone)?;
        if entity.store.settings().status.allows_send() { Ok(()) } else { Err(closed(entity)) }
    }

    /// Whether the entity accepts a message like this, and what it adds to the load.
    #[inline]
    fn weigh(&mut self, now: Now, id: StoreId, incoming: Incoming<'_>, load: &mut Load) -> Result<(), SendError> {
        let (Incoming::Sent(arrival) | Incoming::Reserved(arrival)) = incoming else {
            load.number(now, incoming.arrival());
            return Ok(());
        };
        let Some(entity) = entity_mut(&mut self.entities, id) else { return Err(gone()) };
        admits(entity, arrival)?;
        match entity.store.look_for_duplicate(now, arrival.message.properties()) {
            Some(Seen::Before(_)) => return Ok(()),
            Some(Seen::Full) => return Err(too_many_ids(entity)),
            Some(Seen::New(id)) if !load.ids.insert(id) => return Ok(()),
            Some(Seen::New(_)) | None => {}
        }
        let is_scheduled = scheduled_at(&arrival.message, now, &self.fx).is_some();
        let is_copied = matches!(entity.role, Role::Topic(_)) && !is_scheduled;
        let has_number = is_scheduled && matches!(incoming, Incoming::Reserved(_));
        let number = if has_number { None } else { load.number(now, arrival) };
        let bytes = match number {
            _ if !is_copied => arrival.size,
            Some(number) => self.bytes_of_copies(id, arrival, number),
            None => {
                load.is_estimate = true;
                self.most_bytes_of_copies(id, arrival)
            }
        };
        load.bytes = load.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Whether the whole load fits into the entity, once `freed` is gone.
    #[inline]
    fn check_load(&mut self, now: Now, id: StoreId, load: &Load, freed: u64) -> Result<u64, SendError> {
        let used = self.used(id).saturating_sub(freed);
        let Some(entity) = entity_mut(&mut self.entities, id) else { return Err(gone()) };
        if load.ids.len() > 1 && entity.store.space_for_ids(now).is_some_and(|space| space < load.ids.len()) {
            return Err(too_many_ids(entity));
        }
        fits(entity, used, load.bytes)?;
        // Each copy of a message of a topic is written.
        self.check_together(load.bytes)?;
        Ok(load.bytes)
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
}

/// Whether an entity accepts a message like this, whatever else it holds.
#[inline]
fn admits(entity: &Entity, arrival: &Arrival) -> Result<(), SendError> {
    let settings = entity.store.settings();
    if !settings.status.allows_send() {
        return Err(closed(entity));
    }
    check_message(settings, arrival)?;
    if settings.requires_session && arrival.message.properties().session_id().is_none() {
        return Err(SendError::session_required());
    }
    Ok(())
}

/// Whether so many bytes more fit into an entity that holds `used`.
#[inline]
fn fits(entity: &Entity, used: u64, bytes: u64) -> Result<(), SendError> {
    let limit = entity.store.settings().max_size;
    // A send that adds nothing, such as a duplicate, does not exceed the limit, even where the limit was lowered.
    if bytes == 0 || used.saturating_add(bytes) <= limit { Ok(()) } else { Err(full(limit)) }
}

/// Whether several messages are small enough for one batch. A single message may be of any size.
pub(super) fn check_batch(arrivals: &[Arrival]) -> Result<(), SendError> {
    let (size, limit) =
        (arrivals.iter().map(|arrival| arrival.size - QueueSettings::OVERHEAD).sum::<u64>(), MAX_BATCH as u64);
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

#[cold]
pub(super) fn gone() -> SendError {
    SendError::new(ErrorKind::EntityNotFound)
}

#[cold]
fn closed(entity: &Entity) -> SendError {
    SendError::new(ErrorKind::EntityDisabled).with_detail(entity.path.to_string())
}

#[cold]
fn full(limit: u64) -> SendError {
    SendError::new(ErrorKind::QuotaExceeded).with_detail(format!("the entity holds at most {limit} bytes"))
}

#[cold]
fn too_many_ids(entity: &Entity) -> SendError {
    let detail = format!("at most {} ids are remembered", entity.store.settings().max_duplicate_ids);
    SendError::new(ErrorKind::QuotaExceeded).with_detail(detail)
}

/// Returns when a message is due, if that is later.
#[inline]
pub(super) fn scheduled_at(message: &Stored, now: Now, fx: &Effects) -> Option<Timestamp> {
    let at = message.properties().scheduled_enqueue_time()?;
    Some(fx.on_broker_clock(at)).filter(|&at| at > now.utc)
}
