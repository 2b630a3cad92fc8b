use std::collections::{BTreeMap, BTreeSet};

use super::{Arrival, Effects, Id, Number, Place, Store, Ticks};
use crate::{
    message::{SequenceNumber, Stored},
    transport::{ErrorKind, SendError},
};

/// The messages of an entity that wait for their time.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    by_number: BTreeMap<SequenceNumber, (Ticks, u32)>,
    /// Of those due at the same instant, the one that was accepted first comes first.
    due: BTreeSet<(Ticks, u64, u32)>,
}

impl Scheduled {
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    pub(super) fn first(&self) -> Option<(Ticks, u32)> {
        self.due.first().map(|&(due, _, key)| (due, key))
    }

    /// From number `from` on.
    pub(super) fn from(&self, from: SequenceNumber) -> impl Iterator<Item = u32> {
        self.by_number.range(from..).map(|(_, &(_, key))| key)
    }
}

impl Store {
    /// Stores a message that was numbered until it is due.
    pub(in super::super) fn schedule(
        &mut self,
        due: Ticks,
        arrival: Arrival,
        number: Number,
        id: Option<Id>,
        fx: &mut Effects,
    ) {
        let key = self.store(arrival, number);
        self.entries[key as usize].place = Place::Scheduled;
        self.scheduled.by_number.insert(number.sequence, (due, key));
        self.scheduled.due.insert((due, number.order, key));
        if let Some((duplicates, id)) = self.duplicates.as_mut().zip(id) {
            duplicates.record_scheduled(id, number.sequence);
        }
        self.arm(due, fx);
    }

    /// Removes scheduled messages: all of them, or none.
    pub(in super::super) fn cancel(&mut self, numbers: &[SequenceNumber], fx: &mut Effects) -> Result<(), SendError> {
        let mut asked = BTreeSet::new();
        for number in numbers {
            let is_there = self.scheduled.by_number.contains_key(number) || self.quirks.race_like_hosted;
            if !is_there || !asked.insert(number) {
                let detail = format!("{number} is not scheduled here");
                return Err(SendError::new(ErrorKind::MessageNotFound).with_detail(detail));
            }
        }
        for &number in numbers {
            if let Some((_, key)) = self.scheduled.by_number.get(&number).copied() {
                let removed = self.remove_scheduled(key);
                fx.dropped.push(removed.message);
            }
        }
        // The last of them may have kept an idle entity.
        self.arm_next(fx);
        Ok(())
    }

    /// Takes the first message that is due, which enters again as if it were sent.
    pub(super) fn take_due(&mut self) -> Option<Arrival> {
        let (_, key) = self.scheduled.first()?;
        Some(self.remove_scheduled(key))
    }

    fn remove_scheduled(&mut self, key: u32) -> Arrival {
        let entry = self.entries.remove(key as usize);
        self.size -= entry.size;
        if let Some((due, _)) = self.scheduled.by_number.remove(&entry.sequence) {
            self.scheduled.due.remove(&(due, entry.order, key));
        }
        self.forget_scheduled_id(entry.sequence, &entry.message);
        let origin = (entry.hops > 0).then_some(entry.origin);
        Arrival { message: entry.message, size: entry.size, origin, hops: entry.hops }
    }

    fn forget_scheduled_id(&mut self, number: SequenceNumber, message: &Stored) {
        let partitioned = self.settings.partitioned;
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.forget_scheduled(number, message.properties(), partitioned);
        }
    }
}
