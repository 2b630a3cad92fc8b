use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// Which slots were woken since the driver last looked. One bit a slot, so that the driver polls only those.
#[derive(Debug)]
pub(super) struct WokenSet {
    words: Box<[AtomicU64]>,
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
        Arc::new(Self { words, driver: AtomicWaker::new() })
    }

    pub(super) fn waker(self: &Arc<Self>, slot: usize) -> Waker {
        Arc::new(SlotWaker { set: Arc::clone(self), slot }).into()
    }

    pub(super) fn register(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Acquire) == 0)
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
        let bit = 1 << (self.slot % 64);
        if self.set.words[self.slot / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.set.driver.wake();
        }
    }
}
