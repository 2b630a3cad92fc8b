//! Answers to attaches.

use std::sync::Arc;

use consign_amqp::{
    engine::{Connection as Engine, LinkId},
    types::{Attach, AttachTarget, Released, Role, SenderSettleMode, Target, TerminusDurability},
    value::{Map, Str, Symbol},
};
use consign_broker::QueueSender;
use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ReceiveMode},
};
use tokio::time::Instant;

use super::{Accepting, Incoming, Kind, Link, Node, Outgoing, Replies, Source, Wanted, session};
use crate::{
    auth::Rights,
    connection::{Client, LinkWake},
    entities::{Address, Creation, Entity, key},
    errors::Failure,
};

/// The link property with the size of the largest batch, a long. Clients would fill a batch to the size of a message.
const MAX_BATCH: &str = "com.microsoft:max-message-batch-size";
/// The link property that names the entity to which a sender transfers its messages.
const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";

/// The least size of a request that a node accepts.
const MIN_REQUEST: u64 = 1 << 20;
/// How much larger a request or a delivery is than the message in it, at most.
const OVER_SIZE: u64 = 64 << 10;

/// The largest message that azure-servicebus (Python) announces: the size of its frames. It accepts larger ones.
const SIZE_OF_PYTHON: u64 = 1 << 20;

/// The most links of `$cbs` of a connection. The SDKs have two.
const MAX_CBS: usize = 32;

/// The most coordinators of a connection whose client has no right. The SDK for Java attaches one before it puts its first token.
const MAX_COORDINATORS: usize = 32;

/// The expiry policy of a terminus that goes with its link.
const LINK_DETACH: Symbol = Symbol::from_static("link-detach");

/// The longest name of a link, in bytes.
const MAX_NAME: usize = 1_024;

/// A node that the server would make for the link.
fn dynamic() -> Failure {
    let text = "Nodes are not created for a link (dynamic): attach to the address of an entity, for replies too.";
    Failure::new(ErrorKind::NotSupported, text)
}

/// A terminus without an address.
fn anonymous() -> Failure {
    let text = "A link without an address is not supported: attach to the address of each entity.";
    Failure::new(ErrorKind::NotSupported, text)
}

impl Client {
    /// Answers an attach of the client, or waits for a session to answer with.
    pub(crate) fn attach(&mut self, engine: &mut Engine, link: LinkId, attach: Attach) {
        let attached = if self.is_closing() {
            Err(Failure::new(ErrorKind::ServiceBusy, "the server shuts down"))
        } else if attach.name.len() > MAX_NAME {
            Err(Failure::argument(format!("The name of a link has at most {MAX_NAME} bytes.")))
        } else {
            match attach.role {
                Role::Sender => self.attach_incoming(engine, link, attach),
                Role::Receiver => self.attach_outgoing(engine, link, attach),
            }
        };
        if let Err(failure) = attached {
            tracing::debug!(
                ?link,
                condition = failure.condition.as_str(),
                "an attach is refused: {}",
                failure.description
            );
            // The client may have detached it meanwhile.
            let _ = engine.refuse(link, failure.error());
        }
    }

    fn attach_incoming(&mut self, engine: &mut Engine, link: LinkId, attach: Attach) -> Result<(), Failure> {
        let address = match &attach.target {
            Some(AttachTarget::Coordinator(_)) => {
                self.check_coordinator()?;
                self.coordinator_attached(link.session());
                self.accept(engine, link, attach, Some(MIN_REQUEST), Map::default(), Kind::Coordinator);
                let _ = engine.credit(link, self.shared.limits.sender_credit);
                return Ok(());
            }
            Some(AttachTarget::Target(target)) if target.dynamic => return Err(dynamic()),
            Some(AttachTarget::Target(target)) => target.address.clone().ok_or_else(anonymous)?,
            None => return Err(Failure::argument("an attach of a sender has a target")),
        };
        let mut properties = Map::default();
        let (kind, max) = match Address::parse(&address)? {
            Address::Cbs => {
                self.check_cbs()?;
                (Kind::Requests { node: Node::Cbs, used: 0 }, MIN_REQUEST)
            }
            Address::Management(path) => {
                let node = self.management(&path)?;
                // A request has the state of a session, or messages to schedule.
                let max = match &node {
                    Node::Management { entity, .. } => entity.max_delivery_size(&self.shared.broker) + OVER_SIZE,
                    Node::Cbs => 0,
                };
                (Kind::Requests { node, used: 0 }, max.max(MIN_REQUEST))
            }
            Address::Entity(path) => {
                let destination = attach.properties.as_ref().and_then(|sent| sent.get(TRANSFER_DESTINATION));
                let destination = destination.and_then(|destination| destination.as_str());
                let (incoming, entity) = self.incoming(&path, destination)?;
                self.entity_attached(link.session(), &entity);
                let via = if destination.is_some() { None } else { self.via(link.session(), &incoming.sender) };
                let incoming = incoming.via(via);
                if let Some(destination) = destination {
                    properties.push(Symbol::from_static(TRANSFER_DESTINATION), destination);
                }
                let max = incoming.max_message_size;
                let batch = i64::try_from(max.min(QueueSender::MAX_BATCH as u64)).unwrap_or(i64::MAX);
                properties.push(Symbol::from_static(MAX_BATCH), batch);
                (Kind::Incoming(Box::new(incoming)), max)
            }
        };
        self.accept(engine, link, attach, Some(max), properties, kind);
        // The link may be refused already.
        let _ = engine.credit(link, self.shared.limits.sender_credit);
        Ok(())
    }

    fn incoming(&self, path: &EntityPath, destination: Option<&str>) -> Result<(Incoming, Entity), Failure> {
        self.check(path, Rights::SEND, "Send")?;
        if path.is_sub_queue() {
            return Err(Failure::new(ErrorKind::InvalidOperation, "A message cannot be sent to a sub-queue."));
        }
        if path.subscription().is_some() {
            let text = "A message cannot be sent to a subscription, only to its topic.";
            return Err(Failure::new(ErrorKind::InvalidOperation, text));
        }
        let entity = Entity::find(&self.shared.broker, path, self.creation(false))?;
        let Some(destination) = destination else {
            let sender = entity.sender().map_err(Failure::from)?;
            return Ok((Incoming::new(sender, entity.key(), entity.max_message_size()), entity));
        };
        let Address::Entity(to) = Address::parse(destination)? else {
            return Err(Failure::argument("the destination of a transfer is an entity"));
        };
        self.check(&to, Rights::SEND, "Send")?;
        let to = Entity::find(&self.shared.broker, &to, self.creation(false))?;
        let sender = to.sender().map_err(Failure::from)?;
        let sender = match &entity {
            Entity::Queue(via) => sender.via(via),
            Entity::Topic(via) => sender.via_topic(via),
        };
        Ok((Incoming::new(sender, entity.key(), to.max_message_size()), entity))
    }

    fn attach_outgoing(&mut self, engine: &mut Engine, link: LinkId, mut attach: Attach) -> Result<(), Failure> {
        let source = attach.source.as_deref().cloned().unwrap_or_default();
        // The answer has what applies. A session has its filter set later.
        if let Some(answered) = attach.source.as_deref_mut() {
            answered.filter = source.filter.as_ref().and_then(session::filter);
            answered.distribution_mode = source.distribution_mode.as_ref().map(|_| Symbol::from_static("move"));
            answered.default_outcome = source.default_outcome.as_ref().map(|_| Released {}.into());
        }
        if source.dynamic {
            return Err(dynamic());
        }
        let address = source.address.clone().ok_or_else(anonymous)?;
        let path = match Address::parse(&address)? {
            Address::Cbs => {
                self.check_cbs()?;
                self.replies(engine, link, attach, Node::Cbs);
                return Ok(());
            }
            Address::Management(path) => {
                let node = self.management(&path)?;
                self.replies(engine, link, attach, node);
                return Ok(());
            }
            Address::Entity(path) => path,
        };
        self.check(&path, Rights::LISTEN, "Listen")?;
        if source.distribution_mode.is_some_and(|mode| mode == *"copy") {
            let text = "A receiver takes messages: they are peeked by $management.";
            return Err(Failure::new(ErrorKind::NotSupported, text));
        }
        let wanted = session::wanted(source.filter.as_ref())?;
        let entity = Entity::find(&self.shared.broker, &path, self.creation(wanted.is_some()))?;
        let Entity::Queue(queue) = &entity else {
            let text = "A topic has no messages to receive: receive from a subscription.";
            return Err(Failure::new(ErrorKind::InvalidOperation, text));
        };
        let settings = queue.settings().map_err(Failure::from)?;
        if let Some(forward_to) = &settings.forward_to
            && !path.is_sub_queue()
        {
            let text = format!("The entity forwards its messages to '{forward_to}', and cannot be received from.");
            return Err(Failure::new(ErrorKind::InvalidOperation, text));
        }
        if !settings.status.allows_receive() {
            return Err(Failure::new(ErrorKind::EntityDisabled, format!("The entity '{path}' is disabled.")));
        }
        let mode = match attach.snd_settle_mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        };
        // What was deleted on delivery cannot be put back. A delivery has more annotations than the message that was sent.
        let largest = entity.max_delivery_size(&self.shared.broker).saturating_add(OVER_SIZE);
        let accepts_all = attach.max_message_size.is_none_or(|max| max == 0 || max >= largest);
        if mode == ReceiveMode::ReceiveAndDelete && !accepts_all && !self.accepts_larger(&attach) {
            let text = format!("The entity has deliveries of up to {largest} bytes.");
            return Err(Failure::new(ErrorKind::MessageSizeExceeded, text));
        }
        let requires_session = settings.requires_session && !path.is_sub_queue();
        match wanted {
            None if requires_session => {
                let text = "It is not possible for an entity that requires sessions to create a non-sessionful \
                            message receiver.";
                Err(Failure::new(ErrorKind::InvalidOperation, text))
            }
            Some(_) if !requires_session => {
                let text = "A session cannot be accepted on an entity that does not require sessions.";
                Err(Failure::new(ErrorKind::InvalidOperation, text))
            }
            None => {
                let receiver = match mode {
                    ReceiveMode::PeekLock => queue.receiver(),
                    ReceiveMode::ReceiveAndDelete => queue.receive_and_delete(),
                };
                let wake = LinkWake::new(link, self.wakes());
                let outgoing = Outgoing::new(Source::Queue(receiver), mode, entity.key(), None, wake);
                self.entity_attached(link.session(), &entity);
                self.accept(engine, link, attach, None, Map::default(), Kind::Outgoing(Box::new(outgoing)));
                self.pump(engine, link);
                Ok(())
            }
            Some(Wanted::Named(id)) => {
                let acceptor = session::acceptor(queue, mode)?;
                let session = acceptor.accept(&id)?;
                self.entity_attached(link.session(), &entity);
                self.attach_session(engine, link, attach, entity.key(), session, mode);
                Ok(())
            }
            Some(Wanted::Next) => {
                let acceptor = session::acceptor(queue, mode)?;
                let accepting = Accepting::new(attach, entity.key(), mode);
                self.entity_attached(link.session(), &entity);
                self.wait_for_session(link, acceptor, accepting);
                Ok(())
            }
        }
    }

    /// Whether a receiver accepts larger messages than it announces.
    fn accepts_larger(&self, attach: &Attach) -> bool {
        self.is_python && attach.max_message_size == Some(SIZE_OF_PYTHON)
    }

    fn check_cbs(&self) -> Result<(), Failure> {
        if self.links.values().filter(|link| link.kind.is_cbs()).count() < MAX_CBS {
            return Ok(());
        }
        let text = format!("A connection has at most {MAX_CBS} links of $cbs.");
        Err(Failure::new(ErrorKind::QuotaExceeded, text))
    }

    fn check_coordinator(&self) -> Result<(), Failure> {
        let is_coordinator = |link: &&Link| matches!(link.kind, Kind::Coordinator);
        if self.held.has_right(Instant::now()) || self.links.values().filter(is_coordinator).count() < MAX_COORDINATORS
        {
            return Ok(());
        }
        let text = format!("A connection without a token has at most {MAX_COORDINATORS} coordinators.");
        Err(Failure::new(ErrorKind::QuotaExceeded, text))
    }

    fn replies(&mut self, engine: &mut Engine, link: LinkId, attach: Attach, node: Node) {
        let address = match &attach.target {
            Some(AttachTarget::Target(target)) => target.address.as_ref().map(Str::to_owned_memory),
            _ => None,
        };
        let replies = Replies::new(node, address.filter(|address| !address.is_empty()));
        self.accept(engine, link, attach, None, Map::default(), Kind::Replies(replies));
    }

    /// The management node of an entity, for a client with any right.
    fn management(&self, path: &EntityPath) -> Result<Node, Failure> {
        let key = key(path);
        if self.held.of(&key, Instant::now()) == Rights::NONE {
            return Err(Failure::unauthorized("Send, Listen", path.as_str()));
        }
        let entity = Entity::find(&self.shared.broker, path, self.creation(false))?;
        Ok(Node::Management { key: entity.key(), entity })
    }

    pub(crate) fn check(&self, path: &EntityPath, needed: Rights, name: &str) -> Result<(), Failure> {
        if self.held.of(&key(path), Instant::now()).contains(needed) {
            return Ok(());
        }
        tracing::debug!(entity = %path, needed = name, "a client lacks a right");
        Err(Failure::unauthorized(name, path.as_str()))
    }

    fn creation(&self, sessions: bool) -> Option<Creation> {
        self.shared.create_entities.then_some(Creation { sessions })
    }

    /// Accepts a link, with a source and a target.
    pub(super) fn accept(
        &mut self,
        engine: &mut Engine,
        link: LinkId,
        attach: Attach,
        max_message_size: Option<u64>,
        properties: Map,
        kind: Kind,
    ) {
        let name = attach.name.to_owned_memory();
        let accepts_larger = matches!(kind, Kind::Outgoing(_)) && self.accepts_larger(&attach);
        let mut source = attach.source.unwrap_or_default();
        let mut target = attach.target.unwrap_or_else(|| Target::default().into());
        // The terminus of this end goes with its link, which is not resumed.
        match (attach.role, &mut target) {
            (Role::Receiver, _) => {
                source.durable = TerminusDurability::None;
                source.expiry_policy = LINK_DETACH;
                source.timeout = 0;
            }
            (Role::Sender, AttachTarget::Target(target)) => {
                target.durable = TerminusDurability::None;
                target.expiry_policy = LINK_DETACH;
                target.timeout = 0;
            }
            (Role::Sender, AttachTarget::Coordinator(_)) => {}
        }
        let answer = Attach {
            source: Some(source),
            target: Some(target),
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            max_message_size,
            properties: (!properties.is_empty()).then_some(properties),
            ..Attach::default()
        };
        match engine.accept(link, answer) {
            Ok(()) => {
                if accepts_larger {
                    // The link may be detached meanwhile.
                    let _ = engine.set_peer_message_size(link, None);
                }
                self.add(link, name, kind);
            }
            // The client has detached it meanwhile, or its answer does not fit into a frame.
            Err(error) => {
                tracing::debug!(?link, %error, "an attach was not answered");
                let _ = engine.refuse(link, Failure::argument(error.to_string()).error());
            }
        }
    }

    /// The key of the entity of a link, for the session that it holds.
    pub(crate) fn session_key(entity: &Arc<str>, session: &str) -> (Arc<str>, Arc<str>) {
        (Arc::clone(entity), session.into())
    }
}
