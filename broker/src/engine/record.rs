//! The engine on a disk: its changes as records, and the engine restored from records.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, atomic::AtomicI64},
};

use consign_core::{
    message::{EntityPath, Field, InvalidArgument, Problem, Stored},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

use super::{
    Change, Engine, Entity, Role, StoreId, Subscription, Topic, effects::Wanted, entity_mut, store::Store, time::Now,
};
use crate::{
    Quirks,
    durable::{
        Batch, StorageError, Table, corrupted, key,
        record::{
            BrokerRecord, CounterRecord, EntityKind, EntityRecord, IdRecord, MAX_DEPTH, MessageRecord, SessionRecord,
            can_be_stored,
        },
    },
};

/// A deleted entity, as far as records of it may be on the disk.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) serial: u64,
    pub(super) messages: Vec<u64>,
    pub(super) sessions: BTreeSet<Box<str>>,
    pub(super) ids: Range<u64>,
}

/// The identity of a broker's store, whatever its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// A random name.
    pub(crate) store: [u8; 16],
    pub(crate) created: Timestamp,
}

impl Engine {
    /// Sets how many milliseconds the broker's clock is ahead of the one that users see.
    pub(crate) fn set_ahead(&mut self, ahead: Arc<AtomicI64>) {
        self.fx.ahead = ahead;
    }

    /// Sets whether the disk is full: sends are refused meanwhile.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.fx.set_full(is_full);
    }

    pub(super) fn check_storable(&self, message: &Stored) -> Result<(), SendError> {
        if !self.fx.has_room() {
            return Err(SendError::new(ErrorKind::QuotaExceeded).with_detail("the disk is full"));
        }
        if !can_be_stored(message) {
            let problem = Problem::TooDeep { limit: MAX_DEPTH };
            return Err(InvalidArgument::new(Field::Message, problem).into());
        }
        Ok(())
    }

    /// Whether there is anything to take.
    pub(crate) fn has_changes(&mut self) -> bool {
        !self.fx.note().changed.is_empty()
    }

    /// Whether there are so many changes that they are written without delay.
    pub(crate) fn has_many_changes(&self) -> bool {
        self.fx.has_many_unwritten()
    }

    /// Writes to `batch` the changes since the last call. With `stamp` the time is written although nothing has
    /// changed. Returns what may leave memory once the batch is on the disk.
    pub(crate) fn take_changes(&mut self, now: Now, identity: Identity, batch: &mut Batch, stamp: bool) -> Vec<Wanted> {
        self.fx.unwritten = 0;
        let notes = self.fx.note();
        let (changed, gone) = (std::mem::take(&mut notes.changed), std::mem::take(&mut notes.gone));
        if changed.is_empty() && !stamp {
            return Vec::new();
        }
        for gone in gone {
            gone.remove(batch);
        }
        for id in changed {
            let Some(entity) = entity_mut(&mut self.entities, id) else { continue };
            if entity.store.take_settings_changed() {
                let record = entity.record();
                batch.put(Table::Entities, &id.serial.to_be_bytes(), |out| record.encode(out));
            }
            entity.store.write_changes(now, batch, &mut self.fx);
        }
        let Identity { store, created } = identity;
        let record = BrokerRecord { store, created, last_serial: self.last_serial, latest: now.utc };
        batch.put(Table::Broker, &[], |out| record.encode(out));
        std::mem::take(&mut self.fx.note().written)
    }

    /// Sets how many bytes of messages are kept in memory before others leave it.
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.fx.budget = budget;
    }

    /// Returns the bytes of the messages in memory, and how many messages wait to leave it.
    #[cfg(test)]
    pub(crate) fn in_memory(&mut self) -> (u64, usize) {
        (self.fx.resident, self.fx.note().dropped.len())
    }

    /// Removes messages that are on the disk unchanged from memory, while there are too many in it.
    pub(crate) fn page_out(&mut self, written: &[Wanted]) {
        for &Wanted { store, key, order } in written {
            if self.fx.resident <= self.fx.budget {
                break;
            }
            if let Some(entity) = entity_mut(&mut self.entities, store) {
                entity.store.page_out(key, order, &mut self.fx);
            }
        }
    }

    /// Returns some expired messages whose records do not yet show the expiry, from this order on. They are to become
    /// dead letters before a change of settings after which they would not. A later process would treat them as
    /// messages that expire then.
    pub(crate) fn unsaid(&mut self, now: Now, id: StoreId, to: &Change, from: u64) -> Vec<Wanted> {
        if to.of_store().dead_letter_on_expiration {
            return Vec::new();
        }
        self.advance(now);
        // A message that is deleted meanwhile needs no such record.
        self.entity(id).map_or_else(Vec::new, |entity| entity.store.unsaid(from))
    }

    /// Returns the messages to be fetched.
    pub(crate) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.fx.note().wanted)
    }

    /// Takes messages that were fetched, or not found. Returns one that should have been found.
    pub(crate) fn page_in(&mut self, now: Now, fetched: Vec<(Wanted, Option<Stored>)>) -> Option<Wanted> {
        self.advance(now);
        let mut missing = None;
        for (wanted, message) in fetched {
            if let Some(entity) = entity_mut(&mut self.entities, wanted.store)
                && !entity.store.page_in(wanted.key, wanted.order, message, &mut self.fx)
            {
                missing = Some(wanted);
            }
        }
        self.finish(now);
        missing
    }
}

impl Entity {
    fn record(&self) -> EntityRecord {
        let kind = match &self.role {
            Role::Queue => EntityKind::Queue(self.store.settings().clone()),
            Role::Topic(topic) => EntityKind::Topic(topic.settings.clone()),
            Role::Subscription(subscription) => EntityKind::Subscription {
                settings: subscription.settings.clone(),
                topic: subscription.topic.serial,
                rules: Box::new(subscription.rules.clone()),
            },
        };
        EntityRecord { path: self.path.clone(), kind, secret: self.store.secret() }
    }
}

impl Gone {
    fn remove(self, batch: &mut Batch) {
        let Self { serial, messages, sessions, ids } = self;
        for order in messages {
            batch.remove(Table::Messages, &key(serial, order));
        }
        for id in sessions {
            batch.remove(Table::Sessions, &session_key(serial, &id));
        }
        for number in ids {
            batch.remove(Table::Ids, &key(serial, number));
        }
        batch.remove(Table::Counters, &serial.to_be_bytes());
        batch.remove(Table::Entities, &serial.to_be_bytes());
    }
}

/// An engine that is restored from records, which come in the order of [`Table`].
pub(crate) struct Restoring {
    engine: Engine,
    now: Now,
    by_serial: BTreeMap<u64, StoreId>,
    hold_locks: bool,
    messages: u64,
}

impl Restoring {
    pub(crate) fn new(quirks: Quirks, now: Now, last_serial: u64, hold_locks: bool, budget: u64) -> Self {
        let mut engine = Engine { last_serial, ..Engine::new(quirks) };
        engine.set_budget(budget);
        Self { engine, now, by_serial: BTreeMap::new(), hold_locks, messages: 0 }
    }

    /// Takes one record.
    pub(crate) fn take(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        match table {
            // It came first.
            Table::Broker => Ok(()),
            Table::Entities => self.entity(serial(table, key)?, EntityRecord::decode(value)?),
            Table::Counters => {
                let record = CounterRecord::decode(value)?;
                let known = self.store(table, serial(table, key)?)?.restore_counters(&record);
                known.then_some(()).ok_or_else(|| corrupted(table, key, "of another kind of entity"))
            }
            Table::Sessions => {
                let (of, id) = key.split_at_checked(8).ok_or_else(|| corrupted(table, key, "its key is too short"))?;
                let record = SessionRecord::decode(value)?;
                if record.id.as_bytes() != id {
                    return Err(corrupted(table, key, "it is of another session"));
                }
                let known = self.store(table, serial(table, of)?)?.restore_session(record);
                known.then_some(()).ok_or_else(|| corrupted(table, key, "the entity has no sessions"))
            }
            Table::Ids => {
                let (now, (of, number)) = (self.now, pair(table, key)?);
                let record = IdRecord::decode(value)?;
                let known = self.store(table, of)?.restore_id(now, number, record);
                known.then_some(()).ok_or_else(|| corrupted(table, key, "the entity detects no duplicates"))
            }
            Table::Messages => {
                let (of, order) = pair(table, key)?;
                let record = MessageRecord::decode(value)?;
                let id = *self.by_serial.get(&of).ok_or_else(|| corrupted(table, key, "its entity is not there"))?;
                self.messages += 1;
                if let Some(entity) = entity_mut(&mut self.engine.entities, id) {
                    entity.store.restore(self.now, order, record, self.hold_locks, &mut self.engine.fx);
                    // Messages beyond the budget. No command would drop them.
                    self.engine.fx.note().dropped.clear();
                }
                Ok(())
            }
        }
    }

    fn store(&mut self, table: Table, serial: u64) -> Result<&mut Store, StorageError> {
        let id = self.by_serial.get(&serial).copied();
        let entity = id.and_then(|id| entity_mut(&mut self.engine.entities, id));
        let missing = || corrupted(table, &serial.to_be_bytes(), "its entity is not there");
        entity.map(|entity| &mut entity.store).ok_or_else(missing)
    }

    fn entity(&mut self, serial: u64, record: EntityRecord) -> Result<(), StorageError> {
        let engine = &mut self.engine;
        let broken = |what| corrupted(Table::Entities, &serial.to_be_bytes(), what);
        let EntityRecord { path, kind, secret } = record;
        let slot = engine.entities.vacant_entry();
        let index = u32::try_from(slot.key()).map_err(|_| broken("there are too many entities"))?;
        let id = StoreId { serial, index };
        let (settings, role) = match kind {
            EntityKind::Queue(settings) => (settings, Role::Queue),
            EntityKind::Topic(settings) => {
                (settings.to_queue(), Role::Topic(Box::new(Topic { settings, subscriptions: BTreeMap::new() })))
            }
            EntityKind::Subscription { settings, topic, rules } => {
                let topic = *self.by_serial.get(&topic).ok_or_else(|| broken("its topic is not there"))?;
                let name = path.subscription().map(|(_, name)| name.into());
                let name = name.ok_or_else(|| broken("its path is not one of a subscription"))?;
                let subscription = Subscription { name, settings, topic, rules: *rules };
                (subscription.settings.to_queue(), Role::Subscription(Box::new(subscription)))
            }
        };
        let forward = |target: &Option<String>| match target {
            Some(target) => EntityPath::new(target).map(|path| Some(path.key())),
            None => Ok(None),
        };
        let forwards =
            forward(&settings.forward_to).and_then(|it| Ok((it, forward(&settings.forward_dead_letters_to)?)));
        let (forward_to, forward_dead_letters_to) = forwards.map_err(|_| broken("it forwards to what is no path"))?;
        let mut store = Store::new(id, settings, self.now, engine.quirks);
        if let Some(secret) = secret {
            store.set_secret(secret);
        }
        if engine.names.insert(path.key(), id).is_some() {
            return Err(broken("another entity has its path"));
        }
        let child = match &role {
            Role::Subscription(subscription) => Some((subscription.topic, subscription.name.to_lowercase().into())),
            _ => None,
        };
        slot.insert(Entity { path, role, store, forward_to, forward_dead_letters_to });
        if let Some((topic, name)) = child {
            match entity_mut(&mut engine.entities, topic).map(|entity| &mut entity.role) {
                Some(Role::Topic(topic)) => drop(topic.subscriptions.insert(name, id)),
                _ => return Err(broken("its topic is none")),
            }
        }
        self.by_serial.insert(serial, id);
        Ok(())
    }

    /// Returns the engine, and its number of messages. Events that came due while no broker was open are applied
    /// here, each at its own instant. Then messages that another entity has to accept are tried again.
    pub(crate) fn finish(self) -> (Engine, u64) {
        let Self { mut engine, now, by_serial, messages, hold_locks } = self;
        engine.fx.record(hold_locks);
        engine.fx.note().leaving.clear();
        for (_, entity) in &mut engine.entities {
            entity.store.finish_restoring(&mut engine.fx);
        }
        engine.take_due();
        engine.advance(now);
        for id in by_serial.into_values() {
            let Some(entity) = entity_mut(&mut engine.entities, id) else { continue };
            entity.store.let_leave(&mut engine.fx);
            engine.finish(now);
        }
        (engine, messages)
    }
}

pub(super) fn session_key(serial: u64, id: &str) -> Vec<u8> {
    [&serial.to_be_bytes(), id.as_bytes()].concat()
}

fn serial(table: Table, key: &[u8]) -> Result<u64, StorageError> {
    let bytes = key.try_into().map_err(|_| corrupted(table, key, "its key has another length"))?;
    Ok(u64::from_be_bytes(bytes))
}

fn pair(table: Table, key: &[u8]) -> Result<(u64, u64), StorageError> {
    let (of, number) = key.split_at_checked(8).ok_or_else(|| corrupted(table, key, "its key is too short"))?;
    Ok((serial(table, of)?, serial(table, number)?))
}
