use consign::transport::ErrorKind;

use super::{
    Content, Model, Part, Place, Refused, Role, Stored,
    entity::{Entity, Remembered},
};

/// A message counts so many bytes more than it has.
pub(super) const OVERHEAD: u64 = 256;

/// A message on its way into an entity.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) content: Content,
    pub(crate) identity: String,
    pub(crate) size: u64,
    pub(crate) origin: Option<u64>,
    pub(crate) hops: u8,
    pub(crate) source: Option<String>,
}

impl Arrival {
    fn id_for(&self, entity: &Entity) -> (Option<String>, String) {
        let key = self.common_key().filter(|_| entity.settings.partitioned);
        (key.cloned(), self.identity.clone())
    }

    /// What a batch for a partitioned entity has in common.
    pub(crate) fn common_key(&self) -> Option<&String> {
        self.content.session.as_ref().or(self.content.key.as_ref())
    }
}

impl Model {
    /// Accepts all messages, or none; with a time they are scheduled. Answers with their numbers.
    pub(crate) fn send(&mut self, id: u32, contents: Vec<Content>, at: Option<i64>) -> Result<Vec<u64>, Refused> {
        self.catch_up();
        let arrivals: Vec<_> = contents.into_iter().map(|content| self.arrival(content, at)).collect();
        self.check(id, &arrivals, 0, 0)?;
        let is_partitioned = self.entity(id).settings.partitioned;
        if is_partitioned && arrivals.iter().any(|arrival| arrival.common_key() != arrivals[0].common_key()) {
            return Err(ErrorKind::InvalidOperation.into());
        }
        let numbers = arrivals.into_iter().map(|arrival| self.accept(id, arrival)).collect();
        self.hand_over();
        Ok(numbers)
    }

    /// A message that comes for the first time.
    pub(super) fn arrival(&mut self, mut content: Content, at: Option<i64>) -> Arrival {
        content.at = at.or(content.at);
        let size = content.bytes() + OVERHEAD;
        self.last_message += 1;
        let identity = content.id.clone().unwrap_or_else(|| format!("made up {}", self.last_message));
        Arrival { content, identity, size, origin: None, hops: 0, source: None }
    }

    /// Whether the entity takes all of these, with `freed` bytes less and `kept` bytes more than it has now.
    pub(super) fn check(&mut self, id: u32, arrivals: &[Arrival], freed: u64, kept: u64) -> Result<(), Refused> {
        let now = self.now;
        let refuse = |kind, detail: String| Err(Refused { kind, detail });
        let Some(entity) = self.entities.get_mut(&id) else { return Err(ErrorKind::EntityNotFound.into()) };
        entity.forget_ids(now);
        let entity = self.entity(id);
        let settings = &entity.settings;
        // What is only kept here as a dead letter was not sent here.
        if !settings.takes_sends() && (kept == 0 || !arrivals.is_empty()) {
            return refuse(ErrorKind::EntityDisabled, entity.path.clone());
        }
        let too_many = || refuse(ErrorKind::QuotaExceeded, format!("at most {} ids are remembered", settings.max_ids));
        let (mut bytes, mut ids) = (kept, Vec::new());
        for arrival in arrivals {
            let (size, limit) = (arrival.size - OVERHEAD, settings.max_message_size);
            if size > limit {
                return refuse(ErrorKind::MessageSizeExceeded, format!("{size} bytes, at most {limit}"));
            }
            if settings.sessions && arrival.content.session.is_none() {
                let detail = "the entity requires sessions and the message has no SessionId";
                return refuse(ErrorKind::InvalidOperation, detail.into());
            }
            if settings.window.is_some() {
                let its = arrival.id_for(entity);
                if ids.contains(&its) || entity.ids.iter().any(|remembered| remembered.id == its) {
                    continue;
                }
                if entity.ids.len() >= settings.max_ids {
                    return too_many();
                }
                ids.push(its);
            }
            bytes += match entity.role {
                Role::Topic if !self.is_scheduled(&arrival.content) => self.bytes_of_copies(id, arrival),
                _ => arrival.size,
            };
        }
        if ids.len() > 1 && entity.ids.len() + ids.len() > settings.max_ids {
            return too_many();
        }
        if bytes > 0 && self.used(id).saturating_sub(freed) + bytes > settings.max_size {
            let detail = format!("the entity holds at most {} bytes", settings.max_size);
            return refuse(ErrorKind::QuotaExceeded, detail);
        }
        Ok(())
    }

    /// Takes a message that was checked, unless it is a duplicate, and answers with its number.
    pub(super) fn accept(&mut self, id: u32, mut arrival: Arrival) -> u64 {
        self.touch(id);
        let (now, utc) = (self.now, self.utc);
        let entity = self.entity_mut(id);
        entity.forget_ids(now);
        let its = arrival.id_for(entity);
        if entity.settings.window.is_some() {
            if let Some(remembered) = entity.ids.iter().find(|remembered| remembered.id == its) {
                return remembered.scheduled.unwrap_or(0);
            }
            entity.ids.push(Remembered { id: its.clone(), first: now, accepted: utc, scheduled: None });
        }
        self.clamp(id, &mut arrival.content);
        if !self.is_scheduled(&arrival.content) {
            return self.arrive(id, arrival);
        }
        let due = self.now + u64::try_from(arrival.content.at.unwrap() - self.utc).unwrap();
        let mut stored = self.number(id, arrival);
        let sequence = stored.sequence;
        (stored.place, stored.due) = (Place::Scheduled, Some(due));
        self.store(stored);
        let ids = &mut self.entity_mut(id).ids;
        if let Some(remembered) = ids.iter_mut().find(|remembered| remembered.id == its) {
            remembered.scheduled = Some(sequence);
        }
        sequence
    }

    /// Gives a message its number and puts it where it belongs.
    pub(super) fn arrive(&mut self, id: u32, arrival: Arrival) -> u64 {
        let copied = arrival.clone();
        let mut stored = self.number(id, arrival);
        let sequence = stored.sequence;
        if self.entity(id).role == Role::Topic {
            self.copy(id, &Arrival { origin: Some(stored.origin), ..copied });
            return sequence;
        }
        if let Some(ttl) = stored.content.ttl {
            stored.expires = Some(self.now + ttl);
            stored.expires_at = Some(stored.enqueued + i64::try_from(ttl).unwrap());
        }
        let key = self.store(stored);
        self.make_ready(key);
        sequence
    }

    /// A scheduled message enters its entity as if it were sent now.
    pub(super) fn become_active(&mut self, key: u64) {
        let stored = self.remove(key);
        let id = stored.entity;
        self.touch(id);
        self.entity_mut(id).forget_scheduled(stored.sequence);
        let Stored { mut content, identity, size, origin, hops, source, .. } = stored;
        self.clamp(id, &mut content);
        let origin = (hops > 0).then_some(origin);
        self.arrive(id, Arrival { content, identity, size, origin, hops, source });
    }

    /// Removes scheduled messages: all of them, or none.
    pub(crate) fn cancel(&mut self, id: u32, numbers: &[u64]) -> Result<(), ErrorKind> {
        self.catch_up();
        if !self.entities.contains_key(&id) {
            return Err(ErrorKind::EntityNotFound);
        }
        self.touch(id);
        let mut keys = Vec::new();
        for &number in numbers {
            let scheduled = self.keys(|it| it.entity == id && it.place == Place::Scheduled && it.sequence == number);
            let key = *scheduled.first().ok_or(ErrorKind::MessageNotFound)?;
            if keys.contains(&key) {
                return Err(ErrorKind::MessageNotFound);
            }
            keys.push(key);
        }
        for key in keys {
            let removed = self.remove(key);
            self.entity_mut(id).forget_scheduled(removed.sequence);
        }
        Ok(())
    }

    /// Gives a message the next number and its time, which never falls.
    pub(super) fn number(&mut self, id: u32, arrival: Arrival) -> Stored {
        let utc = self.utc;
        let entity = self.entity_mut(id);
        entity.last_enqueued = entity.last_enqueued.max(utc);
        let Arrival { content, identity, size, origin, hops, source } = arrival;
        let partition = if entity.settings.partitioned {
            let by_id = entity.settings.window.map(|_| &identity);
            if let Some(key) = content.session.as_ref().or(content.key.as_ref()).or(by_id) {
                usize::try_from(fnv_1a(key) % 16).unwrap()
            } else {
                let next = entity.next_partition;
                entity.next_partition = (next + 1) % 16;
                next
            }
        } else {
            0
        };
        entity.numbers[partition] += 1;
        let sequence = (partition as u64) << 48 | entity.numbers[partition];
        Stored {
            content,
            identity,
            entity: id,
            part: Part::Main,
            place: Place::Ready,
            sequence,
            origin: origin.unwrap_or(sequence),
            enqueued: entity.last_enqueued,
            expires: None,
            expires_at: None,
            due: None,
            failures: 0,
            lock: None,
            hops,
            stays: false,
            source,
            size,
        }
    }

    /// A message lives no longer than its entity lets it.
    pub(super) fn clamp(&self, id: u32, content: &mut Content) {
        content.ttl = content.ttl.into_iter().chain(self.entity(id).settings.ttl).min();
    }

    fn is_scheduled(&self, content: &Content) -> bool {
        content.at.is_some_and(|at| at > self.utc)
    }
}

/// The hash that chooses a partition, of Fowler, Noll and Vo.
fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
