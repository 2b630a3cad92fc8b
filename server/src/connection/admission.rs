//! Whether a connection counts as authenticated.

use consign_amqp::{
    engine::Connection as Engine,
    types::{Error, condition},
};
use tokio::time::Instant;

use super::client::Client;
use crate::log::warn_of;

/// The most sessions and links of a connection that has not authenticated: their memory is for anyone who can connect.
const UNAUTHENTICATED: (u16, u32) = (256, 1_024);

/// The most bytes of incomplete deliveries until then. A token is far smaller.
const UNAUTHENTICATED_BYTES: u64 = 2 << 20;

/// Limits a client until it is admitted.
pub(super) fn limit(engine: &mut Engine) {
    let (sessions, links) = UNAUTHENTICATED;
    engine.limit_peer(sessions, links);
    engine.limit_incomplete(UNAUTHENTICATED_BYTES);
}

impl Client {
    pub(super) fn is_authenticated(&self) -> bool {
        self.place.is_authenticated()
    }

    /// Counts an open connection as authenticated if the client has a right, or closes it if there are too many.
    pub(crate) fn admit(&mut self, engine: &mut Engine) {
        if !self.held.has_right(Instant::now()) {
            return;
        }
        let limits = &self.shared.limits;
        if self.place.authenticate() {
            engine.limit_peer(limits.max_sessions, limits.max_connection_links);
            engine.limit_incomplete(limits.max_incomplete_bytes);
            return;
        }
        let limit = self.shared.limits.max_connections;
        warn_of!("ConnectionLimit", limit, "a connection over the limit was refused");
        let text = format!("the server has {limit} connections, its limit");
        self.close(engine, Error::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
    }

    /// Closes a connection that has not authenticated, in favour of a new one.
    pub(super) fn evicted(&mut self, engine: &mut Engine) {
        let limit = self.shared.limits.max_unauthenticated;
        let text = format!("the server has {limit} connections that have not authenticated, its limit");
        self.close(engine, Error::new(condition::RESOURCE_LIMIT_EXCEEDED, text));
    }
}
