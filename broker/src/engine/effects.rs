use std::ops::RangeInclusive;
#[cfg(feature = "durable")]
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use consign_core::{message::Stored, time::Timestamp};

use super::{
    Entity,
    ids::{Part, StoreId},
    notice::Notice,
    time::Ticks,
};
use crate::panics;

/// A line in which receivers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Line {
    /// For messages of one part of an entity.
    Messages(StoreId, Part),
    /// For any session of an entity.
    Sessions(StoreId),
    /// For messages of the session that has this lane.
    Session(StoreId, u32),
}

impl Line {
    /// The lines of an entity, as the ranges of each kind.
    pub(crate) fn all(store: StoreId) -> [RangeInclusive<Self>; 3] {
        [
            Self::Messages(store, Part::Main)..=Self::Messages(store, Part::TransferDeadLetter),
            Self::Sessions(store)..=Self::Sessions(store),
            Self::Session(store, 0)..=Self::Session(store, u32::MAX),
        ]
    }

    pub(crate) fn store(self) -> StoreId {
        match self {
            Self::Messages(store, _) | Self::Sessions(store) | Self::Session(store, _) => store,
        }
    }
}

/// The effects of a command that its caller applies.
#[derive(Debug, Default)]
#[cfg_attr(feature = "durable", expect(clippy::struct_excessive_bools, reason = "each is read on its own"))]
pub(crate) struct Effects {
    /// Locks are numbered over all entities. A lease of an earlier delivery, or of a deleted entity, therefore never
    /// matches a current lock.
    last_lock: u64,
    /// Whether there may be a note. Most commands leave none, and their callers check nothing but this.
    is_noted: bool,
    /// Whether changes are noted for a disk.
    is_recorded: bool,
    /// Whether locks are changes too.
    #[cfg(feature = "durable")]
    records_locks: bool,
    /// Whether the disk is full.
    #[cfg(feature = "durable")]
    is_full: bool,
    /// Bytes of the messages that are in memory, where others are on the disk only.
    pub(super) resident: u64,
    /// Bytes of the messages that have changed since they were last taken to be written.
    #[cfg(feature = "durable")]
    pub(super) unwritten: u64,
    /// Bytes of messages that one batch may have, and what is left of them beside the batch that is being written.
    #[cfg(feature = "durable")]
    pub(super) space: Space,
    /// The bytes of messages that may be in memory before some leave it.
    #[cfg(feature = "durable")]
    pub(super) budget: u64,
    /// How many milliseconds the broker's clock is ahead of the one that users see.
    #[cfg(feature = "durable")]
    pub(super) ahead: Arc<AtomicI64>,
    notes: Notes,
}

/// How much may wait for the disk.
#[derive(Clone, Copy, Debug, Default)]
#[cfg(feature = "durable")]
pub(super) struct Space {
    pub(super) most: u64,
    pub(super) left: u64,
}

/// A message whose entry is in memory, by its place and its order, as the place may be reused by now.
#[derive(Clone, Copy, Debug)]
#[cfg(feature = "durable")]
pub(crate) struct Wanted {
    pub(crate) store: StoreId,
    pub(crate) key: u32,
    pub(crate) order: u64,
}

/// The effects of commands, by kind.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// One line for each item that its receivers may take, where any receiver waits.
    pub(crate) arrivals: Vec<Line>,
    /// Deleted entities: the receivers that wait there have to return.
    pub(crate) closed: Vec<StoreId>,
    /// Removed messages. The user may own the bytes of a body, and their drop runs the user's code, so they are
    /// dropped where no lock is held.
    pub(crate) dropped: Vec<Stored>,
    /// What is to be logged where no lock is held.
    pub(super) notices: Vec<Notice>,
    /// Removed entities, with their messages, the states of their sessions and the values in their rules.
    pub(super) removed: Vec<Entity>,
    /// Instants at which the engine checks an entity.
    pub(super) due: Vec<(Ticks, StoreId)>,
    /// Entities whose state on the disk is out of date.
    pub(crate) changed: Vec<StoreId>,
    /// Messages that are to be fetched from the disk.
    #[cfg(feature = "durable")]
    pub(super) wanted: Vec<Wanted>,
    /// Messages that were written, and may leave memory when they are on the disk.
    #[cfg(feature = "durable")]
    pub(super) written: Vec<Wanted>,
    /// Deleted entities that may still have records on the disk.
    #[cfg(feature = "durable")]
    pub(super) gone: Vec<super::record::Gone>,
    /// Messages to be forwarded to another entity.
    pub(super) leaving: Vec<(StoreId, u32)>,
}

impl Effects {
    #[inline]
    pub(super) fn next_lock(&mut self) -> u64 {
        self.last_lock += 1;
        self.last_lock
    }

    /// Enables the noting of changes, and of locks if these survive the process.
    #[cfg(feature = "durable")]
    pub(super) fn record(&mut self, locks: bool, most: u64) {
        self.space = Space { most, left: most };
        (self.is_recorded, self.records_locks) = (true, locks);
    }

    /// Returns the instant on the broker's clock at which the clock that users see shows `at`.
    #[inline]
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    pub(super) fn on_broker_clock(&self, at: Timestamp) -> Timestamp {
        #[cfg(feature = "durable")]
        let at = Timestamp::from_millis(at.as_millis().saturating_add(self.ahead.load(Ordering::Relaxed)));
        at
    }

    #[cfg(feature = "durable")]
    pub(super) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Adds bytes that are to be written. Callers check them only when something is noted.
    #[inline]
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    pub(super) fn grow_unwritten(&mut self, bytes: u64) {
        let _ = bytes;
        #[cfg(feature = "durable")]
        {
            self.unwritten += bytes;
            self.is_noted |= self.has_many_unwritten();
        }
    }

    /// Whether there is so much to write that it is written without delay: it is in memory, and again in the batch.
    #[cfg(feature = "durable")]
    #[inline]
    pub(super) fn has_many_unwritten(&self) -> bool {
        const MANY: u64 = 8 << 20;
        self.unwritten >= MANY
    }

    /// Whether so much waits for the disk that automatic changes wait too. A batch has at least one of them.
    #[cfg(feature = "durable")]
    pub(super) fn has_enough_unwritten(&self) -> bool {
        self.unwritten > 0 && self.unwritten >= self.space.left
    }

    /// Whether there is space for more, if there is a disk.
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    pub(super) fn has_space(&self) -> bool {
        #[cfg(feature = "durable")]
        if self.is_full {
            return false;
        }
        true
    }

    #[inline]
    #[cfg_attr(not(feature = "durable"), allow(clippy::unused_self, reason = "as it is where there may be a disk"))]
    pub(super) fn records_locks(&self) -> bool {
        #[cfg(feature = "durable")]
        if self.records_locks {
            return true;
        }
        false
    }

    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        cfg!(feature = "durable") && self.is_recorded
    }

    /// Returns the notes, to add an effect.
    #[inline]
    pub(super) fn note(&mut self) -> &mut Notes {
        self.is_noted = true;
        &mut self.notes
    }

    #[inline]
    pub(super) fn is_noted(&self) -> bool {
        self.is_noted
    }

    /// Returns removed messages and entities, if there are any. They are the last of the notes that a caller takes.
    #[inline]
    pub(super) fn take_dropped(&mut self) -> Option<Dropped> {
        let Notes { due, leaving, dropped, removed, notices, .. } = &mut self.notes;
        self.is_noted = !due.is_empty() || !leaving.is_empty();
        if dropped.is_empty() && removed.is_empty() && notices.is_empty() {
            return None;
        }
        Some(Dropped {
            messages: std::mem::take(dropped),
            entities: std::mem::take(removed),
            notices: std::mem::take(notices),
        })
    }
}

/// Removed messages and entities, to be dropped where no lock is held, and what is to be logged there.
#[must_use]
pub(crate) struct Dropped {
    messages: Vec<Stored>,
    entities: Vec<Entity>,
    notices: Vec<Notice>,
}

impl Dropped {
    /// Drops and logs them. The user may own the bytes of a body, and their drop may panic.
    #[inline]
    pub(crate) fn release(self) {
        let Self { messages, entities, notices } = self;
        notices.iter().for_each(Notice::log);
        panics::release_all(messages);
        if entities.capacity() > 0 {
            panics::release_all(entities);
        }
    }
}
