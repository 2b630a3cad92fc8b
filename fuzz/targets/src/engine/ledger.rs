use std::collections::BTreeSet;

use consign_amqp::{
    engine::{DeliveryId, Event, LinkId, SessionId},
    types::Role,
};

/// The deliveries that are not settled, by the events and commands of one engine.
#[derive(Default)]
pub(super) struct Ledger {
    received: BTreeSet<(LinkId, DeliveryId)>,
    sent: BTreeSet<(LinkId, DeliveryId)>,
    /// Settled by the peer since the events were polled.
    settled_by_peer: Vec<(LinkId, DeliveryId)>,
    /// Whether this end has closed the connection, so that only the last event follows.
    closing: bool,
    pub(super) closed: bool,
}

impl Ledger {
    /// Takes an event, with all events before it.
    pub(super) fn event(&mut self, event: &Event) {
        assert!(!self.closed, "{event:?} after the last event");
        let is_last = matches!(event, Event::Closed { .. });
        assert!(is_last || !self.closing, "{event:?} after the connection was closed");
        match event {
            Event::Delivery(delivery) if !delivery.settled => {
                assert!(self.received.insert((delivery.link, delivery.id)), "{:?} is delivered once", delivery.id);
            }
            Event::Disposition { role, deliveries, settled, .. } => {
                let open = if *role == Role::Sender { &mut self.received } else { &mut self.sent };
                let mut before = None;
                for delivery in deliveries.iter() {
                    assert!(before < Some(delivery.1), "deliveries of a report ascend");
                    before = Some(delivery.1);
                    assert!(open.contains(&delivery), "{delivery:?} is settled once");
                    if *settled {
                        open.remove(&delivery);
                        self.settled_by_peer.push(delivery);
                    }
                }
            }
            Event::Detached { link, .. } => self.forget_link(*link),
            Event::Ended { session, .. } => self.forget_session(*session),
            Event::Closed { .. } => {
                self.closing();
                self.closed = true;
            }
            _ => {}
        }
    }

    /// The deliveries that the peer has settled since the last call, and whose number it has not used again since.
    pub(super) fn settled_by_peer(&mut self) -> Vec<(LinkId, DeliveryId)> {
        let mut settled = std::mem::take(&mut self.settled_by_peer);
        settled.retain(|delivery| !self.received.contains(delivery) && !self.sent.contains(delivery));
        settled
    }

    pub(super) fn sent(&mut self, link: LinkId, id: DeliveryId) {
        assert!(self.sent.insert((link, id)), "{id:?} is sent once");
    }

    pub(super) fn aborted(&mut self, link: LinkId, id: DeliveryId) {
        self.sent.remove(&(link, id));
    }

    /// The deliveries of a link in both directions, of which it has one.
    pub(super) fn of(&self, link: LinkId) -> Vec<DeliveryId> {
        self.received.iter().chain(&self.sent).filter(|(of, _)| *of == link).map(|(_, id)| *id).collect()
    }

    pub(super) fn settled(&mut self, link: LinkId, ids: &[DeliveryId]) {
        for id in ids {
            let removed = self.received.remove(&(link, *id)) | self.sent.remove(&(link, *id));
            assert!(removed, "{id:?} is settled once");
        }
    }

    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.received.retain(|(of, _)| *of != link);
        self.sent.retain(|(of, _)| *of != link);
    }

    pub(super) fn forget_session(&mut self, session: SessionId) {
        self.received.retain(|(of, _)| of.session() != session);
        self.sent.retain(|(of, _)| of.session() != session);
    }

    pub(super) fn closing(&mut self) {
        self.closing = true;
        self.received.clear();
        self.sent.clear();
    }

    /// Whether a session has at most so many deliveries in each direction.
    pub(super) fn is_within(&self, most: usize) -> bool {
        [&self.received, &self.sent].into_iter().all(|open| {
            let sessions: BTreeSet<_> = open.iter().map(|(link, _)| link.session()).collect();
            sessions.iter().all(|id| open.iter().filter(|(link, _)| link.session() == *id).count() <= most)
        })
    }
}
