use std::collections::{BTreeMap, VecDeque};

use super::{KEPT, Ticks, entry::NIL};

/// Messages by a unique number.
///
/// They mostly come in the order of their numbers, so they are in a deque, where a search among millions costs
/// little; the others are in a tree. One that leaves from the middle leaves a gap, until a third of all are gaps.
#[derive(Debug)]
pub(super) struct Sorted<N> {
    ascending: VecDeque<(N, u32)>,
    others: BTreeMap<N, u32>,
    gaps: usize,
}

/// Returns the position of a message by an instant, and for one instant in the order of acceptance. Two numbers in
/// one are compared in one step.
#[inline]
pub(super) fn place(instant: Ticks, order: u64) -> u128 {
    u128::from(instant) << 64 | u128::from(order)
}

impl<N> Default for Sorted<N> {
    fn default() -> Self {
        Self { ascending: VecDeque::new(), others: BTreeMap::new(), gaps: 0 }
    }
}

impl<N: Ord + Copy> Sorted<N> {
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.ascending.capacity()
    }

    pub(super) fn len(&self) -> usize {
        self.ascending.len() - self.gaps + self.others.len()
    }

    /// Returns the one with the least number.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        let ascending = self.ascending.front().copied();
        let other = self.others.first_key_value().map(|(&number, &key)| (number, key));
        let first = match (ascending, other) {
            (Some(ascending), Some(other)) => ascending.min(other),
            (ascending, other) => ascending.or(other)?,
        };
        Some(first.1)
    }

    #[inline]
    pub(super) fn insert(&mut self, number: N, key: u32) {
        if self.ascending.back().is_none_or(|&(last, _)| last < number) {
            self.ascending.push_back((number, key));
        } else if let Ok(gap) = self.search(number) {
            self.ascending[gap].1 = key;
            self.gaps -= 1;
        } else {
            self.others.insert(number, key);
        }
    }

    pub(super) fn get(&self, number: N) -> Option<u32> {
        let at = self.search(number).ok().map(|at| self.ascending[at].1).filter(|&key| key != NIL);
        at.or_else(|| self.others.get(&number).copied())
    }

    pub(super) fn remove(&mut self, number: N) -> Option<u32> {
        // Most leave in order, and the first is not a gap.
        if let Some(&(first, key)) = self.ascending.front()
            && first == number
        {
            self.ascending.pop_front();
            if self.gaps > 0 || self.ascending.is_empty() {
                self.tidy();
            }
            return Some(key);
        }
        let key = self.search(number).map_or(NIL, |at| std::mem::replace(&mut self.ascending[at].1, NIL));
        if key == NIL {
            return self.others.remove(&number);
        }
        self.gaps += 1;
        self.tidy();
        Some(key)
    }

    /// Removes the gaps at the ends, and all if there are too many. Releases the memory of a burst.
    fn tidy(&mut self) {
        while self.ascending.back().is_some_and(|&(_, key)| key == NIL) {
            self.ascending.pop_back();
            self.gaps -= 1;
        }
        while self.ascending.front().is_some_and(|&(_, key)| key == NIL) {
            self.ascending.pop_front();
            self.gaps -= 1;
        }
        if self.ascending.is_empty() && self.ascending.capacity() > KEPT {
            self.ascending = VecDeque::new();
        }
        if self.gaps > 64 && 3 * self.gaps > self.ascending.len() {
            self.ascending.retain(|&(_, key)| key != NIL);
            self.gaps = 0;
        }
    }

    /// Returns the first `max` from number `from` on that are selected, in order.
    pub(super) fn from(
        &self,
        from: N,
        max: usize,
        is_wanted: impl Fn(u32) -> bool + Copy,
    ) -> impl Iterator<Item = u32> {
        let start = self.ascending.partition_point(|&(number, _)| number < from);
        let is_there = move |&(_, key): &(N, u32)| key != NIL && is_wanted(key);
        let mut ascending = self.ascending.range(start..).copied().filter(is_there).peekable();
        let mut others = self.others.range(from..).map(|(&number, &key)| (number, key)).filter(is_there).peekable();
        let merged = std::iter::from_fn(move || match (ascending.peek(), others.peek()) {
            (Some(one), Some(other)) if other.0 < one.0 => others.next(),
            (Some(_), _) => ascending.next(),
            (None, _) => others.next(),
        });
        merged.take(max).map(|(_, key)| key)
    }

    #[inline]
    fn search(&self, number: N) -> Result<usize, usize> {
        self.ascending.binary_search_by_key(&number, |&(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a tree, with numbers that come in order, are added again and leave from anywhere.
    #[test]
    fn sorted_numbers_equal_those_of_a_tree() {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
        eprintln!("SEED={seed} cargo test -p consign-broker --features durable sorted_numbers_equal_those_of_a_tree");
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut sorted, mut tree) = (Sorted::default(), BTreeMap::new());
        let mut last = 0;
        for key in 0..20_000 {
            let any = random.u64(0..=last);
            let is_in_order = random.u8(0..4) > 0;
            last += u64::from(is_in_order);
            let number = if is_in_order { last } else { any };
            // Grows, and shrinks again.
            let is_insert = random.u8(0..10) < if key / 2_000 % 2 == 0 { 7 } else { 3 };
            if is_insert && !tree.contains_key(&number) {
                tree.insert(number, key);
                sorted.insert(number, key);
            } else {
                let near = tree.range(any..).next().map_or(any, |(&number, _)| number);
                assert_eq!(sorted.remove(near), tree.remove(&near));
            }
            assert_eq!(sorted.get(any), tree.get(&any).copied());
            assert_eq!((sorted.len(), sorted.first()), (tree.len(), tree.values().next().copied()));
            let found = sorted.from(any, 5, |key| key % 2 == 1);
            assert!(found.eq(tree.range(any..).map(|(_, &key)| key).filter(|key| key % 2 == 1).take(5)));
            assert!(sorted.gaps <= 64.max(sorted.ascending.len() / 2), "{} gaps", sorted.gaps);
        }
    }
}
