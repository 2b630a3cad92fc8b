use consign::{administration::Status, transport::ErrorKind};

use super::{Entity, Model, Role, Rule, Settings};

impl Model {
    /// Creates an entity. A subscription has these rules; its topic is by its role.
    pub(crate) fn create(
        &mut self,
        path: &str,
        role: Role,
        settings: Settings,
        rules: Vec<Rule>,
    ) -> Result<u32, ErrorKind> {
        self.catch_up();
        settings.check()?;
        if self.find(path).is_some() {
            return Err(ErrorKind::AlreadyExists);
        }
        self.check_forwards(path, &settings)?;
        if let Role::Subscription { topic } = role
            && !self.entities.contains_key(&topic)
        {
            return Err(ErrorKind::EntityNotFound);
        }
        self.last_entity += 1;
        let entity = Entity { rules, ..Entity::new(path.into(), role, settings, self.now) };
        self.entities.insert(self.last_entity, entity);
        Ok(self.last_entity)
    }

    /// Messages go to a queue or a topic that is there, and not to their own entity.
    fn check_forwards(&self, own: &str, settings: &Settings) -> Result<(), ErrorKind> {
        let check = |target: &Option<String>| match target {
            Some(target) if target == own => Err(ErrorKind::InvalidArgument),
            Some(target) => match self.find(target).map(|id| self.entity(id).role) {
                Some(Role::Subscription { .. }) => Err(ErrorKind::InvalidOperation),
                Some(_) => Ok(()),
                None => Err(ErrorKind::EntityNotFound),
            },
            None => Ok(()),
        };
        check(&settings.forward_to)?;
        if settings.forward_to.is_some() && settings.sessions {
            return Err(ErrorKind::InvalidOperation);
        }
        check(&settings.forward_dead_to)
    }

    /// Changes the settings. Locks that would last otherwise from now on are given back.
    pub(crate) fn update(&mut self, id: u32, settings: Settings) -> Result<(), ErrorKind> {
        self.catch_up();
        settings.check()?;
        let entity = self.entities.get(&id).ok_or(ErrorKind::EntityNotFound)?;
        self.check_forwards(&entity.path, &settings)?;
        let fixed = |of: &Settings| (of.sessions, of.window.is_some(), of.partitioned);
        if fixed(&settings) != fixed(&entity.settings) {
            return Err(ErrorKind::InvalidOperation);
        }
        let now = self.now;
        let entity = self.entity_mut(id);
        entity.forget_ids(now);
        let lock_changes = settings.lock != entity.settings.lock;
        entity.settings = settings;
        if lock_changes {
            self.end_locks(id, &|_| true, false);
        }
        self.touch(id);
        self.let_leave(id);
        self.hand_over();
        Ok(())
    }

    pub(crate) fn delete(&mut self, id: u32) -> Result<(), ErrorKind> {
        self.catch_up();
        if !self.entities.contains_key(&id) {
            return Err(ErrorKind::EntityNotFound);
        }
        // Of the topic too, if it is a subscription.
        self.touch(id);
        self.delete_entity(id);
        Ok(())
    }

    /// Deletes an entity with all that it holds, and a topic with its subscriptions.
    pub(super) fn delete_entity(&mut self, id: u32) {
        for subscription in self.subscriptions(id) {
            self.delete_entity(subscription);
        }
        for key in self.keys(|stored| stored.entity == id) {
            self.remove(key);
        }
        self.sessions.retain(|session| session.entity != id);
        let deleted = self.entities.remove(&id).unwrap();
        if let Role::Subscription { topic } = deleted.role {
            let accessed = &mut self.entity_mut(topic).accessed;
            *accessed = deleted.accessed.max(*accessed);
        }
    }

    pub(crate) fn create_rule(&mut self, id: u32, rule: Rule) -> Result<(), ErrorKind> {
        self.catch_up();
        let entity = self.entities.get_mut(&id).ok_or(ErrorKind::EntityNotFound)?;
        if entity.rules.contains(&rule) {
            return Err(ErrorKind::AlreadyExists);
        }
        entity.rules.push(rule);
        self.touch(id);
        Ok(())
    }

    pub(crate) fn delete_rule(&mut self, id: u32, rule: Rule) -> Result<(), ErrorKind> {
        self.catch_up();
        let entity = self.entities.get_mut(&id).ok_or(ErrorKind::EntityNotFound)?;
        let at = entity.rules.iter().position(|&its| its == rule).ok_or(ErrorKind::EntityNotFound)?;
        entity.rules.remove(at);
        self.touch(id);
        Ok(())
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), ErrorKind> {
        let is_valid = (5_000..=300_000).contains(&self.lock)
            && self.max_deliveries >= 1
            && self.ttl.is_none_or(|ttl| ttl >= 1_000)
            && self.window.is_none_or(|window| (20_000..=604_800_000).contains(&window))
            && self.idle.is_none_or(|idle| idle >= 300_000);
        if is_valid { Ok(()) } else { Err(ErrorKind::InvalidArgument) }
    }

    /// The default of every kind of entity.
    pub(crate) fn new() -> Self {
        Self {
            lock: 60_000,
            max_deliveries: 10,
            ttl: None,
            bury_expired: false,
            bury_filter_errors: true,
            sessions: false,
            window: None,
            max_ids: 1_000_000,
            partitioned: false,
            max_size: 1 << 30,
            max_message_size: 256 << 10,
            forward_to: None,
            forward_dead_to: None,
            idle: None,
            status: Status::Active,
        }
    }
}
