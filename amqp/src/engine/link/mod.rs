mod attach;
mod detach;
mod receiver;
mod sender;

pub(super) use self::{
    receiver::{Incomplete, Receiver},
    sender::Sender,
};
use super::LinkId;
use crate::{types::Role, value::Str};

/// What the peer uses a handle for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handle {
    Unused,
    /// Of the link on this handle of our own.
    Live(u32),
    /// Its frames are ignored: clients send dozens that crossed the detach.
    Detached,
}

/// How far a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// An attach was sent, and not answered.
    Offered,
    /// The peer's attach is with the application.
    Requested,
    Attached,
    /// The peer has refused it, and its detach is to come.
    Refused,
    /// A detach was sent: frames but the peer's detach are ignored.
    Detaching {
        /// Whether the application has the event.
        reported: bool,
    },
}

/// One link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) name: Str,
    pub(super) state: LinkState,
    /// The link was attached by the peer.
    pub(super) by_peer: bool,
    /// Whether this end has attached it, and the peer has not.
    pub(super) unanswered: bool,
    /// The delivery count; of a receiver none before the sender's attach.
    pub(super) delivery_count: Option<u32>,
    /// The deliveries that may follow.
    pub(super) credit: u32,
    /// Whether the credit is to be used up.
    pub(super) drain: bool,
    pub(super) end: End,
}

/// This end of the link.
#[derive(Debug)]
pub(super) enum End {
    Sender(Sender),
    Receiver(Receiver),
}

impl Link {
    pub(super) const fn role(&self) -> Role {
        match self.end {
            End::Sender(_) => Role::Sender,
            End::Receiver(_) => Role::Receiver,
        }
    }

    pub(super) const fn is_detaching(&self) -> bool {
        matches!(self.state, LinkState::Detaching { .. })
    }
}
