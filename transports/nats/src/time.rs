//! The server's clock.

use std::time::Duration;

use consign_core::time::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// A reading of the server's clock, and when it was made.
#[derive(Default)]
pub(crate) struct ServerClock(Mutex<Option<(Instant, Timestamp)>>);

/// After this two clocks may differ.
const REREAD: Duration = Duration::from_secs(600);

impl ServerClock {
    /// Returns the server's UTC by the last reading, unless that is too old.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        let (at, read) = (*self.0.lock())?;
        let elapsed = at.elapsed();
        (elapsed < REREAD).then(|| read.saturating_add(elapsed))
    }

    /// Keeps a reading, and returns the server's UTC.
    pub(crate) fn set(&self, at: Instant, read: Timestamp) -> Timestamp {
        *self.0.lock() = Some((at, read));
        read.saturating_add(at.elapsed())
    }
}
