use std::{fmt, time::Duration};

use consign_core::{
    administration::EntityKind,
    time::{Timestamp, as_millis},
};
use serde::Serialize;

use super::Broker;

/// The contents of a broker, entity by entity, at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BrokerSnapshot {
    /// When it was taken, by the broker's clock, in milliseconds since 1970.
    #[serde(serialize_with = "timestamp", rename = "taken_at_ms")]
    pub taken_at: Timestamp,
    /// The entities, in the order of their paths.
    pub entities: Vec<EntitySnapshot>,
}

/// The contents of one entity: messages by state, and the age of the oldest of them.
///
/// A topic has scheduled messages only, and its size includes that of its subscriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EntitySnapshot {
    /// Its path.
    pub path: String,
    /// `queue`, `topic` or `subscription`.
    pub kind: &'static str,
    /// Messages that can be received.
    pub active: usize,
    /// Messages that a receiver holds.
    pub locked: usize,
    /// Messages that can only be received by their sequence number.
    pub deferred: usize,
    /// Messages that wait for their enqueue time.
    pub scheduled: usize,
    /// Messages in the dead-letter sub-queue, in any state.
    pub dead_lettered: usize,
    /// Messages in the transfer dead-letter sub-queue, in any state.
    pub transfer_dead_lettered: usize,
    /// Bytes that count against the size of the entity.
    pub size: u64,
    /// The maximum of `size`. `None` for a subscription, which counts against its topic.
    pub max_size: Option<u64>,
    /// How long the oldest message that can be received has waited.
    #[serde(serialize_with = "as_millis::some", rename = "oldest_active_ms")]
    pub oldest_active: Option<Duration>,
    /// How long the oldest deferred message has waited.
    #[serde(serialize_with = "as_millis::some", rename = "oldest_deferred_ms")]
    pub oldest_deferred: Option<Duration>,
    /// The time since the oldest dead letter was enqueued, as a message.
    #[serde(serialize_with = "as_millis::some", rename = "oldest_dead_letter_ms")]
    pub oldest_dead_letter: Option<Duration>,
    /// The time until the next scheduled message becomes active.
    #[serde(serialize_with = "as_millis::some", rename = "next_scheduled_ms")]
    pub next_scheduled: Option<Duration>,
}

impl Broker {
    /// Returns the contents of all entities, in one step. Visits every message once for its age, while other calls
    /// wait: call it every few seconds, and not in a loop.
    ///
    /// ```
    /// use consign::{Message, administration::QueueSettings, broker::Broker, transport::Sender};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let broker = Broker::new();
    /// let queue = broker.create_queue("orders", QueueSettings::default())?;
    /// queue.sender()?.send(Message::new("one order")).await?;
    /// let snapshot = broker.snapshot();
    /// assert_eq!((&*snapshot.entities[0].path, snapshot.entities[0].active), ("orders", 1));
    /// println!("{snapshot}");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> BrokerSnapshot {
        let now = self.shared.now();
        let found = self.shared.with(|state| state.engine.snapshot(now));
        let taken_at = now.utc;
        let entities = found.into_iter().map(|(path, kind, counts, ages, max_size)| {
            let since = |at: Option<Timestamp>| at.map(|at| taken_at.saturating_since(at));
            EntitySnapshot {
                path: path.to_string(),
                kind: match kind {
                    EntityKind::Queue => "queue",
                    EntityKind::Topic => "topic",
                    EntityKind::Subscription => "subscription",
                },
                active: counts.active,
                locked: counts.locked,
                deferred: counts.deferred,
                scheduled: counts.scheduled,
                dead_lettered: counts.dead_lettered,
                transfer_dead_lettered: counts.transfer_dead_lettered,
                size: counts.size,
                max_size: (kind != EntityKind::Subscription).then_some(max_size),
                oldest_active: since(ages.active),
                oldest_deferred: since(ages.deferred),
                oldest_dead_letter: since(ages.dead_lettered),
                next_scheduled: ages.next_scheduled.map(|at| at.saturating_since(taken_at)),
            }
        });
        BrokerSnapshot { taken_at, entities: entities.collect() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn timestamp<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(at.as_millis())
}

/// One line for each entity.
impl fmt::Display for BrokerSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.taken_at)?;
        self.entities.iter().try_for_each(|entity| write!(f, "\n{entity}"))
    }
}

/// One line.
impl fmt::Display for EntitySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = |age: Option<Duration>| age.map_or_else(String::new, |age| format!(" (oldest {age:?})"));
        write!(f, "{} {}: {} active{}", self.kind, self.path, self.active, age(self.oldest_active))?;
        write!(f, ", {} locked", self.locked)?;
        write!(f, ", {} deferred{}", self.deferred, age(self.oldest_deferred))?;
        write!(f, ", {} scheduled", self.scheduled)?;
        if let Some(next) = self.next_scheduled {
            write!(f, " (next in {next:?})")?;
        }
        write!(f, ", {} dead-lettered{}", self.dead_lettered, age(self.oldest_dead_letter))?;
        write!(f, ", {} in transfer", self.transfer_dead_lettered)?;
        match self.max_size {
            Some(max_size) => write!(f, ", {} of {max_size} bytes", self.size),
            None => write!(f, ", {} bytes", self.size),
        }
    }
}
