use consign::{
    administration::Status,
    message::SequenceNumber,
    transport::{ErrorKind, Sender},
};

use super::{
    Driver,
    receive::take,
    send::message,
    world::{Kind, NAMES, Real, real_rule},
};
use crate::model::{Role, Rule, Settings};

impl Driver {
    pub(super) fn any_rule(&mut self) -> Rule {
        self.rng.choice(Rule::ALL).unwrap()
    }

    fn any_subscription(&mut self) -> Option<usize> {
        self.any_handle(|handle| handle.kind == Kind::Subscription)
    }

    pub(super) fn create_rule(&mut self) {
        let Some(at) = self.any_subscription() else { return };
        let rule = self.any_rule();
        let Real::Subscription(subscription) = &self.handles[at].real else { return };
        let created = subscription.create_rule(real_rule(rule)).map_err(|error| error.kind());
        assert_eq!(created, self.model.create_rule(self.handles[at].entity, rule));
    }

    pub(super) fn delete_rule(&mut self) {
        let Some(at) = self.any_subscription() else { return };
        let rule = self.any_rule();
        let Real::Subscription(subscription) = &self.handles[at].real else { return };
        let deleted =
            subscription.delete_rule(rule.name()).map(|it| it.name().to_owned()).map_err(|error| error.kind());
        assert_eq!(deleted, self.model.delete_rule(self.handles[at].entity, rule).map(|()| rule.name().to_owned()));
    }

    /// Changes some settings of an entity that is there.
    fn update(&mut self, at: usize, change: impl FnOnce(&mut Self, &mut Settings)) {
        let (entity, path, kind) = (self.handles[at].entity, self.handles[at].path, self.handles[at].kind);
        let Some(mut settings) = self.model.entities.get(&entity).map(|entity| entity.settings.clone()) else { return };
        change(self, &mut settings);
        let updated = self.update_real(path, kind, &settings);
        self.model.catch_up();
        // Under the name there may be another by now, or none.
        let expected = match self.model.find(path) {
            Some(id) if self.role_is(id, kind) => self.model.update(id, settings),
            _ => Err(ErrorKind::EntityNotFound),
        };
        assert_eq!(updated, expected, "{path}");
    }

    fn role_is(&self, id: u32, kind: Kind) -> bool {
        let role = match self.model.entity(id).role {
            Role::Queue => Kind::Queue,
            Role::Topic => Kind::Topic,
            Role::Subscription { .. } => Kind::Subscription,
        };
        role == kind
    }

    pub(super) fn update_settings(&mut self) {
        let Some(at) = self.any_handle(|_| true) else { return };
        self.update(at, |driver, settings| {
            let (path, kind) = (driver.handles[at].path, driver.handles[at].kind);
            let other = driver.settings(path, kind);
            if kind != Kind::Topic {
                settings.max_deliveries = other.max_deliveries;
                settings.bury_expired = other.bury_expired;
                settings.bury_filter_errors = other.bury_filter_errors;
                if driver.one_in(2) {
                    settings.lock = other.lock;
                }
            }
            settings.ttl = other.ttl;
            settings.max_size = other.max_size;
            settings.max_message_size = other.max_message_size;
            settings.idle = other.idle;
            settings.max_ids = other.max_ids;
            settings.window = settings.window.map(|window| other.window.unwrap_or(window));
        });
    }

    pub(super) fn update_status(&mut self) {
        let Some(at) = self.any_handle(|_| true) else { return };
        let all = [Status::Active, Status::Disabled, Status::SendDisabled, Status::ReceiveDisabled];
        let status = self.rng.choice(all).unwrap();
        self.update(at, |_, settings| settings.status = status);
    }

    /// Makes up for what the one above does.
    pub(super) fn open_again(&mut self) {
        let closed = |entity: u32| {
            let entity = self.model.entities.get(&entity);
            entity.is_some_and(|entity| entity.settings.status != Status::Active)
        };
        let closed: Vec<usize> = (0..self.handles.len()).filter(|&at| closed(self.handles[at].entity)).collect();
        if let Some(at) = self.rng.choice(closed) {
            self.update(at, |_, settings| settings.status = Status::Active);
        }
    }

    pub(super) fn update_forwards(&mut self) {
        if !self.world.forwards {
            return;
        }
        let Some(at) = self.any_handle(|handle| handle.kind != Kind::Topic) else { return };
        self.update(at, |driver, settings| {
            let target = |driver: &mut Self| driver.rng.choice(NAMES).unwrap().0.to_owned();
            settings.forward_to = driver.one_in(3).then(|| target(driver));
            settings.forward_dead_to = driver.one_in(2).then(|| target(driver));
            if driver.one_in(3) {
                settings.lock = driver.rng.u64(5_000..=20_000);
            }
        });
    }

    /// For the end: nothing is forwarded any more, and everything is open.
    pub(super) fn stay_here(&mut self, at: usize) {
        self.update(at, |_, settings| {
            (settings.forward_to, settings.forward_dead_to, settings.status) = (None, None, Status::Active);
            settings.idle = None;
        });
    }

    pub(super) fn update_refused(&mut self) {
        let Some(at) = self.any_handle(|handle| handle.kind == Kind::Queue) else { return };
        let which = self.rng.u32(0..4);
        self.update(at, |_, settings| match which {
            0 => settings.sessions = !settings.sessions,
            1 => settings.partitioned = !settings.partitioned,
            2 => settings.max_deliveries = 0,
            _ => settings.lock = 4_999,
        });
    }

    pub(super) fn create_existing(&mut self) {
        let (path, kind) = self.rng.choice(NAMES).unwrap();
        self.model.catch_up();
        if self.model.find(path).is_some() {
            self.create(path, kind);
        }
    }

    /// A deleted entity keeps its handle for a while.
    pub(super) fn delete_entity(&mut self) {
        if self.rng.bool() {
            return;
        }
        let Some(at) = self.any_handle(|_| true) else { return };
        let path = self.handles[at].path;
        let deleted = self.broker.delete(path).map_err(|error| error.kind());
        self.model.catch_up();
        let expected = self.model.find(path).ok_or(ErrorKind::EntityNotFound).and_then(|id| self.model.delete(id));
        assert_eq!(deleted, expected, "{path}");
    }

    pub(super) fn create_again(&mut self) {
        self.model.catch_up();
        let missing = NAMES.into_iter().filter(|(path, _)| self.model.find(path).is_none());
        let missing: Vec<_> = missing.collect();
        if let Some((path, kind)) = self.rng.choice(missing) {
            self.create(path, kind);
        }
    }

    /// An entity that is deleted answers that it is not there, also if another has its name by now.
    pub(super) fn use_deleted(&mut self) {
        self.model.catch_up();
        let gone = |entity: u32| !self.model.entities.contains_key(&entity);
        let Some(at) = (0..self.handles.len()).find(|&at| gone(self.handles[at].entity)) else { return };
        let handle = self.handles[at].clone();
        let content = self.content(at);
        if handle.kind != Kind::Subscription {
            let sent = self.sender(at).send(message(&content)).wait();
            assert_eq!(sent.unwrap_err().kind(), ErrorKind::EntityNotFound);
        }
        if let Some(queue) = handle.queue() {
            assert_eq!(take(&mut queue.receiver(), 1).unwrap_err(), ErrorKind::EntityNotFound);
            assert_eq!(queue.accept_session("s0").unwrap_err().kind(), ErrorKind::EntityNotFound);
            assert_eq!(queue.settings().unwrap_err().kind(), ErrorKind::EntityNotFound);
            assert!(queue.peek(SequenceNumber::new(0), 10).is_empty() && queue.sessions().is_empty());
        }
    }

    pub(super) fn list_entities(&mut self) {
        self.model.catch_up();
        let entities: Vec<_> = self.broker.entities().into_iter().map(|it| it.path.as_str().to_owned()).collect();
        let mut expected: Vec<_> = self.model.entities.values().map(|entity| entity.path.clone()).collect();
        expected.sort();
        assert_eq!(entities, expected);
    }
}
