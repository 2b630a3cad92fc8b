//! Times of the backend, and waiting.

use std::time::Duration;

use consign::time::Timestamp;

use super::Bench;

impl Bench<'_> {
    pub(crate) fn lock(&self) -> Duration {
        self.timing.lock
    }

    pub(crate) fn margin(&self) -> Duration {
        self.timing.margin
    }

    pub(crate) fn receive_wait(&self) -> Duration {
        self.timing.receive_wait
    }

    pub(crate) fn arrival(&self) -> Duration {
        self.timing.arrival
    }

    /// Returns a time to live that a receive does not outlast, and that is longer than every margin.
    pub(crate) fn time_to_live(&self) -> Duration {
        Duration::from_secs(3).max(self.timing.margin * 2)
    }

    pub(crate) async fn wait(&self, time: Duration) {
        self.backend.advance(time).await;
    }

    /// Waits until `is_done`, and no longer than a case may take. It needs no call of the transport.
    pub(crate) async fn until(&self, is_done: impl Fn() -> bool) {
        while !is_done() {
            tokio::time::sleep(self.timing.receive_wait / 10).await;
        }
    }

    /// Waits until something that is due in `time` has surely happened.
    pub(crate) async fn wait_past(&self, time: Duration) {
        self.wait(time + self.timing.margin).await;
    }

    /// Waits while something that is due in `time` has surely not happened.
    pub(crate) async fn wait_almost(&self, time: Duration) {
        self.wait(time.saturating_sub(self.timing.margin)).await;
    }

    /// Returns whether the two differ by no more than [`Timing::margin`].
    pub(crate) fn is_near(&self, left: Timestamp, right: Timestamp) -> bool {
        left.saturating_since(right).max(right.saturating_since(left)) <= self.timing.margin
    }

    pub(crate) async fn in_future(&self, by: Duration) -> Timestamp {
        self.backend.now().await.saturating_add(by)
    }
}
