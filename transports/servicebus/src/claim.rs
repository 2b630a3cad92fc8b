use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use consign_core::time::Timestamp;
use tokio::task::JoinHandle;

/// The permission to use an entity over a connection. Its token is renewed as long as there is one.
pub(crate) struct Claim {
    expiry: Expiry,
    renewal: Option<JoinHandle<()>>,
}

/// When the token that was sent last expires, in milliseconds since 1970.
#[derive(Clone)]
pub(crate) struct Expiry(Arc<AtomicI64>);

impl Expiry {
    pub(crate) fn new(at: Option<Timestamp>) -> Self {
        Self(Arc::new(AtomicI64::new(Self::millis(at))))
    }

    pub(crate) fn set(&self, at: Option<Timestamp>) {
        self.0.store(Self::millis(at), Ordering::Release);
    }

    fn millis(at: Option<Timestamp>) -> i64 {
        at.map_or(i64::MAX, Timestamp::as_millis)
    }
}

impl Claim {
    pub(crate) fn new(expiry: Expiry, renewal: Option<JoinHandle<()>>) -> Self {
        Self { expiry, renewal }
    }

    /// The server has ended a link because the token has expired, or the clock of this host is behind.
    pub(crate) fn expire(&self) {
        self.expiry.0.store(i64::MIN, Ordering::Release);
    }

    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        now.as_millis() >= self.expiry.0.load(Ordering::Acquire)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
    }
}
