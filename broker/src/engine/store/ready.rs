use std::collections::{BTreeMap, VecDeque};

use slab::Slab;

use super::{
    KEPT,
    entry::{Entry, NIL, Place},
};

/// The messages of one lane that can be received, in the order of acceptance.
///
/// New messages arrive in order and leave at the front, so a deque holds them without the cost of a tree. A message
/// that is released behind the front is added to a tree. An entry that leaves from the middle stays in the deque as a
/// stale pair. It stays until it reaches the front, or until there are as many stale pairs as good ones.
#[derive(Debug, Default)]
pub(super) struct Ready {
    fresh: VecDeque<Fresh>,
    returned: BTreeMap<u64, u32>,
    count: usize,
}

/// A pair of an order and a key, in 12 bytes: with an alignment of eight bytes it would take 16.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    high: u32,
    low: u32,
    key: u32,
}

impl Fresh {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    fn new(order: u64, key: u32) -> Self {
        Self { high: (order >> 32) as u32, low: order as u32, key }
    }

    #[inline]
    fn order(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }

    #[inline]
    fn pair(self) -> (u64, u32) {
        (self.order(), self.key)
    }
}

impl Ready {
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.fresh.capacity()
    }

    #[inline]
    pub(super) fn insert(&mut self, order: u64, key: u32) {
        if self.fresh.back().is_none_or(|last| last.order() < order) {
            self.fresh.push_back(Fresh::new(order, key));
        } else if self.fresh.front().is_some_and(|first| order < first.order()) {
            self.fresh.push_front(Fresh::new(order, key));
        } else {
            self.returned.insert(order, key);
        }
        self.count += 1;
    }

    /// Returns the first of those that can be received.
    #[inline]
    pub(super) fn first(&mut self, entries: &Slab<Entry>, lane: u32) -> Option<(u64, u32)> {
        while let Some((order, key)) = self.fresh.front().map(|fresh| fresh.pair()) {
            if is_ready(entries, lane, order, key) {
                break;
            }
            self.fresh.pop_front();
        }
        let returned = self.returned.first_key_value().map(|(&order, &key)| (order, key));
        match (self.fresh.front().map(|fresh| fresh.pair()), returned) {
            (Some(fresh), Some(returned)) => Some(fresh.min(returned)),
            (fresh, returned) => fresh.or(returned),
        }
    }

    /// Removes and returns the first of those that can be received.
    #[inline]
    pub(super) fn pop(&mut self, entries: &Slab<Entry>, lane: u32) -> Option<u32> {
        if !self.returned.is_empty() {
            return self.pop_of_both(entries, lane);
        }
        while let Some((order, key)) = self.fresh.pop_front().map(Fresh::pair) {
            if is_ready(entries, lane, order, key) {
                self.count -= 1;
                self.give_back();
                return Some(key);
            }
        }
        None
    }

    /// Releases the memory of a burst.
    #[inline]
    fn give_back(&mut self) {
        if self.fresh.is_empty() && self.fresh.capacity() > KEPT {
            self.give_all_back();
        }
    }

    #[cold]
    fn give_all_back(&mut self) {
        self.fresh = VecDeque::new();
    }

    #[cold]
    fn pop_of_both(&mut self, entries: &Slab<Entry>, lane: u32) -> Option<u32> {
        let (order, key) = self.first(entries, lane)?;
        if self.fresh.front().is_some_and(|first| first.order() == order) {
            self.fresh.pop_front();
        } else {
            self.returned.remove(&order);
        }
        self.count -= 1;
        Some(key)
    }

    /// Removes an entry from the deque or the tree.
    pub(super) fn remove(&mut self, entries: &Slab<Entry>, lane: u32, order: u64) {
        self.count -= 1;
        if self.returned.remove(&order).is_some() {
            return;
        }
        // Its entry may still have this place, so the pair is made stale.
        if let Ok(at) = self.fresh.binary_search_by_key(&order, |fresh| fresh.order()) {
            self.fresh[at].key = NIL;
        }
        if self.fresh.len() > 64 && self.fresh.len() > 2 * (self.count - self.returned.len()) {
            self.fresh.retain(|fresh| is_ready(entries, lane, fresh.order(), fresh.key));
            self.give_back();
        }
    }

    /// Returns up to `max` entries whose order is `from` or later; twice as many if some were released.
    pub(super) fn from<'r>(
        &'r self,
        entries: &'r Slab<Entry>,
        lane: u32,
        from: u64,
        max: usize,
    ) -> impl Iterator<Item = u32> + 'r {
        let start = self.fresh.partition_point(|fresh| fresh.order() < from);
        let fresh = self.fresh.range(start..).filter(move |fresh| is_ready(entries, lane, fresh.order(), fresh.key));
        let returned = self.returned.range(from..).map(|(_, &key)| key);
        fresh.map(|fresh| fresh.key).take(max).chain(returned.take(max))
    }
}

#[cfg(feature = "durable")]
impl Ready {
    /// Returns all entries whose order is `from` or later, in order.
    pub(super) fn in_order_from<'r>(
        &'r self,
        entries: &'r Slab<Entry>,
        lane: u32,
        from: u64,
    ) -> impl Iterator<Item = u32> + 'r {
        let start = self.fresh.partition_point(|fresh| fresh.order() < from);
        let fresh = self.fresh.range(start..).map(|fresh| fresh.pair());
        let mut fresh = fresh.filter(move |&(order, key)| is_ready(entries, lane, order, key)).peekable();
        let mut returned = self.returned.range(from..).map(|(&order, &key)| (order, key)).peekable();
        let next = move || match (fresh.peek(), returned.peek()) {
            (Some(first), Some(other)) if other < first => returned.next(),
            (Some(_), _) => fresh.next(),
            (None, _) => returned.next(),
        };
        std::iter::from_fn(next).map(|(_, key)| key)
    }
}

#[inline]
fn is_ready(entries: &Slab<Entry>, lane: u32, order: u64, key: u32) -> bool {
    entries
        .get(key as usize)
        .is_some_and(|entry| entry.order == order && entry.place == Place::Ready && entry.lane == lane)
}
