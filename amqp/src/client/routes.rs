//! Where the events of a connection go.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::Error;
use crate::{
    driver::Application,
    engine::{Connection as Engine, Delivery, DeliveryId, Event, LinkId, Reason, SessionId},
    types::{Attach, DeliveryState, Open, Role},
};

/// What the handles of a connection wait for.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) opened: Option<Arc<Open>>,
    pub(super) closed: Option<Reason>,
    pub(super) changed: Arc<Notify>,
    pub(super) sessions: HashMap<SessionId, SessionRoute>,
    pub(super) links: HashMap<LinkId, LinkRoute>,
    /// Links with a send that waits until the engine accepts one.
    pub(super) stalled: Vec<LinkId>,
}

#[derive(Default)]
pub(super) struct SessionRoute {
    pub(super) begun: bool,
    pub(super) ended: Option<Reason>,
    pub(super) changed: Arc<Notify>,
}

#[derive(Default)]
pub(super) struct LinkRoute {
    pub(super) attached: Option<Arc<Attach>>,
    pub(super) detached: Option<Reason>,
    pub(super) changed: Arc<Notify>,
    /// Deliveries that are not received by the application yet: at most the credit of the link, and the overrun.
    pub(super) deliveries: VecDeque<Delivery>,
    pub(super) receiver: Option<Waker>,
    /// Whether the sender has used up the credit.
    pub(super) drained: bool,
    /// Sends that have not handed over their message.
    pub(super) sends: usize,
    /// Whether the receiver wants the credit to be used up.
    pub(super) drain: bool,
    /// What waits for the outcome of a delivery, at most as many as may be unsettled.
    pub(super) outcomes: HashMap<DeliveryId, oneshot::Sender<Option<DeliveryState>>>,
    /// Since when the peer has sent no outcome, while it owes one.
    pub(super) silent_since: Option<Instant>,
}

impl LinkRoute {
    /// Has the outcome of a delivery go to `outcome`.
    pub(super) fn expect(&mut self, delivery: DeliveryId, outcome: oneshot::Sender<Option<DeliveryState>>) {
        self.silent_since.get_or_insert_with(Instant::now);
        self.outcomes.insert(delivery, outcome);
    }

    /// Takes what waits for the outcome that has arrived.
    fn answered(&mut self, delivery: DeliveryId) -> Option<oneshot::Sender<Option<DeliveryState>>> {
        let waiting = self.outcomes.remove(&delivery);
        self.silent_since = (!self.outcomes.is_empty()).then(Instant::now);
        waiting
    }

    /// Returns for how long the peer has sent no outcome, while it owes one.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        self.silent_since.map(|since| since.elapsed())
    }

    fn wake(&mut self) {
        self.changed.notify_waiters();
        if let Some(receiver) = self.receiver.take() {
            receiver.wake();
        }
    }
}

impl Application for Routes {
    fn handle(&mut self, engine: &mut Engine) -> bool {
        let mut some = false;
        while let Some(event) = engine.poll_event() {
            some = true;
            self.on(engine, event);
        }
        some
    }

    fn written(&mut self) {
        for link in std::mem::take(&mut self.stalled) {
            if let Some(route) = self.links.get_mut(&link) {
                route.changed.notify_waiters();
            }
        }
    }
}

impl Routes {
    /// Why a session cannot be used, if so.
    pub(super) fn session_error(&self, session: SessionId) -> Option<Error> {
        if let Some(reason) = &self.closed {
            return Some(Error::Closed(reason.clone()));
        }
        let ended = self.sessions.get(&session).and_then(|route| route.ended.clone());
        ended.map(Error::Ended)
    }

    /// Why a link cannot be used, if so.
    pub(super) fn link_error(&self, link: LinkId) -> Option<Error> {
        let detached = || self.links.get(&link).and_then(|route| route.detached.clone()).map(Error::Detached);
        self.session_error(link.session()).or_else(detached)
    }

    fn on(&mut self, engine: &mut Engine, event: Event) {
        match event {
            Event::Opened(open) => {
                self.opened = Some(Arc::new(*open));
                self.changed.notify_waiters();
            }
            Event::Begun { session, by_peer: false, .. } => {
                if let Some(route) = self.sessions.get_mut(&session) {
                    route.begun = true;
                    route.changed.notify_waiters();
                }
            }
            Event::Begun { session, by_peer: true, .. } => {
                let error = not_implemented("this client does not accept sessions");
                // A session that has ended already is what is wanted.
                let _ = engine.end(session, Some(error));
            }
            Event::AttachRequested { link, .. } => {
                let _ = engine.refuse(link, not_implemented("this client does not accept links"));
            }
            Event::Attached { link, attach } => self.link(link, |route| route.attached = Some(Arc::new(*attach))),
            Event::CreditChanged { link, drain, .. } => {
                self.link(link, |route| {
                    route.drain = drain;
                    if drain && route.sends == 0 {
                        route.drain = false;
                        let _ = engine.drained(link);
                    }
                });
            }
            Event::CreditDrained { link } => self.link(link, |route| route.drained = true),
            Event::WindowOpened { session } => self.wake_links(session),
            Event::Delivery(delivery) => {
                let link = delivery.link;
                self.link(link, |route| route.deliveries.push_back(delivery));
            }
            Event::Disposition { session, role, deliveries, state, settled } => {
                let ends = settled || (role == Role::Receiver && state.as_ref().is_some_and(DeliveryState::is_outcome));
                if !ends {
                    return;
                }
                for (link, delivery) in deliveries.iter() {
                    if !settled {
                        // The receiver waits for this end to settle.
                        let _ = engine.settle(link, [delivery], state.as_ref(), true);
                    }
                    let waiting = self.links.get_mut(&link).and_then(|route| route.answered(delivery));
                    if let Some(waiting) = waiting {
                        // No call waits for it any more if this fails.
                        let _ = waiting.send(state.clone());
                    }
                }
                if self.stalled.iter().any(|link| link.session() == session) {
                    self.written();
                }
            }
            Event::Detached { link, reason, .. } => self.detach(link, &reason),
            Event::Ended { session, reason } => {
                for link in self.links_of(session) {
                    self.detach(link, &reason);
                }
                if let Some(route) = self.sessions.get_mut(&session) {
                    route.ended = Some(reason);
                    route.changed.notify_waiters();
                }
            }
            Event::Closed { reason } => {
                for link in self.links.keys().copied().collect::<Vec<_>>() {
                    self.detach(link, &reason);
                }
                for route in self.sessions.values_mut() {
                    route.changed.notify_waiters();
                }
                self.closed = Some(reason);
                self.changed.notify_waiters();
            }
            Event::SaslChallenge(_) => engine.refuse_challenge(),
            // A client offers no SASL, and a delivery that was given up needs nothing.
            _ => {}
        }
    }

    fn link(&mut self, link: LinkId, change: impl FnOnce(&mut LinkRoute)) {
        if let Some(route) = self.links.get_mut(&link) {
            change(route);
            route.wake();
        }
    }

    /// Deliveries that have arrived and cannot be settled any more are discarded.
    fn detach(&mut self, link: LinkId, reason: &Reason) {
        self.link(link, |route| {
            route.detached.get_or_insert_with(|| reason.clone());
            route.deliveries.retain(|delivery| delivery.settled);
            route.outcomes.clear();
            route.silent_since = None;
        });
    }

    fn wake_links(&mut self, session: SessionId) {
        for link in self.links_of(session) {
            self.link(link, |_| {});
        }
    }

    fn links_of(&self, session: SessionId) -> Vec<LinkId> {
        self.links.keys().copied().filter(|link| link.session() == session).collect()
    }
}

fn not_implemented(description: &'static str) -> crate::types::Error {
    crate::types::Error::new(crate::types::condition::NOT_IMPLEMENTED, description)
}
