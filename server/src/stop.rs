//! The end of listeners and of their connections.

use std::time::Duration;

use tokio::{sync::watch, time::sleep};

/// What listeners and connections watch, to end with their server.
#[derive(Clone)]
pub(crate) struct Stop {
    requested: watch::Receiver<bool>,
    limit: Duration,
}

impl Stop {
    /// Ends when the sender has true, or is dropped. Connections may take so long to close then.
    pub(crate) fn new(requested: &watch::Sender<bool>, limit: Duration) -> Self {
        Self { requested: requested.subscribe(), limit }
    }

    /// How long connections may take to close.
    pub(crate) const fn limit(&self) -> Duration {
        self.limit
    }

    /// Waits until no connection is to be accepted.
    pub(crate) async fn requested(&self) {
        // Without a sender there is no server.
        let _ = self.requested.clone().wait_for(|requested| *requested).await;
    }

    /// Waits until connections may take no longer to close.
    pub(crate) async fn is_over(&self) {
        self.requested().await;
        sleep(self.limit).await;
    }
}
