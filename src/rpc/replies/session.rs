use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Sleep, sleep};
use uuid::Uuid;

use super::ReplySource;
use crate::{
    time::Timestamp,
    transport::{AcceptSession, BoxFuture, Delivery, ErrorKind, ReceiveError, Receiver, Session, SettleError},
};

/// One session of an entity that several requesters share for their replies: each has a session of its own, and its
/// responders send there by the request's `ReplyToSessionId`.
///
/// The session is locked when replies are first received, and its lock is renewed. If the lock is lost the session is
/// locked anew, and calls go on waiting. Nobody may accept *any* session of such an entity: that would take replies away
/// from the one who waits for them.
pub struct ReplySession<A: AcceptSession> {
    address: Box<str>,
    id: Box<str>,
    acceptor: A,
    state: State<A::Session>,
    /// Whether it was said that somebody else holds the session.
    is_told: bool,
}

enum State<S> {
    Away,
    Accepting(BoxFuture<Result<S, ReceiveError>>),
    /// Not ours just now.
    Pausing(Pin<Box<Sleep>>),
    Held(Held<S>),
}

struct Held<S> {
    session: S,
    renewal: Renewal,
}

enum Renewal {
    Due(Pin<Box<Sleep>>),
    Underway(BoxFuture<Result<Timestamp, SettleError>>),
}

impl<A: AcceptSession> ReplySession<A> {
    /// Between two attempts to lock the session while somebody else holds it.
    const PAUSE: Duration = Duration::from_millis(100);

    /// A session with a random id at `address`.
    #[must_use]
    pub fn new(address: impl Into<Box<str>>, acceptor: A) -> Self {
        Self::with_id(address, acceptor, Uuid::new_v4().to_string())
    }

    /// A session at `address` whose id, at most 128 UTF-16 code units, is nobody else's.
    #[must_use]
    pub fn with_id(address: impl Into<Box<str>>, acceptor: A, id: impl Into<Box<str>>) -> Self {
        Self { address: address.into(), id: id.into(), acceptor, state: State::Away, is_told: false }
    }
}

impl<S: Session> Held<S> {
    fn new(session: S) -> Self {
        let renewal = Renewal::after(session.lock_duration() / 2);
        Self { session, renewal }
    }

    /// Keeps the lock. An error other than a lost lock is left for the next attempt, or for the receive to find.
    fn renew(&mut self, cx: &mut Context<'_>) -> Result<(), Lost> {
        loop {
            match &mut self.renewal {
                Renewal::Due(at) => {
                    if at.as_mut().poll(cx).is_pending() {
                        return Ok(());
                    }
                    self.renewal = Renewal::Underway(Box::pin(self.session.renew()));
                }
                Renewal::Underway(renewing) => {
                    let lock = self.session.lock_duration();
                    let after = match renewing.as_mut().poll(cx) {
                        Poll::Pending => return Ok(()),
                        Poll::Ready(Ok(_)) => lock / 2,
                        Poll::Ready(Err(error)) if error.kind() == ErrorKind::SessionLockLost => return Err(Lost),
                        Poll::Ready(Err(_)) => lock / 8,
                    };
                    self.renewal = Renewal::after(after);
                }
            }
        }
    }
}

impl Renewal {
    /// Never at once, whatever the lock: it would be renewed without an end.
    fn after(time: Duration) -> Self {
        Self::Due(Box::pin(sleep(time.max(Duration::from_millis(1)))))
    }
}

/// The lock is not ours any more.
struct Lost;

/// Nothing in it is pinned in place.
impl<A: AcceptSession> Unpin for ReplySession<A> {}

impl<A: AcceptSession> Receiver for ReplySession<A> {
    type Lease = <A::Session as Receiver>::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        loop {
            self.state = match &mut self.state {
                State::Away => State::Accepting(Box::pin(self.acceptor.accept(&self.id))),
                State::Accepting(accepting) => match ready!(accepting.as_mut().poll(cx)) {
                    Ok(session) => {
                        self.is_told = false;
                        State::Held(Held::new(session))
                    }
                    Err(error) if error.kind() == ErrorKind::SessionCannotBeLocked => {
                        if !std::mem::replace(&mut self.is_told, true) {
                            tracing::warn!(session = %self.id.escape_debug(), "another receiver holds the session of the replies");
                        }
                        pause(Self::PAUSE)
                    }
                    Err(error) => {
                        self.state = State::Away;
                        return Poll::Ready(Err(error));
                    }
                },
                State::Pausing(pausing) => {
                    ready!(pausing.as_mut().poll(cx));
                    State::Away
                }
                State::Held(held) => {
                    let is_lost = held.renew(cx).is_err();
                    if !is_lost {
                        match ready!(held.session.poll_receive(cx, max, out)) {
                            Err(error) if error.kind() == ErrorKind::SessionLockLost => {}
                            other => return Poll::Ready(other),
                        }
                    }
                    pause(Self::PAUSE / 10)
                }
            };
        }
    }

    fn stop(&mut self) {
        if let State::Held(held) = &mut self.state {
            held.session.stop();
        }
    }
}

fn pause<S>(time: Duration) -> State<S> {
    State::Pausing(Box::pin(sleep(time)))
}

impl<A: AcceptSession> ReplySource for ReplySession<A> {
    fn address(&self) -> &str {
        &self.address
    }

    fn session_id(&self) -> Option<&str> {
        Some(&self.id)
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}

impl<A: AcceptSession> fmt::Debug for ReplySession<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplySession").field("address", &self.address).field("id", &self.id).finish_non_exhaustive()
    }
}
