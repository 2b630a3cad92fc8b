//! The metrics of a server.
//!
//! | metric | labels | value |
//! |---|---|---|
//! | `consign_entity_messages` | `entity`, `kind`, `state` | messages that are `active`, `locked`, `scheduled`, `deferred`, `dead_lettered` or `transfer_dead_lettered` |
//! | `consign_entity_oldest_seconds` | `entity`, `kind`, `state` | how long the first message has waited that can be received, `active` or `dead_lettered`; no series without one |
//! | `consign_entity_size_bytes` | `entity`, `kind` | bytes that count against the size of the entity |
//! | `consign_entity_arrived_total` | `entity`, `kind` | messages that became receivable |
//! | `consign_entity_delivered_total` | `entity`, `kind` | deliveries to receivers |
//! | `consign_entity_settled_total` | `entity`, `kind`, `outcome` | deliveries that were `completed`, `abandoned`, `deferred`, `dead_lettered` or `released` |
//! | `consign_entity_locks_lost_total` | `entity`, `kind` | locks that ended before a settlement |
//! | `consign_entity_expired_total` | `entity`, `kind` | messages that expired |
//! | `consign_entity_duplicates_total` | `entity`, `kind` | sends that duplicate detection dropped |
//! | `consign_entities` | | entities of the broker |
//! | `consign_entities_without_metrics` | | entities beyond [`Operations::max_entities`](super::Operations::max_entities) |
//! | `consign_store_commits_total` | | commits that changed the disk; not in memory |
//! | `consign_store_commit_seconds_total` | | how long these commits took, with the sync; not in memory |
//! | `consign_server_connections` | | open connections of AMQP and HTTP |
//!
//! Counters start at 0 with the process.

use std::fmt;

use consign_broker::{EntityStatistics, Totals};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};

use crate::Server;

/// The media type of [`Metrics::to_text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a server at one time.
#[derive(Debug)]
pub struct Metrics {
    entities: Vec<EntityStatistics>,
    omitted: usize,
    connections: usize,
    /// Commits, and how many seconds they took.
    store: Option<(u64, f64)>,
}

impl Metrics {
    /// Reads the metrics, with those of `max_entities` entities at most.
    #[must_use]
    pub fn of(server: &Server, max_entities: usize) -> Self {
        let broker = server.broker();
        let mut entities = broker.statistics();
        let omitted = entities.len().saturating_sub(max_entities);
        entities.truncate(max_entities);
        #[cfg(feature = "durable")]
        let store = broker.store_statistics().map(|store| (store.commits, store.commit_time.as_secs_f64()));
        #[cfg(not(feature = "durable"))]
        let store = None;
        Self { entities, omitted, connections: server.connections(), store }
    }

    /// Returns the metrics as text of `OpenMetrics`.
    #[must_use]
    pub fn to_text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

type Read<T> = fn(&EntityStatistics) -> T;
type Total = fn(&Totals) -> u64;

/// Messages by state.
const STATES: [(&str, Read<usize>); 6] = [
    ("active", |entity| entity.counts.active),
    ("locked", |entity| entity.counts.locked),
    ("scheduled", |entity| entity.counts.scheduled),
    ("deferred", |entity| entity.counts.deferred),
    ("dead_lettered", |entity| entity.counts.dead_lettered),
    ("transfer_dead_lettered", |entity| entity.counts.transfer_dead_lettered),
];

/// Settlements by outcome.
const OUTCOMES: [(&str, Total); 5] = [
    ("completed", |totals| totals.completed),
    ("abandoned", |totals| totals.abandoned),
    ("deferred", |totals| totals.deferred),
    ("dead_lettered", |totals| totals.dead_lettered),
    ("released", |totals| totals.released),
];

/// Counters of an entity without another label.
const COUNTERS: [(&str, &str, Total); 5] = [
    ("consign_entity_arrived", "Messages that became receivable", |totals| totals.arrived),
    ("consign_entity_delivered", "Deliveries to receivers", |totals| totals.delivered),
    ("consign_entity_locks_lost", "Locks that ended before a settlement", |totals| totals.locks_lost),
    ("consign_entity_expired", "Messages that expired", |totals| totals.expired),
    ("consign_entity_duplicates", "Sends that duplicate detection dropped", |totals| totals.duplicates),
];

fn of_entity(entity: &EntityStatistics) -> [(&'static str, &str); 2] {
    [("entity", entity.path.as_str()), ("kind", entity.kind.name())]
}

fn with<'e>(entity: &'e EntityStatistics, label: &'static str, value: &'static str) -> [(&'static str, &'e str); 3] {
    let [path, kind] = of_entity(entity);
    [path, kind, (label, value)]
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut messages =
            encoder.encode_descriptor("consign_entity_messages", "Messages by state", None, MetricType::Gauge)?;
        for entity in &self.entities {
            for (state, read) in STATES {
                messages.encode_family(&with(entity, "state", state))?.encode_gauge(&read(entity))?;
            }
        }
        let help = "How long the first message has waited that can be received";
        let mut oldest = encoder.encode_descriptor("consign_entity_oldest_seconds", help, None, MetricType::Gauge)?;
        for entity in &self.entities {
            for (state, age) in [("active", entity.oldest_active), ("dead_lettered", entity.oldest_dead_letter)] {
                if let Some(age) = age {
                    oldest.encode_family(&with(entity, "state", state))?.encode_gauge(&age.as_secs_f64())?;
                }
            }
        }
        let help = "Bytes that count against the size of the entity";
        let mut size = encoder.encode_descriptor("consign_entity_size_bytes", help, None, MetricType::Gauge)?;
        for entity in &self.entities {
            size.encode_family(&of_entity(entity))?.encode_gauge(&entity.counts.size)?;
        }
        for (name, help, read) in COUNTERS {
            let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for entity in &self.entities {
                let labels = of_entity(entity);
                counter.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&read(&entity.totals), None)?;
            }
        }
        let mut settled =
            encoder.encode_descriptor("consign_entity_settled", "Settlements by outcome", None, MetricType::Counter)?;
        for entity in &self.entities {
            for (outcome, read) in OUTCOMES {
                let labels = with(entity, "outcome", outcome);
                settled.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&read(&entity.totals), None)?;
            }
        }
        self.encode_server(encoder)
    }
}

impl Metrics {
    /// What is not of an entity.
    fn encode_server(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in [
            ("consign_entities", "Entities of the broker", self.entities.len() + self.omitted),
            ("consign_entities_without_metrics", "Entities beyond the limit of those with metrics", self.omitted),
            ("consign_server_connections", "Open connections of AMQP and HTTP", self.connections),
        ] {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        let Some((commits, seconds)) = self.store else { return Ok(()) };
        let help = "Commits that changed the disk";
        let mut counter = encoder.encode_descriptor("consign_store_commits", help, None, MetricType::Counter)?;
        counter.encode_counter::<NoLabelSet, _, u64>(&commits, None)?;
        let help = "How long the commits that changed the disk took";
        let mut counter = encoder.encode_descriptor("consign_store_commit_seconds", help, None, MetricType::Counter)?;
        counter.encode_counter::<NoLabelSet, _, u64>(&seconds, None)
    }
}
