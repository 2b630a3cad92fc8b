//! The links of a connection.

mod attach;
mod cross_entity;
mod ended;
pub(crate) mod incoming;
pub(crate) mod leases;
mod outgoing;
mod session;
pub(crate) mod settle;

use std::{collections::VecDeque, sync::Arc};

use consign_amqp::{
    engine::{Connection as Engine, LinkId},
    value::Str,
};
use tokio::{sync::oneshot, time::Instant};

pub(crate) use self::{
    incoming::Incoming,
    outgoing::{Outgoing, Source},
    session::{Accepting, Wanted},
};
use crate::{
    auth::Rights,
    nodes::{node::Node, reply::Waiting},
};

/// A link of a client.
pub(crate) struct Link {
    /// The name that the client gave it.
    pub(crate) name: Str,
    pub(crate) kind: Kind,
    /// When a frame of the client was last read for it, or it was last written.
    pub(crate) active: Instant,
}

/// What a link does.
pub(crate) enum Kind {
    /// The client sends messages to an entity.
    Incoming(Box<Incoming>),
    /// The client receives messages of an entity.
    Outgoing(Box<Outgoing>),
    /// The client waits for a session, to receive its messages.
    Accepting(Box<Accepting>),
    /// The client sends requests to a node. Those since the credit was set are counted.
    Requests { node: Node, used: u32 },
    /// The client receives the answers of a node.
    Replies(Replies),
    /// The client declares and discharges transactions.
    Coordinator,
}

/// A link on which a client receives answers.
pub(crate) struct Replies {
    node: Node,
    /// The client's address of the link, as the requests name it. Some clients have none.
    address: Option<Str>,
    /// Answers that wait for credit.
    waiting: VecDeque<Waiting>,
}

impl Replies {
    pub(crate) fn new(node: Node, address: Option<Str>) -> Self {
        Self { node, address, waiting: VecDeque::new() }
    }

    /// Returns whether the link is of a node, and whether it has this address.
    pub(crate) fn fits(&self, node: &Node, address: Option<&str>) -> Option<bool> {
        self.node.is(node).then(|| self.address.as_deref() == address)
    }

    pub(crate) fn waiting(&mut self) -> &mut VecDeque<Waiting> {
        &mut self.waiting
    }
}

impl Kind {
    /// Returns the entity of the link, and the rights that it needs. A management node needs any.
    pub(crate) fn needs(&self) -> Option<(&Arc<str>, Option<Rights>)> {
        match self {
            Self::Incoming(link) => Some((&link.entity, Some(Rights::SEND))),
            Self::Outgoing(link) => Some((&link.entity, Some(Rights::LISTEN))),
            Self::Accepting(link) => Some((&link.entity, Some(Rights::LISTEN))),
            Self::Requests { node: Node::Management { key, .. }, .. }
            | Self::Replies(Replies { node: Node::Management { key, .. }, .. }) => Some((key, None)),
            Self::Requests { node: Node::Cbs, .. } | Self::Replies(_) | Self::Coordinator => None,
        }
    }

    /// Returns whether the link is one of `$cbs`, which a connection does not stay open for.
    pub(crate) fn is_cbs(&self) -> bool {
        matches!(self, Self::Requests { node: Node::Cbs, .. } | Self::Replies(Replies { node: Node::Cbs, .. }))
    }

    /// Returns whether the client waits for something on the link.
    pub(crate) fn is_waiting(&self, engine: &Engine, id: LinkId) -> bool {
        match self {
            Self::Outgoing(_) => engine.credit_left(id) > 0,
            Self::Accepting(_) => true,
            _ => false,
        }
    }
}

/// Ends the wait of a link for a session when it is dropped.
pub(crate) type Cancel = oneshot::Sender<()>;
