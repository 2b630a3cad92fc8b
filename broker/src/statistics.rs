use std::time::Duration;

use consign_core::{
    administration::{Counts, EntityKind},
    message::EntityPath,
    time::Timestamp,
};

use crate::{Broker, Totals};

/// The counters of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityStatistics {
    /// Its path.
    pub path: EntityPath,
    /// Its kind.
    pub kind: EntityKind,
    /// Its messages, by state.
    pub counts: Counts,
    /// What has happened to its messages.
    pub totals: Totals,
    /// How long the first message that can be received has waited.
    pub oldest_active: Option<Duration>,
    /// The time since the first dead letter that can be received was enqueued, as a message.
    pub oldest_dead_letter: Option<Duration>,
}

/// The commits of a store.
#[cfg(feature = "durable")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// Commits that changed the disk since the store was opened.
    pub commits: u64,
    /// How long all of them took: the write and the sync, and the wait for space on a full disk.
    pub commit_time: Duration,
}

impl Broker {
    /// Returns the counters of all entities, in the order of their paths, in one step. It visits no message, so it can be
    /// called every second.
    ///
    /// ```
    /// use consign::{Message, administration::QueueSettings, broker::Broker, transport::Sender};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let broker = Broker::new();
    /// let queue = broker.create_queue("orders", QueueSettings::default())?;
    /// queue.sender()?.send(Message::new("one order")).await?;
    /// let [orders] = &broker.statistics()[..] else { panic!("one entity") };
    /// assert_eq!((orders.totals.arrived, orders.counts.active), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn statistics(&self) -> Vec<EntityStatistics> {
        let now = self.shared.now();
        let found = self.shared.with(|state| state.engine.statistics(now));
        let age = |at: Option<Timestamp>| at.map(|at| now.utc.saturating_since(at));
        let entities = found.into_iter().map(|entity| EntityStatistics {
            path: entity.path,
            kind: entity.kind,
            counts: entity.counts,
            totals: entity.totals,
            oldest_active: age(entity.first_active),
            oldest_dead_letter: age(entity.first_dead),
        });
        entities.collect()
    }

    /// Returns the commits of the store; `None` in memory.
    #[cfg(feature = "durable")]
    #[cfg_attr(docsrs, doc(cfg(feature = "durable")))]
    #[must_use]
    pub fn store_statistics(&self) -> Option<StoreStatistics> {
        let (commits, commit_time) = self.shared.recorder()?.counted();
        Some(StoreStatistics { commits, commit_time })
    }

    /// Returns whether the broker answers calls: not after it was closed, after its disk failed, or after a panic in it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.check_open::<consign_core::transport::ManageError>().is_ok()
    }
}
