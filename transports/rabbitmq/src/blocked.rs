//! Connections that RabbitMQ has blocked, because of an alarm for its disk or its memory: it reads nothing of them.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use lapin::Event;
use parking_lot::Mutex;

use crate::log;

/// The connections of a client that are blocked, and why.
#[derive(Clone, Default)]
pub(crate) struct Blocked(Arc<Mutex<Vec<(u64, String)>>>);

impl Blocked {
    /// Returns why a connection is blocked, in the words of the server.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.lock().last().map(|(_, reason)| reason.clone())
    }

    /// Watches the connection of this number until it ends.
    pub(crate) async fn watch(self, number: u64, server: String, events: impl Stream<Item = Event>) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Event::ConnectionBlocked(reason) => {
                    log::blocked(&server, &reason);
                    self.0.lock().push((number, reason));
                }
                Event::ConnectionUnblocked => {
                    log::unblocked(&server);
                    self.forget(number);
                }
                _ => {}
            }
        }
        self.forget(number);
    }

    /// The connection is not blocked, or is lost.
    pub(crate) fn forget(&self, number: u64) {
        self.0.lock().retain(|(blocked, _)| *blocked != number);
    }
}
