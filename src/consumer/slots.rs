//! The slots of a consumer: which are free, and which were woken.

use std::{
    future::Future,
    mem,
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
    /// How many are in use or free.
    open: usize,
    /// How many are to be open. More are while their handlers run.
    target: usize,
    /// The others.
    closed: Vec<usize>,
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
            open: count,
            target: count,
            closed: Vec::new(),
            woken,
            first: 0,
        }
    }

    /// Sets how many slots there are to be, at least 1. Of more than that, the free ones are closed now, and those in use by
    /// [`close_surplus`](Self::close_surplus). Returns whether there is another set of woken slots.
    pub(super) fn resize(&mut self, count: usize) -> bool {
        self.target = count;
        while self.open < count
            && let Some(slot) = self.closed.pop()
        {
            self.free.push(slot);
            self.open += 1;
        }
        let grows = self.open < count;
        if grows {
            self.grow(count);
        }
        self.close_surplus();
        grows
    }

    /// A set of woken slots has a size, so there is a new one. What is pending in a slot has its waker in the old one: it is
    /// polled again.
    fn grow(&mut self, count: usize) {
        self.woken = WokenSet::new(count);
        let mut all = mem::take(&mut self.all).into_vec();
        for (index, slot) in all.iter_mut().enumerate() {
            slot.set_waker(self.woken.waker(index));
            if slot.is_calling() || slot.is_settling() {
                self.woken.set(index);
            }
        }
        for index in all.len()..count {
            all.push(Slot::new(&self.woken, index));
            self.free.push(index);
        }
        self.open = count;
        self.all = all.into();
    }
}

impl<F, L: Lease> Slots<F, L> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many are in use or free.
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// How many there are to be.
    pub(super) fn target(&self) -> usize {
        self.target
    }

    /// Whether more are open than there are to be.
    pub(super) fn has_surplus(&self) -> bool {
        self.open > self.target
    }

    /// Closes free slots until no more are open than there are to be.
    pub(super) fn close_surplus(&mut self) {
        while self.open > self.target
            && let Some(slot) = self.free.pop()
        {
            self.closed.push(slot);
            self.open -= 1;
        }
    }

    #[inline]
    pub(super) fn in_use(&self) -> usize {
        self.open - self.free.len()
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.open
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
        !self.woken.is_empty() || self.woken.is_changed()
    }

    /// Whether the driver is to look at the control handle.
    #[inline]
    pub(super) fn take_changed(&self) -> bool {
        self.woken.take_changed()
    }

    pub(super) fn woken(&self) -> &Arc<WokenSet> {
        &self.woken
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
