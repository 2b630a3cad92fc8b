use std::{sync::Arc, time::Duration};

use consign::{
    administration::{QueueSettings, SubscriptionSettings, TopicSettings},
    broker::{Broker, Queue, Subscription, Topic},
    rules::{CorrelationFilter, Rule as RealRule, SqlAction, SqlFilter},
    time::{ManualClock, Timestamp},
    transport::{ErrorKind, ManageError},
};

use super::{Driver, Place, Tally};
use crate::model::{Model, Role, Rule, Settings};

pub(super) const START: i64 = 1_700_000_000_000;

/// The name of an entity, and of which kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Queue,
    Topic,
    Subscription,
}

/// The small namespace: what is deleted is created again under the same name.
pub(super) const NAMES: [(&str, Kind); 10] = [
    ("plain", Kind::Queue),
    ("known", Kind::Queue),
    ("talks", Kind::Queue),
    ("parts", Kind::Queue),
    ("sink", Kind::Queue),
    ("grave", Kind::Queue),
    ("events", Kind::Topic),
    ("events/Subscriptions/all", Kind::Subscription),
    ("events/Subscriptions/some", Kind::Subscription),
    ("events/Subscriptions/talks", Kind::Subscription),
];
pub(super) const TOPIC: &str = "events";

/// What holds for all entities of a run.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
pub(super) struct World {
    /// Whether messages are forwarded from entity to entity.
    pub(super) forwards: bool,
    /// Whether some entities are small.
    pub(super) small: bool,
    /// Whether entities that are idle are deleted.
    pub(super) idle: bool,
    /// Whether each message has an id; where the id chooses the partition, a made up one cannot be foreseen.
    pub(super) ids: bool,
}

/// An entity as the driver uses it.
#[derive(Clone)]
pub(super) struct Handle {
    /// The model's name for it.
    pub(super) entity: u32,
    pub(super) path: &'static str,
    pub(super) kind: Kind,
    pub(super) real: Real,
}

#[derive(Clone)]
pub(super) enum Real {
    Queue(Queue),
    Topic(Topic),
    Subscription(Subscription),
}

impl Handle {
    /// What is sent on behalf of it and cannot be handed over.
    pub(super) fn transfer(&self) -> Queue {
        match &self.real {
            Real::Queue(queue) => queue.transfer_dead_letter(),
            Real::Topic(topic) => topic.transfer_dead_letter(),
            Real::Subscription(subscription) => subscription.transfer_dead_letter(),
        }
    }

    /// What is received from.
    pub(super) fn queue(&self) -> Option<&Queue> {
        match &self.real {
            Real::Queue(queue) => Some(queue),
            Real::Topic(_) => None,
            Real::Subscription(subscription) => Some(subscription.queue()),
        }
    }
}

impl Driver {
    pub(super) fn new(place: Place, world_seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(world_seed);
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        let world =
            World { forwards: rng.bool(), small: rng.u32(0..4) == 0, idle: rng.u32(0..3) == 0, ids: rng.bool() };
        #[cfg(feature = "durable")]
        let disk = (place == Place::Disk).then(|| super::disk::Disk::new(world_seed));
        #[cfg(feature = "durable")]
        let broker = disk.as_ref().map_or_else(|| Broker::with_clock(Arc::clone(&clock)), |disk| disk.open(&clock));
        #[cfg(not(feature = "durable"))]
        let broker = Broker::with_clock(Arc::clone(&clock));
        let mut driver = Self {
            place,
            world_seed,
            rng,
            broker,
            #[cfg(feature = "durable")]
            disk,
            clock,
            model: Model::new(START),
            world,
            handles: Vec::new(),
            held: Vec::new(),
            sessions: Vec::new(),
            transactions: Vec::new(),
            scheduled: Vec::new(),
            next_body: 0,
            op: 0,
            last: "the beginning",
            tally: Tally::default(),
            order: super::session::Order::default(),
        };
        for (path, kind) in NAMES {
            driver.create(path, kind);
        }
        for _ in 0..if driver.world.forwards { 4 } else { 0 } {
            driver.update_forwards();
        }
        driver
    }

    /// Settings as an entity of this name may have them.
    pub(super) fn settings(&mut self, path: &str, kind: Kind) -> Settings {
        let mut settings = Settings::new();
        let is_queue = kind == Kind::Queue;
        settings.lock = self.rng.u64(5_000..=20_000);
        settings.max_deliveries = self.rng.u32(1..=4);
        settings.ttl = self.one_in(2).then(|| self.rng.u64(1_000..=60_000));
        settings.bury_expired = self.rng.bool();
        settings.bury_filter_errors = self.rng.u32(0..3) > 0;
        settings.sessions = path.ends_with("talks");
        if path == "known" || (path != "grave" && kind != Kind::Subscription && self.one_in(4) && !settings.sessions) {
            settings.window = Some(self.rng.u64(20_000..=60_000));
            settings.max_ids = if self.world.small { self.rng.usize(5..20) } else { 1_000 };
        }
        settings.partitioned = path == "parts" || kind != Kind::Subscription && self.one_in(6);
        if settings.partitioned && !self.world.ids {
            settings.window = None;
        }
        if kind == Kind::Subscription {
            (settings.max_size, settings.max_message_size) = (u64::MAX, 100 << 20);
        } else if self.world.small {
            settings.max_size = self.rng.u64(2_000..8_000);
            settings.max_message_size = self.rng.usize(200..2_000) as u64;
        }
        if self.world.idle && self.one_in(2) {
            settings.idle = Some(self.rng.u64(300_000..400_000));
        }
        if kind == Kind::Topic {
            let none = Settings::new();
            (settings.lock, settings.max_deliveries, settings.bury_expired) = (none.lock, none.max_deliveries, false);
        }
        if is_queue || kind == Kind::Topic {
            settings.bury_filter_errors = true;
        }
        settings
    }

    /// Creates an entity of both, with settings of its own. A subscription needs its topic.
    pub(super) fn create(&mut self, path: &'static str, kind: Kind) {
        let settings = self.settings(path, kind);
        let topic = self.model.find(TOPIC);
        let role = match (kind, topic) {
            (Kind::Queue, _) => Role::Queue,
            (Kind::Topic, _) => Role::Topic,
            (Kind::Subscription, Some(topic)) => Role::Subscription { topic },
            (Kind::Subscription, None) => return,
        };
        let rule = self.one_in(2).then(|| self.any_rule());
        let created = self.create_real(path, kind, &settings, rule);
        let rules = if kind == Kind::Subscription { vec![rule.unwrap_or(Rule::Default)] } else { Vec::new() };
        let expected = self.model.create(path, role, settings, rules);
        let created = created.map_err(|error| error.kind());
        match (created, expected) {
            (Ok(real), Ok(entity)) => self.handles.push(Handle { entity, path, kind, real }),
            (created, expected) => assert_eq!(created.err(), expected.err(), "{path}"),
        }
    }

    fn create_real(
        &self,
        path: &str,
        kind: Kind,
        settings: &Settings,
        rule: Option<Rule>,
    ) -> Result<Real, ManageError> {
        Ok(match kind {
            Kind::Queue => Real::Queue(self.broker.create_queue(path, queue_settings(settings))?),
            Kind::Topic => Real::Topic(self.broker.create_topic(path, topic_settings(settings))?),
            Kind::Subscription => {
                let (topic, name) = (self.broker.topic(TOPIC)?, name_of(path));
                let settings = subscription_settings(settings);
                Real::Subscription(match rule {
                    Some(rule) => topic.create_subscription_with(name, settings, real_rule(rule))?,
                    None => topic.create_subscription(name, settings)?,
                })
            }
        })
    }

    pub(super) fn update_real(&self, path: &str, kind: Kind, settings: &Settings) -> Result<(), ErrorKind> {
        let updated = match kind {
            Kind::Queue => self.broker.update_queue(path, queue_settings(settings)),
            Kind::Topic => self.broker.update_topic(path, topic_settings(settings)),
            Kind::Subscription => {
                let settings = subscription_settings(settings);
                self.broker.topic(TOPIC).and_then(|topic| topic.update_subscription(name_of(path), settings))
            }
        };
        updated.map_err(|error| error.kind())
    }
}

/// The name of a subscription, from its path.
fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

pub(super) fn real_rule(rule: Rule) -> RealRule {
    let sql = |text| SqlFilter::parse(text).unwrap();
    let action = |text| SqlAction::parse(text).unwrap();
    let name = rule.name();
    match rule {
        Rule::Default => RealRule::default(),
        Rule::Also => RealRule::new(name, sql("colour = 'red'")).unwrap().with_action(action("SET also = 'yes'")),
        Rule::Faulty => RealRule::new(name, sql("10 / d > 1")).unwrap(),
        Rule::Marked => RealRule::new(name, sql("n > 5")).unwrap().with_action(action("SET n = 0; REMOVE colour")),
        Rule::Red => RealRule::new(name, sql("colour = 'red'")).unwrap(),
        Rule::Urgent => RealRule::new(name, CorrelationFilter::builder().subject("urgent").build().unwrap()).unwrap(),
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn queue_settings(from: &Settings) -> QueueSettings {
    let mut settings = QueueSettings::default();
    settings.lock_duration = millis(from.lock);
    settings.max_delivery_count = from.max_deliveries;
    settings.default_time_to_live = from.ttl.map(millis);
    settings.dead_letter_on_expiration = from.bury_expired;
    settings.max_size = from.max_size;
    settings.max_message_size = usize::try_from(from.max_message_size).unwrap();
    settings.requires_session = from.sessions;
    settings.duplicate_detection = from.window.map(millis);
    settings.max_duplicate_ids = from.max_ids;
    settings.partitioned = from.partitioned;
    settings.forward_to.clone_from(&from.forward_to);
    settings.forward_dead_letters_to.clone_from(&from.forward_dead_to);
    settings.auto_delete_on_idle = from.idle.map(millis);
    settings.status = from.status;
    settings
}

fn topic_settings(from: &Settings) -> TopicSettings {
    let mut settings = TopicSettings::default();
    settings.default_time_to_live = from.ttl.map(millis);
    settings.duplicate_detection = from.window.map(millis);
    settings.max_duplicate_ids = from.max_ids;
    settings.partitioned = from.partitioned;
    settings.max_size = from.max_size;
    settings.max_message_size = usize::try_from(from.max_message_size).unwrap();
    settings.auto_delete_on_idle = from.idle.map(millis);
    settings.status = from.status;
    settings
}

fn subscription_settings(from: &Settings) -> SubscriptionSettings {
    let mut settings = SubscriptionSettings::default();
    settings.lock_duration = millis(from.lock);
    settings.max_delivery_count = from.max_deliveries;
    settings.default_time_to_live = from.ttl.map(millis);
    settings.dead_letter_on_expiration = from.bury_expired;
    settings.dead_letter_on_filter_error = from.bury_filter_errors;
    settings.requires_session = from.sessions;
    settings.forward_to.clone_from(&from.forward_to);
    settings.forward_dead_letters_to.clone_from(&from.forward_dead_to);
    settings.auto_delete_on_idle = from.idle.map(millis);
    settings.status = from.status;
    settings
}
