use std::sync::atomic::{AtomicU64, Ordering};

/// What a layer has done so far.
#[derive(Debug, Default)]
pub struct RetryCounts {
    immediate: AtomicU64,
}

impl RetryCounts {
    /// Attempts within a delivery, the first one of each left out.
    #[must_use]
    pub fn immediate(&self) -> u64 {
        self.immediate.load(Ordering::Relaxed)
    }

    pub(super) fn count_immediate(&self) {
        self.immediate.fetch_add(1, Ordering::Relaxed);
    }
}
