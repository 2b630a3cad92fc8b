use slab::Slab;

use super::entry::{Entry, NIL, Ticks};

/// The locks that end together with nothing else than their own time, or with one session. The list is threaded through
/// the entries, in order of their ends. All locks of an entity last equally long, so that a new one mostly goes to the back.
#[derive(Debug)]
pub(super) struct Locks {
    first: u32,
    last: u32,
}

impl Default for Locks {
    fn default() -> Self {
        Self { first: NIL, last: NIL }
    }
}

impl Locks {
    #[inline]
    pub(super) fn push(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let until = entries[key as usize].locked_until;
        let mut previous = self.last;
        // A call that reads the clock earlier than another may come after it.
        while let Some(later) = entries.get(previous as usize).filter(|entry| entry.locked_until > until) {
            previous = later.previous;
        }
        let next = match entries.get_mut(previous as usize) {
            Some(previous) => std::mem::replace(&mut previous.next, key),
            None => std::mem::replace(&mut self.first, key),
        };
        match entries.get_mut(next as usize) {
            Some(next) => next.previous = key,
            None => self.last = key,
        }
        let entry = &mut entries[key as usize];
        (entry.previous, entry.next) = (previous, next);
    }

    #[inline]
    pub(super) fn remove(&mut self, entries: &mut Slab<Entry>, key: u32) {
        let entry = &mut entries[key as usize];
        let (previous, next) = (entry.previous, entry.next);
        (entry.previous, entry.next) = (NIL, NIL);
        match entries.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match entries.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
    }

    /// The lock that ends first, and when.
    #[inline]
    pub(super) fn first(&self, entries: &Slab<Entry>) -> Option<(u32, Ticks)> {
        entries.get(self.first as usize).map(|entry| (self.first, entry.locked_until))
    }

    pub(super) fn iter<'e>(&self, entries: &'e Slab<Entry>) -> impl Iterator<Item = u32> + use<'e> {
        let mut key = self.first;
        std::iter::from_fn(move || {
            let entry = entries.get(key as usize)?;
            Some(std::mem::replace(&mut key, entry.next))
        })
    }
}
