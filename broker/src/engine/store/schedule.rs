use consign_core::{
    message::{SequenceNumber, Stored},
    transport::{ErrorKind, SendError},
};
use slab::Slab;

use super::{
    Arrival, Effects, Entry, Id, Number, Place, Store, Ticks,
    sorted::{Sorted, place},
};

/// The scheduled messages of an entity.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    pub(super) by_number: Sorted<SequenceNumber>,
    /// By [`place`].
    due: Sorted<u128>,
}

impl Scheduled {
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    /// Returns the next message that is due, and when.
    pub(super) fn first(&self, entries: &Slab<Entry>) -> Option<(Ticks, u32)> {
        self.due.first().map(|key| (entries[key as usize].locked_until, key))
    }
}

impl Store {
    /// Stores a numbered message until it is due.
    pub(in super::super) fn schedule(
        &mut self,
        due: Ticks,
        arrival: Arrival,
        number: Number,
        id: Option<Id>,
        fx: &mut Effects,
    ) {
        let key = self.store(arrival, number, fx);
        self.await_due(key, due, fx);
        if let Some((duplicates, id)) = self.duplicates.as_mut().zip(id) {
            duplicates.record_scheduled(id, number.sequence);
        }
    }

    /// Adds a message that is in no index to the scheduled ones.
    pub(super) fn await_due(&mut self, key: u32, due: Ticks, fx: &mut Effects) {
        let entry = &mut self.entries[key as usize];
        entry.place = Place::Scheduled;
        entry.locked_until = due;
        self.scheduled.by_number.insert(entry.sequence, key);
        self.scheduled.due.insert(place(due, entry.order), key);
        self.arm(due, fx);
    }

    /// Removes scheduled messages: all of them, or none.
    pub(in super::super) fn cancel(&mut self, numbers: &[SequenceNumber], fx: &mut Effects) -> Result<(), SendError> {
        let mut keys = Vec::with_capacity(numbers.len());
        for &number in numbers {
            match self.scheduled.by_number.remove(number) {
                Some(key) => keys.push(key),
                None if self.quirks.race_like_hosted => {}
                None => {
                    for key in keys {
                        self.scheduled.by_number.insert(self.entries[key as usize].sequence, key);
                    }
                    let detail = format!("{number} is not scheduled here");
                    return Err(SendError::new(ErrorKind::MessageNotFound).with_detail(detail));
                }
            }
        }
        for key in keys {
            let removed = self.remove_scheduled(key, fx);
            fx.note().dropped.push(removed.message);
        }
        // The last of them may have kept an idle entity.
        self.arm_next(fx);
        Ok(())
    }

    /// Removes the first message that is due, which enters again as if it were sent.
    pub(super) fn take_due(&mut self, fx: &mut Effects) -> Option<Arrival> {
        let key = self.scheduled.due.first()?;
        self.scheduled.by_number.remove(self.entries[key as usize].sequence);
        Some(self.remove_scheduled(key, fx))
    }

    /// Removes a scheduled message that is no longer among the numbers.
    fn remove_scheduled(&mut self, key: u32, fx: &mut Effects) -> Arrival {
        let entry = &self.entries[key as usize];
        let origin = (entry.hops() > 0).then(|| self.origin_of(key, entry));
        let entry = self.take_entry(key, fx);
        self.size -= entry.size();
        self.scheduled.due.remove(place(entry.locked_until, entry.order));
        self.forget_scheduled_id(entry.sequence, &entry.message);
        let (size, hops) = (entry.size(), entry.hops());
        Arrival { message: entry.message, size, origin, hops }
    }

    fn forget_scheduled_id(&mut self, number: SequenceNumber, message: &Stored) {
        let partitioned = self.settings.partitioned;
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.forget_scheduled(number, message.properties(), partitioned);
        }
    }
}

#[cfg(test)]
mod tests {
    use consign_core::{Message, administration::QueueSettings, time::Timestamp};

    use super::{
        super::{Now, StoreId},
        *,
    };
    use crate::Quirks;

    #[test]
    fn a_cancel_that_is_refused_leaves_everything() {
        let now = Now { ticks: 0, utc: Timestamp::EPOCH };
        let mut fx = Effects::default();
        let mut store = Store::new(StoreId { serial: 1, index: 0 }, QueueSettings::default(), now, Quirks::default());
        let numbers = [5, 3, 4].map(|due| {
            let arrival = Arrival::new(Stored::new(Message::new("")));
            let number = store.number(now, &arrival.message);
            store.schedule(due, arrival, number, None, &mut fx);
            number.sequence
        });
        let [first, second, third] = numbers;
        store.cancel(&[first, second, first], &mut fx).unwrap_err();
        store.cancel(&[third, second, SequenceNumber::new(9)], &mut fx).unwrap_err();
        assert_eq!((store.scheduled.len(), fx.note().dropped.len()), (3, 0));
        store.cancel(&[second], &mut fx).unwrap();
        assert_eq!(store.scheduled.first(&store.entries).map(|(due, _)| due), Some(4));
        store.cancel(&[third, first], &mut fx).unwrap();
        assert_eq!((store.scheduled.len(), fx.note().dropped.len()), (0, 3));
    }
}
