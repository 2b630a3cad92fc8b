//! The events of the engine.

use consign_amqp::{
    engine::{Connection as Engine, Event, Reason, SessionId},
    types::Role,
};
use consign_core::transport::Escaped;
use tokio::time::Instant;

use super::{client::Client, handshake, open};
use crate::{
    auth::{Access, Credentials},
    links::{Kind, incoming::Refused},
    log::warn_of,
    transactions::txn_id,
};

impl Client {
    pub(super) fn handle(&mut self, engine: &mut Engine, event: Event) {
        match event {
            Event::SaslInit(init) => {
                // Without an access the connection is closed.
                if let Ok(Some(access)) = handshake::authenticate(engine, &init, &*self.shared.authorizer) {
                    self.authenticated(&access);
                }
            }
            Event::Opened(peer) => {
                tracing::debug!(container = peer.container_id.as_str(), "a connection is open");
                let product = peer.properties.as_ref().and_then(|properties| properties.get("product")?.as_str());
                self.is_python = product == Some("azsdk-python-servicebus");
                // A connection that is closed already has its last event.
                let _ = engine.open(open(&self.shared));
                if !self.held.is_authenticated() {
                    self.without_sasl(engine);
                }
                self.admit(engine);
            }
            Event::AttachRequested { link, attach } => self.attach(engine, link, *attach),
            Event::CreditChanged { link, drain, .. } => self.credit_changed(engine, link, drain),
            Event::WindowOpened { session } => self.resume(engine, Some(session)),
            Event::Delivery(delivery) => self.delivery(engine, delivery),
            Event::DeliveryTooLarge { link, id, settled, state, size } => {
                self.too_large(engine, Refused { link, id, settled, txn_id: txn_id(state) }, size);
            }
            Event::DeliveryAborted { link } => self.aborted(engine, link),
            Event::Disposition { role: Role::Receiver, deliveries, state, settled, .. } => {
                self.disposition(engine, &deliveries, state.as_ref(), settled);
            }
            Event::TransactionIncomplete { txn_id, .. } => self.transactions.fail(Some(&txn_id)),
            Event::Detached { link, reason, .. } => {
                // What it had received in part is dropped.
                if matches!(reason, Reason::Violation(_)) {
                    self.transactions.fail_all();
                }
                self.remove(link);
                // Its unsettled deliveries count no more.
                self.resume(engine, Some(link.session()));
            }
            Event::Ended { session, .. } => self.ended(session),
            Event::Closed { reason } => {
                tracing::debug!(?reason, "a connection is closed");
                self.closed();
            }
            _ => {}
        }
    }

    fn authenticated(&mut self, access: &Access) {
        self.held.authenticated(access, Instant::now());
        self.times_changed();
    }

    /// A client that skips SASL authenticates as one without a name does.
    fn without_sasl(&mut self, engine: &mut Engine) {
        match self.shared.authorizer.authenticate(&Credentials::Anonymous) {
            Ok(access) => self.authenticated(&access),
            Err(denied) => {
                let text = Escaped(denied.description());
                warn_of!("NotAuthenticated", denied = %text, "a client without SASL was not authenticated");
                let failure = crate::errors::Failure::new(
                    consign_core::transport::ErrorKind::Unauthorized,
                    denied.description().to_owned(),
                );
                self.close(engine, failure.error());
            }
        }
    }

    fn ended(&mut self, session: SessionId) {
        let of_session: Vec<_> = self.links.keys().copied().filter(|link| link.session() == session).collect();
        for link in of_session {
            self.remove(link);
        }
        self.cross_entity.remove(&session);
    }

    /// Notes that a link is used.
    pub(crate) fn touch(&mut self, link: consign_amqp::engine::LinkId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.active = Instant::now();
        }
    }

    fn delivery(&mut self, engine: &mut Engine, delivery: consign_amqp::engine::Delivery) {
        let Some(link) = self.links.get_mut(&delivery.link) else { return };
        link.active = Instant::now();
        match &link.kind {
            Kind::Incoming(_) => self.receive(engine, delivery),
            Kind::Requests { .. } => self.request(engine, delivery),
            Kind::Coordinator => self.coordinate(engine, delivery),
            // It was detached, or a client does not send on it.
            _ => {}
        }
    }
}
