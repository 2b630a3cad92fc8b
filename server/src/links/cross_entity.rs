//! Transactions over several entities.
//!
//! The SDKs for .NET and Java attach the coordinator as the first link of a session, and all other links to the same session. The
//! entity of the first of these transfers what transactions send to other entities.

use consign_amqp::engine::SessionId;
use consign_broker::QueueSender;

use super::Kind;
use crate::{connection::Client, entities::Entity};

impl Client {
    /// A coordinator is attached to a session.
    pub(super) fn coordinator_attached(&mut self, session: SessionId) {
        let mut of_session = self.links.iter().filter(|(id, _)| id.session() == session).map(|(_, link)| &link.kind);
        if of_session.all(|kind| kind.is_cbs() || matches!(kind, Kind::Coordinator)) {
            self.cross_entity.entry(session).or_default();
        }
    }

    /// A link of an entity is attached to a session.
    pub(super) fn entity_attached(&mut self, session: SessionId, entity: &Entity) {
        if let Some(first @ None) = self.cross_entity.get_mut(&session) {
            *first = Some(entity.clone());
        }
    }

    /// Returns the sender of an entity in the transactions of a session, if another one may transfer its messages.
    pub(crate) fn via(&self, session: SessionId, sender: &QueueSender) -> Option<QueueSender> {
        let first = self.cross_entity.get(&session)?.as_ref()?;
        Some(match first {
            Entity::Queue(via) => sender.via(via),
            Entity::Topic(via) => sender.via_topic(via),
        })
    }
}
