use std::collections::BTreeMap;

use consign_core::message::EntityPath;

use super::{CounterRecord, EntityKind, EntityRecord, IdRecord, MessageRecord, SessionRecord};
use crate::{
    Quirks,
    engine::{
        Engine, Entity, LastSaid, Role, StoreId, Subscription, Topic, entity_mut, space::MAX_UNWRITTEN, store::Store,
        time::Now,
    },
};

/// Why a record does not fit the records before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inconsistent(pub(crate) &'static str);

const NO_ENTITY: Inconsistent = Inconsistent("its entity is not there");

/// An engine that is restored from records: all entities, then all counters, sessions, ids and messages, by serial and number.
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

    pub(crate) fn counter(&mut self, serial: u64, record: &CounterRecord) -> Result<(), Inconsistent> {
        let known = self.store(serial)?.restore_counters(record);
        known.then_some(()).ok_or(Inconsistent("of another kind of entity"))
    }

    pub(crate) fn session(&mut self, serial: u64, record: SessionRecord) -> Result<(), Inconsistent> {
        let known = self.store(serial)?.restore_session(record);
        known.then_some(()).ok_or(Inconsistent("the entity has no sessions"))
    }

    pub(crate) fn id(&mut self, serial: u64, number: u64, record: IdRecord) -> Result<(), Inconsistent> {
        let now = self.now;
        let known = self.store(serial)?.restore_id(now, number, record);
        known.then_some(()).ok_or(Inconsistent("the entity detects no duplicates"))
    }

    pub(crate) fn message(&mut self, serial: u64, order: u64, record: MessageRecord) -> Result<(), Inconsistent> {
        let id = *self.by_serial.get(&serial).ok_or(NO_ENTITY)?;
        self.messages += 1;
        if let Some(entity) = entity_mut(&mut self.engine.entities, id) {
            entity.store.restore(self.now, order, record, self.hold_locks, &mut self.engine.fx);
            // Messages beyond the budget. No command would drop them.
            self.engine.fx.note().dropped.clear();
        }
        Ok(())
    }

    fn store(&mut self, serial: u64) -> Result<&mut Store, Inconsistent> {
        let id = self.by_serial.get(&serial).copied();
        let entity = id.and_then(|id| entity_mut(&mut self.engine.entities, id));
        entity.map(|entity| &mut entity.store).ok_or(NO_ENTITY)
    }

    pub(crate) fn entity(&mut self, serial: u64, record: EntityRecord) -> Result<(), Inconsistent> {
        let engine = &mut self.engine;
        let EntityRecord { path, kind, secret } = record;
        let slot = engine.entities.vacant_entry();
        let index = u32::try_from(slot.key()).map_err(|_| Inconsistent("there are too many entities"))?;
        let id = StoreId { serial, index };
        let (settings, role) = match kind {
            EntityKind::Queue(settings) => (settings, Role::Queue),
            EntityKind::Topic(settings) => {
                (settings.to_queue(), Role::Topic(Box::new(Topic { settings, subscriptions: BTreeMap::new() })))
            }
            EntityKind::Subscription { settings, topic, rules } => {
                let topic = *self.by_serial.get(&topic).ok_or(Inconsistent("its topic is not there"))?;
                let name = path.subscription().map(|(_, name)| name.into());
                let name = name.ok_or(Inconsistent("its path is not one of a subscription"))?;
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
        let (forward_to, forward_dead_letters_to) =
            forwards.map_err(|_| Inconsistent("it forwards to what is no path"))?;
        let mut store = Store::new(id, settings, self.now, engine.quirks);
        if let Some(secret) = secret {
            store.set_secret(secret);
        }
        if engine.names.insert(path.key(), id).is_some() {
            return Err(Inconsistent("another entity has its path"));
        }
        let child = match &role {
            Role::Subscription(subscription) => Some((subscription.topic, subscription.name.to_lowercase().into())),
            _ => None,
        };
        slot.insert(Entity { path, role, store, forward_to, forward_dead_letters_to, last_said: LastSaid::default() });
        if let Some((topic, name)) = child {
            match entity_mut(&mut engine.entities, topic).map(|entity| &mut entity.role) {
                Some(Role::Topic(topic)) => drop(topic.subscriptions.insert(name, id)),
                _ => return Err(Inconsistent("its topic is none")),
            }
        }
        self.by_serial.insert(serial, id);
        Ok(())
    }

    /// Returns the engine, and its number of messages. Events that came due while no broker was open are applied
    /// here, each at its own instant. Then messages that another entity has to accept are tried again.
    ///
    /// The disk has space for `space` bytes. What does not fit follows with the next batches.
    /// `records_locks` is whether new locks are written too.
    pub(crate) fn finish(self, space: u64, records_locks: bool) -> (Engine, u64) {
        let Self { mut engine, now, by_serial, messages, .. } = self;
        engine.fx.record(records_locks, space.min(MAX_UNWRITTEN));
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
