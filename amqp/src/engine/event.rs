use super::{Delivery, DeliveryId, LinkId, SessionId, Violation};
use crate::{
    types::{Attach, Begin, DeliveryState, Error, Open, Role, SaslCode, SaslInit},
    value::{Binary, Map},
};

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A client authenticates. The server answers with [`Connection::sasl_outcome`](super::Connection::sasl_outcome) or
    /// [`Connection::sasl_challenge`](super::Connection::sasl_challenge). The mechanism is one of those offered.
    SaslInit(Box<SaslInit>),
    /// The server sent a challenge. The client answers with [`Connection::sasl_response`](super::Connection::sasl_response).
    SaslChallenge(Binary),
    /// The client answered a challenge.
    SaslResponse(Binary),
    /// The server accepted the client's credentials. A client may call [`Connection::open`](super::Connection::open) before.
    Authenticated,
    /// The peer opened the connection. If this end has not opened it yet, it answers with
    /// [`Connection::open`](super::Connection::open).
    Opened(Box<Open>),
    /// A session began. The engine has answered a session that the peer began.
    Begun {
        /// The session.
        session: SessionId,
        /// The peer's begin.
        begin: Box<Begin>,
        /// Whether the peer began it, and not this end.
        by_peer: bool,
    },
    /// The peer attaches a link. The application answers with [`Connection::accept`](super::Connection::accept) or
    /// [`Connection::refuse`](super::Connection::refuse), at any time.
    ///
    /// Deliveries may follow before the answer, as some clients do not wait for it.
    AttachRequested {
        /// The link.
        link: LinkId,
        /// The peer's attach. Its role is that of the peer.
        attach: Box<Attach>,
    },
    /// The peer answered an attach of this end. A refusal gives [`Event::Detached`] instead.
    Attached {
        /// The link.
        link: LinkId,
        /// The peer's attach. Its role is that of the peer.
        attach: Box<Attach>,
    },
    /// The receiver of a sending link changed the credit. [`Connection::sendable`](super::Connection::sendable) says how many
    /// deliveries may be sent now.
    CreditChanged {
        /// The sending link.
        link: LinkId,
        /// The deliveries that the receiver accepts, when its flow was read: [`Connection::credit_left`](super::Connection::credit_left)
        /// has those that it accepts now.
        credit: u32,
        /// Whether the credit is to be used up now: send what there is, then call
        /// [`Connection::drained`](super::Connection::drained).
        drain: bool,
        /// Properties of the flow.
        properties: Option<Map>,
    },
    /// The sender of a receiving link has used up the credit, as [`Connection::drain`](super::Connection::drain) requested.
    CreditDrained {
        /// The receiving link.
        link: LinkId,
    },
    /// The window of the session allows transfers again. Sending links with credit may go on.
    WindowOpened {
        /// The session.
        session: SessionId,
    },
    /// A complete delivery of a receiving link.
    Delivery(Delivery),
    /// A complete delivery that is larger than its link accepts, with [`Options::report_too_large`](super::Options::report_too_large).
    /// It has used a credit. If it is not settled, it is tracked until the application settles it.
    DeliveryTooLarge {
        /// The receiving link.
        link: LinkId,
        /// The delivery.
        id: DeliveryId,
        /// Whether the sender has settled it.
        settled: bool,
        /// The state that the sender gave it.
        state: Option<DeliveryState>,
        /// The bytes of its payload.
        size: u64,
    },
    /// The sender gave up a delivery of which a part was received. It has used a credit.
    DeliveryAborted {
        /// The receiving link.
        link: LinkId,
    },
    /// The peer reported the state of deliveries.
    Disposition {
        /// The session.
        session: SessionId,
        /// The peer's end of the links: a receiver reports on deliveries that this end sent.
        role: Role,
        /// The deliveries of the report that are tracked, with their links, by ascending id. Never empty.
        ///
        /// A settled delivery is no longer tracked.
        deliveries: DeliveryList,
        /// Their state.
        state: Option<DeliveryState>,
        /// Whether the peer has settled them.
        settled: bool,
    },
    /// A part of a transaction was dropped: a transfer on a link that this end has detached, or a state of deliveries that are not all
    /// tracked. A transaction without it must not be committed.
    TransactionIncomplete {
        /// The session.
        session: SessionId,
        /// The id of the transaction.
        txn_id: Binary,
    },
    /// A link is detached. Its unsettled deliveries are no longer tracked. The engine has answered the peer's detach.
    Detached {
        /// The link.
        link: LinkId,
        /// Whether the peer closed it, which discards its state.
        closed: bool,
        /// Why.
        reason: Reason,
    },
    /// A session has ended, and its links with it. The engine has answered the peer's end.
    Ended {
        /// The session.
        session: SessionId,
        /// Why.
        reason: Reason,
    },
    /// The connection is closed. This is the last event. What is left of the output can still be written.
    Closed {
        /// Why.
        reason: Reason,
    },
}

/// Why a connection, a session or a link came to its end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// This end requested it, and the peer has confirmed it, with an error if it had one of its own.
    Local(Option<Box<Error>>),
    /// The peer requested it, with an error or without.
    Peer(Option<Box<Error>>),
    /// The peer violated the protocol or a limit. The peer was told the [condition](Violation::condition).
    Violation(Box<Violation>),
    /// The server refused the credentials, or this end refused those of the client.
    SaslRefused(SaslCode),
    /// The transport was closed without a close frame.
    Disconnected,
}

/// Deliveries and their links, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryList {
    first: (LinkId, DeliveryId),
    /// A report on one delivery allocates nothing.
    rest: Vec<(LinkId, DeliveryId)>,
}

impl DeliveryList {
    pub(super) const fn new(first: (LinkId, DeliveryId)) -> Self {
        Self { first, rest: Vec::new() }
    }

    pub(super) fn push(&mut self, next: (LinkId, DeliveryId)) {
        self.rest.push(next);
    }

    /// Returns the deliveries by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, DeliveryId)> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// Returns the deliveries of one link by ascending id.
    pub fn of(&self, link: LinkId) -> impl Iterator<Item = DeliveryId> + '_ {
        self.iter().filter(move |(of, _)| *of == link).map(|(_, delivery)| delivery)
    }

    /// Returns the number of deliveries, at least 1.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(&self) -> usize {
        1 + self.rest.len()
    }
}
