//! Locks of dead letters that stay, until the end of a pass: so that the pass receives what is behind them.

use std::time::Duration;

use consign_core::transport::{DynLease, Lease};
use tokio::time::Instant;

/// Most locks at a time.
pub(super) const MAX_HELD: usize = 16_384;

/// Releases its locks when it is dropped.
#[derive(Default)]
pub(super) struct Held {
    leases: Vec<DynLease>,
    renewed: Option<Instant>,
}

impl Held {
    pub(super) fn push(&mut self, lease: DynLease) {
        self.renewed.get_or_insert_with(Instant::now);
        self.leases.push(lease);
    }

    pub(super) fn is_full(&self) -> bool {
        self.leases.len() >= MAX_HELD
    }

    /// Renews all locks once the oldest is half over. One that is lost does no harm: the dead letter is received again.
    pub(super) async fn keep(&mut self) {
        let lock = self.leases.first().and_then(Lease::lock_duration).unwrap_or(Duration::MAX);
        if self.renewed.is_none_or(|renewed| renewed.elapsed() < lock / 2) {
            return;
        }
        self.renewed = Some(Instant::now());
        for at in 0..self.leases.len() {
            let renewal = self.leases[at].renew();
            let _ = renewal.await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for lease in self.leases.drain(..) {
            // It begins when it is called, and nothing can wait here.
            drop(lease.release());
        }
    }
}
