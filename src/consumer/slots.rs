//! The slots of a consumer: which are free, and which were woken.

use std::{
    future::Future,
    ops::{Index, IndexMut},
    sync::Arc,
    task::Waker,
};

use super::{slot::Slot, woken::WokenSet};
use crate::transport::Lease;

/// The slots of one run, by index.
pub(super) struct Slots<F, L: Lease> {
    all: Box<[Slot<F, L>]>,
    /// The next one to be used is the last.
    free: Vec<usize>,
    woken: Arc<WokenSet>,
    /// The slot that is polled first the next time.
    first: usize,
}

impl<F: Future, L: Lease> Slots<F, L> {
    pub(super) fn new(count: usize) -> Self {
        let woken = WokenSet::new(count);
        Self {
            all: (0..count).map(|slot| Slot::new(&woken, slot)).collect(),
            free: (0..count).rev().collect(),
            woken,
            first: 0,
        }
    }
}

impl<F, L: Lease> Slots<F, L> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub(super) fn in_use(&self) -> usize {
        self.all.len() - self.free.len()
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot<F, L>> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<F, L>> {
        self.all.iter_mut()
    }

    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    #[inline]
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// The free slot that [`take_free`](Self::take_free) takes next.
    #[inline]
    pub(super) fn next_free(&self) -> Option<usize> {
        self.free.last().copied()
    }

    #[inline]
    pub(super) fn take_free(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// A slot is free again. It is the next one to be used.
    #[inline]
    pub(super) fn set_free(&mut self, slot: usize) {
        self.free.push(slot);
    }

    pub(super) fn set_all_free(&mut self, slots: impl IntoIterator<Item = usize>) {
        self.free.extend(slots);
    }

    /// How many words of 64 slots there are, and the slot that is polled first.
    #[inline]
    pub(super) fn poll_order(&self) -> (usize, usize) {
        (self.woken.words(), self.first)
    }

    /// Takes the woken slots of one word of 64. If there are any, another slot is the first the next time.
    #[inline]
    pub(super) fn take_woken(&mut self, word: usize, first: usize) -> u64 {
        let bits = self.woken.take(word);
        if bits != 0 {
            self.first = (first + 1) % self.all.len();
        }
        bits
    }

    /// Wakes `driver` when a slot is woken. Returns whether one was already.
    #[inline]
    pub(super) fn register(&self, driver: &Waker) -> bool {
        self.woken.register(driver);
        !self.woken.is_empty()
    }
}

impl<F, L: Lease> Index<usize> for Slots<F, L> {
    type Output = Slot<F, L>;

    #[inline]
    fn index(&self, slot: usize) -> &Self::Output {
        &self.all[slot]
    }
}

impl<F, L: Lease> IndexMut<usize> for Slots<F, L> {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Self::Output {
        &mut self.all[slot]
    }
}
