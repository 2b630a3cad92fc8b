#[cfg(all(test, consign_loom))]
mod explored;

#[cfg(not(all(test, consign_loom)))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{
    sync::Arc,
    task::{Wake, Waker},
};

#[cfg(not(all(test, consign_loom)))]
use futures_util::task::AtomicWaker;
#[cfg(all(test, consign_loom))]
use loom::{
    future::AtomicWaker,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Which slots were woken since the driver last looked. One bit a slot, so that the driver polls only those.
#[derive(Debug)]
pub(super) struct WokenSet {
    words: Box<[AtomicU64]>,
    /// Whether a control handle has changed what the driver is to do.
    is_changed: AtomicBool,
    driver: AtomicWaker,
}

/// The waker of one slot, made once and used for every message that the slot handles.
struct SlotWaker {
    set: Arc<WokenSet>,
    slot: usize,
}

impl WokenSet {
    pub(super) fn new(slots: usize) -> Arc<Self> {
        let words = (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { words, is_changed: AtomicBool::new(false), driver: AtomicWaker::new() })
    }

    pub(super) fn waker(self: &Arc<Self>, slot: usize) -> Waker {
        Arc::new(SlotWaker { set: Arc::clone(self), slot }).into()
    }

    pub(super) fn register(&self, driver: &Waker) {
        #[cfg(not(all(test, consign_loom)))]
        self.driver.register(driver);
        #[cfg(all(test, consign_loom))]
        self.driver.register_by_ref(driver);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// Marks a slot as woken, and wakes the driver if it was not.
    pub(super) fn set(&self, slot: usize) {
        let bit = 1 << (slot % 64);
        if self.words[slot / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.driver.wake();
        }
    }

    /// Wakes the driver, which is to look at the control handle.
    pub(super) fn change(&self) {
        self.is_changed.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// Whether the driver is to look at the control handle.
    #[inline]
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Acquire)
    }

    /// As [`is_changed`](Self::is_changed), once for each change.
    #[inline]
    pub(super) fn take_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed) && self.is_changed.swap(false, Ordering::AcqRel)
    }

    /// Takes the woken slots of one word of 64.
    #[inline]
    pub(super) fn take(&self, word: usize) -> u64 {
        match self.words[word].load(Ordering::Relaxed) {
            0 => 0,
            _ => self.words[word].swap(0, Ordering::AcqRel),
        }
    }

    pub(super) fn words(&self) -> usize {
        self.words.len()
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set.set(self.slot);
    }
}
