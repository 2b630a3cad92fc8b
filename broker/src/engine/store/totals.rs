use consign_core::time::Timestamp;

use super::{FIXED_LANES, PARTITIONS, Part, Store};

/// Counts what has happened to the messages of an entity, in all its parts, since the process created or opened it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Messages that became receivable: sends, copies of a topic, forwarded and due scheduled messages. On a topic, messages
    /// that were copied to its subscriptions.
    pub arrived: u64,
    /// Deliveries to receivers, in both modes.
    pub delivered: u64,
    /// Deliveries that were completed.
    pub completed: u64,
    /// Deliveries that were abandoned.
    pub abandoned: u64,
    /// Deliveries that were deferred.
    pub deferred: u64,
    /// Deliveries that their receiver dead-lettered.
    pub dead_lettered: u64,
    /// Locks that were released without counting the delivery.
    pub released: u64,
    /// Locks of messages, and of sessions, that ended before a settlement.
    pub locks_lost: u64,
    /// Messages that expired.
    pub expired: u64,
    /// Sends that duplicate detection dropped.
    pub duplicates: u64,
}

impl Store {
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Counts a message that a topic has copied to its subscriptions.
    pub(in super::super) fn count_copied(&mut self) {
        self.totals.arrived += 1;
    }

    pub(in super::super) fn count_duplicate(&mut self) {
        self.totals.duplicates += 1;
    }

    /// Returns the enqueued time of the first message that can be received. Visits every partition or locked session once, and
    /// no message.
    pub(crate) fn first_enqueued(&mut self, part: Part) -> Option<Timestamp> {
        let lanes: Vec<u32> = match &self.sessions {
            Some(sessions) if part == Part::Main => sessions.first_lanes().collect(),
            None if part == Part::Main && self.settings.partitioned => {
                (FIXED_LANES..FIXED_LANES + u32::from(PARTITIONS)).collect()
            }
            _ => vec![part.lane()],
        };
        let Self { lanes: all, entries, .. } = self;
        let first = lanes.into_iter().filter_map(|lane| {
            let (_, key) = all.get_mut(lane as usize)?.ready.first(entries, lane)?;
            entries.get(key as usize).map(|entry| entry.enqueued)
        });
        first.min()
    }
}
