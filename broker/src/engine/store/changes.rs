//! The changes since the last write to a disk. In a broker in memory nothing is noted.

use std::collections::BTreeSet;

#[cfg(feature = "durable")]
use super::KEPT;
use super::{Effects, Entry, Store, entry::AWAY};

/// It is among the changed entries.
pub(super) const CHANGED: u8 = 1;
/// A record of it is on the disk, or is being written.
pub(super) const WRITTEN: u8 = 2;
/// Its message is being fetched.
#[cfg(feature = "durable")]
pub(super) const WANTED: u8 = 8;
/// It has expired while it was on the disk only, and its message does not show that yet.
#[cfg(feature = "durable")]
pub(super) const EXPIRED: u8 = 16;
/// When a receiver takes it, those after it are to be fetched.
#[cfg(feature = "durable")]
pub(super) const LEADS: u8 = 32;

/// The changes of one entity that are to be written.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Whether the engine has listed the entity as changed.
    pub(super) is_listed: bool,
    /// Changed entries, by key. The place of a removed entry may be reused by now.
    pub(super) entries: Vec<u32>,
    /// The orders of written messages that are removed.
    pub(super) removed: Vec<u64>,
    /// Sessions whose state has changed.
    pub(super) sessions: BTreeSet<Box<str>>,
    /// Whether the settings or the rules have changed.
    pub(super) settings: bool,
    /// The order that the written counters have.
    #[cfg(feature = "durable")]
    pub(super) written_order: u64,
}

#[cfg(feature = "durable")]
impl Changes {
    /// Releases the memory of a burst.
    pub(super) fn give_back(&mut self) {
        self.entries.shrink_to(KEPT);
        self.removed.shrink_to(KEPT);
    }
}

impl Store {
    /// Records that an entry differs from its record on the disk.
    #[inline]
    pub(super) fn changed(&mut self, key: u32, fx: &mut Effects) {
        if fx.is_recorded() {
            self.note_changed(key, fx);
        }
    }

    /// Records a new message.
    #[inline]
    pub(super) fn stored(&mut self, key: u32, fx: &mut Effects) {
        if fx.is_recorded() {
            fx.resident += self.entries[key as usize].size();
            self.note_changed(key, fx);
        }
    }

    /// Records that a message was locked, renewed or unlocked. A lock in a session never survives the process.
    #[inline]
    pub(super) fn lock_changed(&mut self, key: u32, fx: &mut Effects) {
        if fx.records_locks() && !self.is_in_session(key) {
            self.note_changed(key, fx);
        }
    }

    /// Records that the size of a message has changed.
    #[inline]
    pub(super) fn resized(&mut self, before: u64, after: u64, fx: &mut Effects) {
        self.size = (self.size + after).saturating_sub(before);
        if fx.is_recorded() {
            fx.resident = (fx.resident + after).saturating_sub(before);
        }
    }

    pub(super) fn note_changed(&mut self, key: u32, fx: &mut Effects) {
        let entry = &mut self.entries[key as usize];
        if entry.marks & CHANGED == 0 {
            debug_assert_eq!(entry.marks & AWAY, 0, "what is away is as it was written");
            entry.marks |= CHANGED;
            fx.grow_unwritten(entry.size());
            self.changes.entries.push(key);
            self.list(fx);
        }
    }

    /// Records that a message is removed.
    #[inline]
    pub(super) fn gone(&mut self, entry: &Entry, fx: &mut Effects) {
        if fx.is_recorded() {
            if entry.marks & AWAY == 0 {
                fx.resident = fx.resident.saturating_sub(entry.size());
            }
            if entry.marks & WRITTEN != 0 {
                self.changes.removed.push(entry.order);
                self.list(fx);
            }
        }
    }

    /// Records that the state of a session has changed, and by how many bytes the batch grows with it.
    pub(super) fn session_changed(&mut self, id: Box<str>, written: u64, fx: &mut Effects) {
        self.changes.sessions.insert(id);
        fx.grow_unwritten(written);
        self.list(fx);
    }

    /// Records that the entity is new, or has other settings or rules.
    pub(in super::super) fn settings_changed(&mut self, fx: &mut Effects) {
        if fx.is_recorded() {
            self.changes.settings = true;
            self.list(fx);
        }
    }

    /// Records that a number was assigned to a message that is not stored here.
    #[inline]
    pub(in super::super) fn counters_changed(&mut self, fx: &mut Effects) {
        if fx.is_recorded() {
            self.list(fx);
        }
    }

    fn list(&mut self, fx: &mut Effects) {
        if !std::mem::replace(&mut self.changes.is_listed, true) {
            fx.note().changed.push(self.id);
        }
    }
}
