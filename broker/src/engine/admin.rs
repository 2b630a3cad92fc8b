use std::collections::BTreeMap;

use consign_core::{
    administration::{Counts, EntityKind, QueueSettings, SubscriptionSettings, TopicSettings},
    message::{EntityPath, Field, InvalidArgument, Problem},
    time::Timestamp,
    transport::{ErrorKind, ManageError},
};
use consign_rules::{Rule, RuleSet, RuleSetError};

use super::{
    Ages, Engine, Entity, LastSaid, Part, Role, StoreId, Subscription, Topic, Totals, declare::other, entity_mut,
    store::Store, time::Now,
};
use crate::Broker;

/// The settings for a new entity, or for a change.
#[derive(Debug)]
pub(crate) enum Change {
    Queue(QueueSettings),
    Topic(TopicSettings),
    Subscription(SubscriptionSettings),
}

/// An entity with its counters.
pub(crate) struct Counted {
    pub(crate) path: EntityPath,
    pub(crate) kind: EntityKind,
    pub(crate) counts: Counts,
    pub(crate) totals: Totals,
    /// The enqueued time of the first message that can be received.
    pub(crate) first_active: Option<Timestamp>,
    pub(crate) first_dead: Option<Timestamp>,
}

impl Change {
    /// Returns the settings for the store.
    pub(super) fn of_store(&self) -> QueueSettings {
        match self {
            Self::Queue(settings) => settings.clone(),
            Self::Topic(settings) => settings.to_queue(),
            Self::Subscription(settings) => settings.to_queue(),
        }
    }
}

impl Engine {
    pub(crate) fn create(
        &mut self,
        now: Now,
        path: EntityPath,
        change: Change,
        rule: Option<Rule>,
    ) -> Result<StoreId, ManageError> {
        self.advance(now);
        let settings = change.of_store();
        settings.check()?;
        if path.is_sub_queue() {
            let detail = "a dead-letter sub-queue comes with its entity";
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        let key = path.key();
        if self.names.contains_key(&key) {
            return Err(other(&path, "to use the one that exists, declare it instead"));
        }
        if self.entities.len() >= Broker::MAX_ENTITIES {
            let detail = format!("at most {} entities", Broker::MAX_ENTITIES);
            return Err(ManageError::new(ErrorKind::QuotaExceeded).with_detail(detail));
        }
        let forwards = self.check_forwards(&key, &settings)?;
        let topic = self.topic_of(&path, &change)?;
        self.last_serial += 1;
        let slot = self.entities.vacant_entry();
        let index = u32::try_from(slot.key()).expect("fewer entities than Broker::MAX_ENTITIES");
        let id = StoreId { serial: self.last_serial, index };
        let role = match (change, topic) {
            (Change::Topic(settings), _) => Role::Topic(Box::new(Topic { settings, subscriptions: BTreeMap::new() })),
            (Change::Subscription(settings), Some((topic, name))) => {
                let rules = RuleSet::of(rule.unwrap_or_default().with_created(now.utc));
                Role::Subscription(Box::new(Subscription { name, settings, topic, rules }))
            }
            _ => Role::Queue,
        };
        let mut store = Store::new(id, settings, now, self.quirks);
        if let Some((at, _)) = store.next_event() {
            store.arm(at, &mut self.fx);
        }
        let [forward_to, forward_dead_letters_to] = forwards;
        let child = match &role {
            Role::Subscription(subscription) => Some((subscription.topic, subscription.name.to_lowercase().into())),
            _ => None,
        };
        let last_said = LastSaid::default();
        slot.insert(Entity { path, role, store, forward_to, forward_dead_letters_to, last_said });
        if let Some((topic, name)) = child
            && let Some(Role::Topic(topic)) = entity_mut(&mut self.entities, topic).map(|entity| &mut entity.role)
        {
            topic.subscriptions.insert(name, id);
        }
        self.names.insert(key, id);
        if let Some(entity) = entity_mut(&mut self.entities, id) {
            entity.store.settings_changed(&mut self.fx);
        }
        self.finish(now);
        Ok(id)
    }

    /// Returns the topic that a subscription belongs to, and its name there.
    fn topic_of(&self, path: &EntityPath, change: &Change) -> Result<Option<(StoreId, Box<str>)>, ManageError> {
        let parts = path.subscription();
        let Change::Subscription(_) = change else {
            if parts.is_none() {
                return Ok(None);
            }
            let detail = "the path is one of a subscription";
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
        };
        let missing = || ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string());
        let (topic, name) = parts.ok_or_else(missing)?;
        let id = *self.names.get(&*topic.to_lowercase()).ok_or_else(missing)?;
        match self.entity(id).map(|entity| &entity.role) {
            Some(Role::Topic(topic)) if topic.subscriptions.len() >= Broker::MAX_SUBSCRIPTIONS => {
                let detail = format!("at most {} subscriptions", Broker::MAX_SUBSCRIPTIONS);
                Err(ManageError::new(ErrorKind::QuotaExceeded).with_detail(detail))
            }
            Some(Role::Topic(_)) => Ok(Some((id, name.into()))),
            _ => Err(missing()),
        }
    }

    /// Returns the names of the targets to which these settings forward. They exist, and are not the entity itself.
    fn check_forwards(&self, own: &str, settings: &QueueSettings) -> Result<[Option<Box<str>>; 2], ManageError> {
        let check = |field: &'static str, target: &Option<String>| -> Result<Option<Box<str>>, ManageError> {
            let Some(target) = target else { return Ok(None) };
            let key = EntityPath::new(target)?.key();
            if *key == *own {
                return Err(InvalidArgument::new(Field::Setting(field), Problem::IsItself).into());
            }
            let target = self.names.get(&key).and_then(|id| self.entity(*id));
            match target.map(|entity| &entity.role) {
                Some(Role::Queue | Role::Topic(_)) => Ok(Some(key)),
                Some(Role::Subscription(_)) => {
                    let detail = "a subscription gets messages from its topic only";
                    Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail))
                }
                None => Err(ManageError::new(ErrorKind::EntityNotFound).with_detail(key.to_string())),
            }
        };
        let forward_to = check("forward_to", &settings.forward_to)?;
        if forward_to.is_some() && settings.requires_session {
            let detail = "an entity that requires sessions forwards no messages";
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        Ok([forward_to, check("forward_dead_letters_to", &settings.forward_dead_letters_to)?])
    }

    pub(crate) fn update(&mut self, now: Now, id: StoreId, change: Change) -> Result<(), ManageError> {
        self.advance(now);
        let settings = change.of_store();
        settings.check()?;
        let path = self.entity(id).ok_or_else(missing)?.path.key();
        let [forward_to, forward_dead_letters_to] = self.check_forwards(&path, &settings)?;
        let entity = entity_mut(&mut self.entities, id).ok_or_else(missing)?;
        entity.store.settings().check_fixed(&settings)?;
        match (&mut entity.role, change) {
            (Role::Topic(topic), Change::Topic(settings)) => topic.settings = settings,
            (Role::Subscription(subscription), Change::Subscription(settings)) => subscription.settings = settings,
            (Role::Queue, Change::Queue(_)) => {}
            _ => return Err(missing()),
        }
        entity.forward_to = forward_to;
        entity.forward_dead_letters_to = forward_dead_letters_to;
        entity.store.configure(settings, now, &mut self.fx);
        entity.store.settings_changed(&mut self.fx);
        entity.store.let_leave(&mut self.fx);
        // Receivers that wait there may be refused from now on.
        self.fx.note().closed.push(id);
        self.finish(now);
        Ok(())
    }

    /// Deletes an entity, and a topic with its subscriptions.
    pub(crate) fn delete(&mut self, now: Now, id: StoreId) -> Result<(), ManageError> {
        self.advance(now);
        let entity = entity_mut(&mut self.entities, id).ok_or_else(missing)?;
        // For the topic of a subscription.
        entity.store.touch(now);
        self.remove_entity(id);
        Ok(())
    }

    pub(super) fn remove_entity(&mut self, id: StoreId) {
        self.inherit_use(id);
        let Some(entity) = self.entity(id) else { return };
        let key = entity.path.key();
        let children = match &entity.role {
            Role::Topic(topic) => topic.subscriptions.values().copied().collect(),
            Role::Subscription(subscription) => {
                let (topic, name) = (subscription.topic, subscription.name.to_lowercase());
                if let Some(Role::Topic(topic)) = entity_mut(&mut self.entities, topic).map(|entity| &mut entity.role) {
                    topic.subscriptions.remove(&*name);
                }
                Vec::new()
            }
            Role::Queue => Vec::new(),
        };
        for child in children {
            self.remove_entity(child);
        }
        self.names.remove(&key);
        let entity = self.entities.remove(id.index as usize);
        #[cfg(feature = "durable")]
        if self.fx.is_recorded() {
            let gone = entity.store.written();
            let notes = self.fx.note();
            notes.gone.push(gone);
            notes.changed.push(id);
        }
        self.fx.note().removed.push(entity);
        self.fx.note().closed.push(id);
    }

    pub(crate) fn find(&mut self, now: Now, key: &str) -> Option<(StoreId, EntityKind, EntityPath)> {
        self.advance(now);
        let id = *self.names.get(key)?;
        let entity = self.entity(id)?;
        Some((id, entity.role.kind(), entity.path.clone()))
    }

    /// Returns all entities, in the order of their paths.
    pub(crate) fn entities(&mut self, now: Now) -> Vec<(EntityPath, EntityKind)> {
        self.advance(now);
        let entities = self.names.values().filter_map(|id| self.entity(*id));
        entities.map(|entity| (entity.path.clone(), entity.role.kind())).collect()
    }

    /// Returns all entities with their contents, in the order of their paths, in one step.
    pub(crate) fn snapshot(&mut self, now: Now) -> Vec<(EntityPath, EntityKind, Counts, Ages, u64)> {
        self.advance(now);
        let ids: Vec<_> = self.names.values().copied().collect();
        let mut entities = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(entity) = self.entity(id) else { continue };
            let (path, kind) = (entity.path.clone(), entity.role.kind());
            let max_size = entity.store.settings().max_size;
            entities.push((path, kind, self.counts(now, id, Part::Main), self.ages(now, id, Part::Main), max_size));
        }
        entities
    }

    /// Returns all entities with their counters, in the order of their paths, in one step. Visits no message.
    pub(crate) fn statistics(&mut self, now: Now) -> Vec<Counted> {
        self.advance(now);
        let ids: Vec<_> = self.names.values().copied().collect();
        let mut entities = Vec::with_capacity(ids.len());
        for id in ids {
            let counts = self.counts(now, id, Part::Main);
            let Some(entity) = entity_mut(&mut self.entities, id) else { continue };
            entities.push(Counted {
                path: entity.path.clone(),
                kind: entity.role.kind(),
                counts,
                totals: entity.store.totals(),
                first_active: entity.store.first_enqueued(Part::Main),
                first_dead: entity.store.first_enqueued(Part::DeadLetter),
            });
        }
        entities
    }

    pub(crate) fn queue_settings(&mut self, now: Now, id: StoreId) -> Option<QueueSettings> {
        self.advance(now);
        self.entity(id).map(|entity| entity.store.settings().clone())
    }

    pub(crate) fn topic_settings(&mut self, now: Now, id: StoreId) -> Option<TopicSettings> {
        self.advance(now);
        match &self.entity(id)?.role {
            Role::Topic(topic) => Some(topic.settings.clone()),
            _ => None,
        }
    }

    pub(crate) fn subscription_settings(&mut self, now: Now, id: StoreId) -> Option<SubscriptionSettings> {
        self.advance(now);
        match &self.entity(id)?.role {
            Role::Subscription(subscription) => Some(subscription.settings.clone()),
            _ => None,
        }
    }

    /// Returns the names of a topic's subscriptions, in order.
    pub(crate) fn subscriptions(&mut self, now: Now, id: StoreId) -> Vec<String> {
        self.advance(now);
        let Some(Role::Topic(topic)) = self.entity(id).map(|entity| &entity.role) else { return Vec::new() };
        let name = |id: &StoreId| match &self.entity(*id)?.role {
            Role::Subscription(subscription) => Some(subscription.name.to_string()),
            _ => None,
        };
        topic.subscriptions.values().filter_map(name).collect()
    }

    /// Returns what a user asks for of the rules of a subscription.
    pub(crate) fn of_rules<T: Default>(&mut self, now: Now, id: StoreId, of: impl FnOnce(&RuleSet) -> T) -> T {
        self.advance(now);
        match self.entity(id).map(|entity| &entity.role) {
            Some(Role::Subscription(subscription)) => of(&subscription.rules),
            _ => T::default(),
        }
    }

    /// Changes the rules of a subscription.
    pub(crate) fn change_rules<T>(
        &mut self,
        now: Now,
        id: StoreId,
        change: impl FnOnce(&mut RuleSet) -> Result<T, RuleSetError>,
    ) -> Result<T, ManageError> {
        self.advance(now);
        let entity = entity_mut(&mut self.entities, id).ok_or_else(missing)?;
        let Role::Subscription(subscription) = &mut entity.role else { return Err(missing()) };
        let changed = change(&mut subscription.rules)?;
        entity.store.touch(now);
        entity.store.settings_changed(&mut self.fx);
        Ok(changed)
    }
}

impl Role {
    pub(super) fn kind(&self) -> EntityKind {
        match self {
            Self::Queue => EntityKind::Queue,
            Self::Topic(_) => EntityKind::Topic,
            Self::Subscription(_) => EntityKind::Subscription,
        }
    }
}

fn missing() -> ManageError {
    ManageError::new(ErrorKind::EntityNotFound)
}
