use std::{
    collections::{HashMap, HashSet},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use consign_amqp::{
    engine::{Connection as Engine, DeliveryId, LinkId, SessionId},
    types::{DeliveryState, Error, condition},
    value::Str,
};
use consign_broker::SessionReceiver;
use consign_core::{message::LockToken, transport::SettleError};
use futures_util::stream::FuturesUnordered;
use rustc_hash::FxBuildHasher;
use tokio::time::Instant;

use super::{idle::Idle, rights::Held, wakes::Wakes};
use crate::{
    entities::Entity,
    errors::Failure,
    links::{Kind, Link},
    nodes::reply::Reply,
    places::Place,
    shared::Shared,
    transactions::{Discharged, Transactions},
};

/// A call of the broker that is not answered yet.
pub(crate) type Call = Pin<Box<dyn Future<Output = Done> + Send>>;

/// The state of a connection.
pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    /// The engine chooses the ids, so that a client cannot make them collide.
    pub(crate) links: HashMap<LinkId, Link, FxBuildHasher>,
    pub(crate) held: Held,
    pub(crate) transactions: Transactions,
    /// Whether the client is azure-servicebus for Python.
    pub(crate) is_python: bool,
    /// Sessions whose first link is a coordinator, and the entity of the first link after it.
    pub(crate) cross_entity: HashMap<SessionId, Option<Entity>, FxBuildHasher>,
    /// Calls whose answer a client waits for.
    pub(crate) calls: FuturesUnordered<Call>,
    /// Links that wait for a session.
    pub(crate) accepts: FuturesUnordered<Call>,
    /// Locked sessions: the link by entity and session id.
    pub(crate) sessions: HashMap<(Arc<str>, Arc<str>), LinkId>,
    /// Locks of messages that were fetched by sequence number, or that a transaction has rolled back.
    pub(crate) fetched: HashSet<LockToken>,
    /// Links with credit that wait for the window of their session, or for settlements.
    stalled: Vec<LinkId>,
    /// Links with credit that wait for output to be written.
    unwritten: Vec<LinkId>,
    /// When to look again for deliveries that a client cannot settle any more, while links wait for settlements.
    pub(crate) unsettled_due: Option<Instant>,
    /// Requests whose answer is not sent yet.
    pub(crate) requests: usize,
    /// Whether a link has no credit for requests, as there are too many without an answer.
    pub(crate) withheld: bool,
    /// The bytes of the answers that wait for credit.
    pub(crate) reply_bytes: usize,
    pub(super) idle: Idle,
    pub(super) place: Place,
    wakes: Arc<Wakes>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Calls are answered, then the connection is closed.
    ShuttingDown,
    /// The close frame is sent.
    Closing,
    Closed,
}

/// A call that is answered.
pub(crate) enum Done {
    /// The broker has decided on deliveries of a client.
    Sent { link: LinkId, delivery: DeliveryId, settled: bool, state: DeliveryState },
    /// The broker has settled deliveries to a client.
    Settled { link: LinkId, deliveries: Vec<DeliveryId>, settled: bool, state: DeliveryState },
    /// The broker has completed deliveries to a client, except those that failed, by their place.
    Completed { link: LinkId, deliveries: Vec<DeliveryId>, settled: bool, failed: Vec<(usize, SettleError)> },
    /// The answer to a request.
    Replied(Reply),
    /// A link has its session, or has not. The answer is none if the client has detached the link.
    Accepted { link: LinkId, session: Option<Result<SessionReceiver, Failure>> },
    /// A transaction has ended.
    Discharged(Discharged),
}

impl Client {
    pub(super) fn new(shared: Arc<Shared>, place: Place, now: Instant) -> Self {
        Self {
            place,
            held: Held::new(shared.limits.max_tokens),
            transactions: Transactions::default(),
            links: HashMap::default(),
            calls: FuturesUnordered::new(),
            accepts: FuturesUnordered::new(),
            sessions: HashMap::new(),
            fetched: HashSet::new(),
            stalled: Vec::new(),
            unwritten: Vec::new(),
            unsettled_due: None,
            requests: 0,
            withheld: false,
            is_python: false,
            cross_entity: HashMap::default(),
            reply_bytes: 0,
            idle: Idle::new(now),
            wakes: Arc::default(),
            phase: Phase::Open,
            shared,
        }
    }

    pub(crate) fn wakes(&self) -> &Arc<Wakes> {
        &self.wakes
    }

    pub(super) fn is_stalled(&self) -> bool {
        !self.unwritten.is_empty() && self.phase == Phase::Open
    }

    /// Notes that a link with credit cannot send now.
    pub(crate) fn stall(&mut self, engine: &Engine, link: LinkId) {
        let stalled = if engine.is_output_full() { &mut self.unwritten } else { &mut self.stalled };
        if !stalled.contains(&link) {
            stalled.push(link);
        }
    }

    /// Takes the links that could not send: those of a session, or those that waited for output to be written.
    pub(crate) fn take_stalled(&mut self, session: Option<SessionId>) -> Vec<LinkId> {
        match session {
            None => std::mem::take(&mut self.unwritten),
            Some(_) if self.stalled.is_empty() => Vec::new(),
            Some(session) => self.stalled.extract_if(.., |link| link.session() == session).collect(),
        }
    }

    /// Goes on with the links that wait for settlements, as locks may have ended meanwhile.
    pub(super) fn resume_unsettled(&mut self, engine: &mut Engine, now: Instant) {
        let Some(due) = self.unsettled_due.filter(|due| *due <= now) else { return };
        for link in std::mem::take(&mut self.stalled) {
            self.pump_any(engine, link);
        }
        // A link that still waits for settlements has set another time. Others wait for a window.
        if self.unsettled_due == Some(due) {
            self.unsettled_due = None;
        }
    }

    /// Returns whether no new work is begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Ends the connection when the calls that are under way are answered.
    pub(super) fn shut_down(&mut self) {
        self.phase = Phase::ShuttingDown;
    }

    /// Closes the connection with an error.
    pub(crate) fn close(&mut self, engine: &mut Engine, error: Error) {
        if matches!(self.phase, Phase::Open | Phase::ShuttingDown) {
            // A connection that is closed already has its last event.
            let _ = engine.close(Some(error));
            self.phase = Phase::Closing;
            self.drop_all();
        }
    }

    /// The connection is closed.
    pub(super) fn closed(&mut self) {
        self.phase = Phase::Closed;
        self.drop_all();
    }

    /// What follows each turn.
    pub(super) fn finish(&mut self, engine: &mut Engine) {
        self.renew_request_credit(engine);
        if self.phase == Phase::ShuttingDown && self.calls.is_empty() {
            self.close(engine, Error::new(condition::CONNECTION_FORCED, "the server shuts down"));
        }
    }

    /// Answers at once if the call is answered, and otherwise when it is.
    pub(crate) fn call<T, F>(&mut self, engine: &mut Engine, mut call: F, done: impl FnOnce(T) -> Done + Send + 'static)
    where
        T: 'static,
        F: Future<Output = T> + Send + Unpin + 'static,
    {
        match Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => self.done(engine, done(answer)),
            Poll::Pending => self.calls.push(Box::pin(async move { done(call.await) })),
        }
    }

    /// Takes the answer of a call to its link.
    pub(crate) fn done(&mut self, engine: &mut Engine, done: Done) {
        match done {
            Done::Sent { link, delivery, settled, state } => self.sent(engine, link, delivery, settled, &state),
            Done::Settled { link, deliveries, settled, state } => {
                if !settled {
                    // The link may be detached meanwhile.
                    let _ = engine.settle(link, deliveries, Some(&state), true);
                }
                self.resume(engine, Some(link.session()));
            }
            Done::Completed { link, deliveries, settled, failed } => {
                self.completed(engine, link, deliveries, settled, failed);
            }
            Done::Replied(reply) => self.reply(engine, reply),
            Done::Accepted { link, session } => self.accepted(engine, link, session),
            Done::Discharged(discharged) => self.discharged(engine, discharged),
        }
    }

    /// Detaches a link for an error.
    pub(crate) fn detach(&mut self, engine: &mut Engine, link: LinkId, failure: Failure) {
        tracing::debug!(?link, condition = failure.condition.as_str(), "a link is detached: {}", failure.description);
        let waits = matches!(self.links.get(&link), Some(Link { kind: Kind::Accepting(_), .. }));
        // What the client sends on it from now on is dropped, and so is what was received in part.
        if !waits {
            self.transactions.fail_all();
        }
        // The client may have detached it meanwhile.
        let _ =
            if waits { engine.refuse(link, failure.error()) } else { engine.detach(link, true, Some(failure.error())) };
        self.remove(link);
        // Its unsettled deliveries count no more.
        self.resume(engine, Some(link.session()));
    }

    /// Adds a link.
    pub(crate) fn add(&mut self, id: LinkId, name: Str, kind: Kind) {
        if !kind.is_cbs() {
            self.idle.used();
        }
        let now = Instant::now();
        self.idle_link_due(now);
        self.links.insert(id, Link { name, kind, active: now });
    }

    /// Forgets a link, and ends what it holds.
    pub(crate) fn remove(&mut self, id: LinkId) {
        let Some(link) = self.links.remove(&id) else { return };
        self.stalled.retain(|stalled| *stalled != id);
        self.unwritten.retain(|unwritten| *unwritten != id);
        self.check_alone();
        match link.kind {
            Kind::Outgoing(link) => {
                link.warn_of_unsent();
                if let Some(session) = &link.session {
                    let key = (Arc::clone(&link.entity), Arc::clone(session));
                    if self.sessions.get(&key) == Some(&id) {
                        self.sessions.remove(&key);
                    }
                }
                // The locks first: a session that is closed releases them without a count.
                self.shared.locks.orphan(link.unsettled.values().copied(), &self.shared.broker);
                drop(link.source);
            }
            Kind::Replies(mut replies) => {
                for answer in replies.waiting().drain(..) {
                    self.requests = self.requests.saturating_sub(1);
                    self.reply_bytes = self.reply_bytes.saturating_sub(answer.payload.len());
                }
            }
            Kind::Coordinator => self.roll_back_all(id),
            Kind::Incoming(_) | Kind::Accepting(_) | Kind::Requests { .. } => {}
        }
    }

    fn drop_all(&mut self) {
        self.stalled.clear();
        self.unwritten.clear();
        let links: Vec<_> = self.links.keys().copied().collect();
        for link in links {
            self.remove(link);
        }
        self.accepts.clear();
        let fetched = std::mem::take(&mut self.fetched);
        self.shared.locks.orphan(fetched, &self.shared.broker);
    }
}

/// The future may be dropped at any time.
impl Drop for Client {
    fn drop(&mut self) {
        self.drop_all();
    }
}
