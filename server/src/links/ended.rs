//! Links that can send no more because the client has left too many deliveries unsettled.
//!
//! The client settles no delivery whose lock has ended, as its message is delivered again: clients whose handlers fail let locks end
//! so. These deliveries are settled here. A client that settles one of them afterwards gets no answer, so this is done only
//! where a link can send nothing otherwise.

use std::time::Duration;

use consign_amqp::{
    engine::{Connection as Engine, LinkId},
    types::Released,
};
use tokio::time::Instant;

use super::{Kind, Link};
use crate::{connection::Client, log::warn_of};

/// The most deliveries that are settled at a time.
const MAX_ENDED: usize = 1_024;

/// The least time between two searches for locks that have ended.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

impl Client {
    /// Settles what has ended for a link that has credit, if that is the reason why it cannot send. Returns whether it can now.
    pub(super) fn make_sendable(&mut self, engine: &mut Engine, id: LinkId) -> bool {
        // Most links that cannot send wait for the window.
        if engine.unsettled_left(id) > 0 {
            return false;
        }
        let now = Instant::now();
        if self.unsettled_due.is_some_and(|due| due > now) {
            return false;
        }
        let can_send = self.settle_ended(engine, id) > 0;
        if !can_send && self.unsettled_due.is_none() {
            self.warn_of_unsettled(id);
        }
        self.search_unsettled_at(now.checked_add(SEARCH_EVERY));
        can_send
    }

    /// Settles the oldest deliveries of the session of a link whose locks have ended. Returns how many there were.
    fn settle_ended(&mut self, engine: &mut Engine, id: LinkId) -> usize {
        let (locks, now) = (&self.shared.locks, self.shared.broker.now());
        let mut ended = Vec::new();
        for (of, link) in &self.links {
            if of.session() == id.session()
                && let Kind::Outgoing(link) = &link.kind
            {
                let of_link = link.unsettled.iter().filter(|(_, token)| !locks.holds(**token, now));
                ended.extend(of_link.map(|(delivery, _)| (*delivery, *of)));
            }
        }
        ended.sort_unstable();
        ended.truncate(MAX_ENDED);
        for &(delivery, of) in &ended {
            if let Some(Link { kind: Kind::Outgoing(link), .. }) = self.links.get_mut(&of)
                && let Some(token) = link.unsettled.remove(&delivery)
            {
                drop(self.shared.locks.take(token));
                // The link may be detached meanwhile.
                let _ = engine.settle(of, [delivery], Some(&Released {}.into()), true);
            }
        }
        ended.len()
    }

    fn warn_of_unsettled(&self, id: LinkId) {
        let Some(Link { kind: Kind::Outgoing(link), .. }) = self.links.get(&id) else { return };
        let (entity, max_unsettled) = (&*link.entity, self.shared.limits.max_unsettled);
        warn_of!("Unsettled", entity, max_unsettled, "a client gets no more messages until it settles some");
    }
}
