//! Whether the client is connected, observed for all receivers of a connection.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_nats::{Client, Statistics, connection::State};
use tokio::sync::watch;

/// How often there was a connection, and whether there is one.
pub(crate) type Link = (u64, bool);

/// Notifies waiting receivers of a change of the connection: a client that is wrapped has no other place for that.
pub(crate) struct Watching {
    client: Client,
    statistics: Arc<Statistics>,
    changes: Arc<watch::Sender<Link>>,
}

impl Watching {
    /// How often the connection is looked at.
    pub(crate) const EVERY: Duration = Duration::from_millis(250);

    pub(crate) fn new(client: &Client, changes: &Arc<watch::Sender<Link>>) -> Self {
        Self { client: client.clone(), statistics: client.statistics(), changes: Arc::clone(changes) }
    }

    pub(crate) fn look(&self) {
        let connects = self.statistics.connects.load(Ordering::Relaxed);
        let now = (connects, self.client.connection_state() == State::Connected);
        self.changes.send_if_modified(|before| std::mem::replace(before, now) != now);
    }
}
