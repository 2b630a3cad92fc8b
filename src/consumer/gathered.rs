use crate::transport::{Lease, SettleError};

/// Messages whose handlers are done with them and that are completed in one step.
pub(super) struct Gathered<L> {
    batch: Vec<L>,
    failures: Vec<SettleError>,
}

impl<L: Lease> Gathered<L> {
    pub(super) fn with_capacity(count: usize) -> Self {
        let count = if L::COMPLETES_TOGETHER { count } else { 0 };
        Self { batch: Vec::with_capacity(count), failures: Vec::new() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, lease: L) {
        self.batch.push(lease);
    }

    /// Completes everything. Answers how many were completed, after it has said why the others were not.
    pub(super) fn complete(&mut self, mut failed: impl FnMut(SettleError)) -> u64 {
        L::complete_together(&mut self.batch, &mut self.failures);
        let completed = self.batch.len() - self.failures.len();
        self.batch.clear();
        if !self.failures.is_empty() {
            self.failures.drain(..).for_each(&mut failed);
        }
        completed as u64
    }
}
