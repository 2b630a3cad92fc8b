//! All messages by their sequence numbers, where no lane has them in this order.

use consign_core::{administration::QueueSettings, message::SequenceNumber};

use super::{Part, Store, sorted::Sorted};

/// The messages of an entity with sessions or partitions, by part. The second number tells apart two messages with the same
/// sequence number, which begins again at 0 one day.
#[derive(Debug, Default)]
pub(super) struct Index {
    parts: [Sorted<(SequenceNumber, u64)>; 3],
}

impl Index {
    pub(super) fn new(settings: &QueueSettings) -> Option<Box<Self>> {
        (settings.requires_session || settings.partitioned).then(Box::default)
    }

    /// Returns the first `max` messages from a number on that are selected, in order.
    pub(super) fn from(
        &self,
        part: Part,
        from: SequenceNumber,
        max: usize,
        is_wanted: impl Fn(u32) -> bool + Copy,
    ) -> impl Iterator<Item = u32> {
        self.parts[part as usize].from((from, 0), max, is_wanted)
    }

    pub(super) fn insert(&mut self, part: Part, sequence: SequenceNumber, order: u64, key: u32) {
        self.parts[part as usize].insert((sequence, order), key);
    }

    pub(super) fn remove(&mut self, part: Part, sequence: SequenceNumber, order: u64) {
        self.parts[part as usize].remove((sequence, order));
    }
}

impl Store {
    /// Sets the part of a message.
    pub(super) fn set_part(&mut self, key: u32, part: Part) {
        let entry = &mut self.entries[key as usize];
        let before = std::mem::replace(&mut entry.part, part);
        if let Some(index) = &mut self.index {
            index.remove(before, entry.sequence, entry.order);
            index.insert(part, entry.sequence, entry.order, key);
        }
    }
}
