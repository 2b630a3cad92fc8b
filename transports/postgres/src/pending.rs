//! Work that callers do not wait for any more: sends, completions and jobs whose futures may have been dropped.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// Counts what is in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    left: AtomicUsize,
    is_zero: Notify,
}

/// One piece of work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Work(Arc<Count>);

impl Pending {
    pub(crate) fn begin(&self) -> Work {
        self.0.left.fetch_add(1, Ordering::Relaxed);
        Work(Arc::clone(&self.0))
    }

    /// Waits until nothing is in flight.
    pub(crate) async fn drained(&self) {
        loop {
            let is_zero = self.0.is_zero.notified();
            if self.0.left.load(Ordering::Acquire) == 0 {
                return;
            }
            is_zero.await;
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.is_zero.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn pending_work_is_drained_when_the_last_piece_is_done() {
        let pending = Pending::default();
        pending.drained().await;
        let (one, two) = (pending.begin(), pending.begin());
        let mut drained = Box::pin(pending.drained());
        assert!((&mut drained).now_or_never().is_none());
        drop(one);
        assert!((&mut drained).now_or_never().is_none());
        drop(two);
        assert!(drained.now_or_never().is_some());
    }
}
