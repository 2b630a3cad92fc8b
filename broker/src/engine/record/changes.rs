use std::sync::{Arc, atomic::AtomicI64};

use consign_core::{
    message::{Field, InvalidArgument, Problem, Stored},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

use super::{BrokerRecord, EntityKind, EntityRecord, Gone, MAX_DEPTH, RecordSink, can_be_stored};
use crate::engine::{
    Change, Engine, Entity, Role, StoreId,
    effects::{Space, Wanted},
    entity_mut,
    space::{FULL, Lack, MAX_UNWRITTEN},
    time::Now,
};

/// The identity of a broker's store, whatever its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// A random name.
    pub(crate) store: [u8; 16],
    pub(crate) created: Timestamp,
}

impl Engine {
    /// Sets how many milliseconds the broker's clock is ahead of the one that users see.
    pub(crate) fn set_ahead(&mut self, ahead: Arc<AtomicI64>) {
        self.fx.ahead = ahead;
    }

    /// Sets whether the disk is full: sends are refused meanwhile.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.fx.set_full(is_full);
    }

    pub(in crate::engine) fn check_storable(&self, message: &Stored) -> Result<(), SendError> {
        if !self.fx.has_space() {
            return Err(SendError::new(ErrorKind::QuotaExceeded).with_detail(FULL));
        }
        if !can_be_stored(message) {
            let problem = Problem::TooDeep { limit: MAX_DEPTH };
            return Err(InvalidArgument::new(Field::Message, problem).into());
        }
        Ok(())
    }

    /// Whether so many bytes more may wait for the disk. None always may.
    #[inline]
    pub(in crate::engine) fn check_unwritten(&self, bytes: u64) -> Result<(), SendError> {
        let lack = |Lack { kind, detail }| SendError::new(kind).with_detail(detail);
        self.fx.check_unwritten(bytes).map_err(lack)
    }

    /// Sets how many bytes the disk has space for, while no batch is being written.
    pub(crate) fn set_space(&mut self, now: Now, space: u64) {
        let most = space.min(MAX_UNWRITTEN);
        self.fx.space = Space { most, left: most };
        self.go_on(now);
    }

    /// Begins the batch after the one that was taken, which is yet to be written where there is space for `space` bytes.
    pub(crate) fn begin_batch(&mut self, now: Now, space: u64) {
        let taken = std::mem::take(&mut self.fx.unwritten);
        self.fx.space = Space { most: space.min(MAX_UNWRITTEN), left: space.saturating_sub(taken).min(MAX_UNWRITTEN) };
        self.go_on(now);
    }

    /// Whether there is anything to take.
    pub(crate) fn has_changes(&mut self) -> bool {
        !self.fx.note().changed.is_empty()
    }

    /// Whether there are so many changes that they are written without delay.
    pub(crate) fn has_many_changes(&self) -> bool {
        self.fx.has_many_unwritten()
    }

    /// Passes to `sink` the changes since the last call. With `stamp` the time is written although nothing has
    /// changed. Returns what may leave memory once they are committed.
    pub(crate) fn take_changes(
        &mut self,
        now: Now,
        identity: Identity,
        sink: &mut impl RecordSink,
        stamp: bool,
    ) -> Vec<Wanted> {
        let notes = self.fx.note();
        let (changed, gone) = (std::mem::take(&mut notes.changed), std::mem::take(&mut notes.gone));
        if changed.is_empty() && !stamp {
            return Vec::new();
        }
        for gone in gone {
            gone.remove(sink);
        }
        for id in changed {
            let Some(entity) = entity_mut(&mut self.entities, id) else { continue };
            if entity.store.take_settings_changed() {
                let record = entity.record();
                sink.put_entity(id.serial, &record);
            }
            entity.store.write_changes(now, sink, &mut self.fx);
        }
        let Identity { store, created } = identity;
        let record = BrokerRecord { store, created, last_serial: self.last_serial, latest: now.utc };
        sink.put_broker(&record);
        std::mem::take(&mut self.fx.note().written)
    }

    /// Sets how many bytes of messages are kept in memory before others leave it.
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.fx.budget = budget;
    }

    /// Returns the bytes of the messages in memory, and how many messages wait to leave it.
    #[cfg(test)]
    pub(crate) fn in_memory(&mut self) -> (u64, usize) {
        (self.fx.resident, self.fx.note().dropped.len())
    }

    /// Removes messages that are on the disk unchanged from memory, while there are too many in it.
    pub(crate) fn page_out(&mut self, written: &[Wanted]) {
        for &Wanted { store, key, order } in written {
            if self.fx.resident <= self.fx.budget {
                break;
            }
            if let Some(entity) = entity_mut(&mut self.entities, store) {
                entity.store.page_out(key, order, &mut self.fx);
            }
        }
    }

    /// Returns some expired messages whose records do not yet show the expiry, from this order on. They are to become
    /// dead letters before a change of settings after which they would not. A later process would treat them as
    /// messages that expire then.
    pub(crate) fn unsaid(&mut self, now: Now, id: StoreId, to: &Change, from: u64) -> Vec<Wanted> {
        if to.of_store().dead_letter_on_expiration {
            return Vec::new();
        }
        self.advance(now);
        // A message that is deleted meanwhile needs no such record.
        self.entity(id).map_or_else(Vec::new, |entity| entity.store.unsaid(from))
    }

    /// Returns the messages to be fetched.
    pub(crate) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.fx.note().wanted)
    }

    /// Takes messages that were fetched, or not found. Returns one that should have been found.
    pub(crate) fn page_in(&mut self, now: Now, fetched: Vec<(Wanted, Option<Stored>)>) -> Option<Wanted> {
        self.advance(now);
        let mut missing = None;
        for (wanted, message) in fetched {
            if let Some(entity) = entity_mut(&mut self.entities, wanted.store)
                && !entity.store.page_in(wanted.key, wanted.order, message, &mut self.fx)
            {
                missing = Some(wanted);
            }
        }
        self.finish(now);
        missing
    }
}

impl Entity {
    fn record(&self) -> EntityRecord {
        let kind = match &self.role {
            Role::Queue => EntityKind::Queue(self.store.settings().clone()),
            Role::Topic(topic) => EntityKind::Topic(topic.settings.clone()),
            Role::Subscription(subscription) => EntityKind::Subscription {
                settings: subscription.settings.clone(),
                topic: subscription.topic.serial,
                rules: Box::new(subscription.rules.clone()),
            },
        };
        EntityRecord { path: self.path.clone(), kind, secret: self.store.secret() }
    }
}

impl Gone {
    fn remove(self, sink: &mut impl RecordSink) {
        let Self { serial, messages, sessions, ids } = self;
        for order in messages {
            sink.remove_message(serial, order);
        }
        for id in sessions {
            sink.remove_session(serial, &id);
        }
        for number in ids {
            sink.remove_id(serial, number);
        }
        sink.remove_entity(serial);
    }
}
