//! What few messages have, in tables of their own, so that the entries of the others are small.

use consign_core::{message::SequenceNumber, time::Timestamp};

use super::{
    Entry, NEVER, Store, Ticks,
    entry::{EXPIRES, MOVED},
    sorted::place,
};

/// When a message expires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    pub(super) ticks: Ticks,
    /// The instant that is shown.
    pub(super) shown: Timestamp,
}

impl Expiry {
    pub(super) const NEVER: Self = Self { ticks: NEVER, shown: Timestamp::MAX };
}

/// By the keys of the entries. A table is as long as the last entry that has needed it.
#[derive(Debug, Default)]
pub(super) struct Asides {
    expiries: Vec<Expiry>,
    origins: Vec<SequenceNumber>,
}

impl Store {
    /// Returns when a message expires.
    #[inline]
    pub(super) fn expiry(&self, key: u32) -> Expiry {
        self.expiry_of(key, &self.entries[key as usize])
    }

    #[inline]
    pub(super) fn expiry_of(&self, key: u32, entry: &Entry) -> Expiry {
        if entry.marks & EXPIRES == 0 {
            return Expiry::NEVER;
        }
        self.asides.as_ref().map_or(Expiry::NEVER, |asides| asides.expiries[key as usize])
    }

    /// Returns the number at the entity that the message was first sent to.
    #[inline]
    pub(super) fn origin_of(&self, key: u32, entry: &Entry) -> SequenceNumber {
        if entry.marks & MOVED == 0 {
            return entry.sequence;
        }
        self.asides.as_ref().map_or(entry.sequence, |asides| asides.origins[key as usize])
    }

    pub(super) fn set_origin(&mut self, key: u32, origin: SequenceNumber) {
        let entry = &mut self.entries[key as usize];
        if origin != entry.sequence {
            entry.marks |= MOVED;
            put(&mut self.asides.get_or_insert_default().origins, key, origin, SequenceNumber::new(0));
        }
    }

    /// Makes a message expire, and returns whether it ever does.
    pub(super) fn set_expiry(&mut self, key: u32, expiry: Expiry) -> bool {
        let entry = &mut self.entries[key as usize];
        entry.marks |= EXPIRES;
        let order = entry.order;
        put(&mut self.asides.get_or_insert_default().expiries, key, expiry, Expiry::NEVER);
        if expiry.ticks != NEVER {
            self.expiries.insert(place(expiry.ticks, order), key);
        }
        expiry.ticks != NEVER
    }

    /// Makes a message expire no more.
    pub(super) fn clear_expiry(&mut self, key: u32) {
        let entry = &mut self.entries[key as usize];
        if entry.marks & EXPIRES != 0 {
            entry.marks &= !EXPIRES;
            let order = entry.order;
            self.forget_expiry(key, order);
        }
    }

    /// Removes the expiry of an entry that is gone. A function of its own, so that messages that do not expire skip it quickly.
    #[inline(never)]
    pub(super) fn forget_expiry(&mut self, key: u32, order: u64) {
        let Some(asides) = &self.asides else { return };
        let expires = asides.expiries[key as usize].ticks;
        if expires != NEVER {
            self.expiries.remove(place(expires, order));
        }
    }
}

fn put<T: Copy>(table: &mut Vec<T>, key: u32, value: T, none: T) {
    let at = key as usize;
    if table.len() <= at {
        table.resize(at + 1, none);
    }
    table[at] = value;
}
