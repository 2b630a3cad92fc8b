use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};
use uuid::Uuid;

use crate::transport::ReplySource;
use crate::transport::{
    AcceptSession, Capabilities, Delivery, EntityInfo, ErrorKind, ReceiveError, Receiver, Session,
    deadline::{self, OPERATION_TIMEOUT, Timed, Unanswered},
    log_limit,
};

/// One session of an entity that several requesters share for their replies: each has a session of its own, and its
/// responders send there by the request's `ReplyToSessionId`.
///
/// The session is locked when replies are first received, and its lock is renewed. If the lock is lost the session is
/// locked anew, and calls go on waiting. No receiver may accept *any* session of such an entity: it would take replies
/// of another requester.
pub struct ReplySession<A: AcceptSession> {
    address: Box<str>,
    id: Box<str>,
    acceptor: A,
    state: State<A>,
    /// How long the broker may take to answer.
    operation: Duration,
    /// Whether it was logged that another receiver holds the session.
    is_told: bool,
}

enum State<A: AcceptSession> {
    Away,
    Accepting(Pin<Box<Timed<A::Accept>>>),
    /// Not ours just now.
    Pausing(Pin<Box<Sleep>>),
    Held(Held<A::Session>),
}

struct Held<S: Session> {
    session: S,
    /// When the lock was taken, or renewed.
    locked_at: Instant,
    renewal: Renewal<S>,
    operation: Duration,
}

enum Renewal<S: Session> {
    Due(Pin<Box<Sleep>>),
    Underway { renewing: Pin<Box<Timed<S::Renew>>>, asked_at: Instant },
}

impl<A: AcceptSession> ReplySession<A> {
    /// The pause between two attempts to lock the session while another receiver holds it.
    const PAUSE: Duration = Duration::from_millis(100);

    /// A session with a random id at `address`.
    #[must_use]
    pub fn new(address: impl Into<Box<str>>, acceptor: A) -> Self {
        Self::with_id(address, acceptor, Uuid::new_v4().to_string())
    }

    /// A session at `address` with a unique id of at most 128 UTF-16 code units.
    #[must_use]
    pub fn with_id(address: impl Into<Box<str>>, acceptor: A, id: impl Into<Box<str>>) -> Self {
        let (address, id) = (address.into(), id.into());
        Self { address, id, acceptor, state: State::Away, operation: OPERATION_TIMEOUT, is_told: false }
    }

    /// Sets how long the broker may take to lock the session and to renew its lock: by default 60 seconds, at least a
    /// millisecond and at most a year. If the session is not locked by then, receiving fails as
    /// [`ServiceTimeout`](ErrorKind::ServiceTimeout), calls that wait fail, and it is tried again. A renewal that is not
    /// answered is repeated while the lock holds; then the session is locked anew.
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation = deadline::clamped(timeout);
        self
    }
}

impl<S: Session> Held<S> {
    fn new(session: S, operation: Duration) -> Self {
        let renewal = Renewal::after(session.lock_duration() / 2);
        Self { session, locked_at: Instant::now(), renewal, operation }
    }

    /// What is left of the lock, by our clock.
    fn left(&self) -> Duration {
        self.session.lock_duration().saturating_sub(self.locked_at.elapsed())
    }

    /// Keeps the lock. An error other than a lost lock is left for the next attempt, while the lock holds.
    fn renew(&mut self, cx: &mut Context<'_>) -> Result<(), Lost> {
        loop {
            match &mut self.renewal {
                Renewal::Due(at) => {
                    if at.as_mut().poll(cx).is_pending() {
                        return Ok(());
                    }
                    let left = self.left();
                    if left.is_zero() {
                        return Err(Lost);
                    }
                    let renewing = Box::pin(Timed::new(self.session.renew(), self.operation.min(left)));
                    self.renewal = Renewal::Underway { renewing, asked_at: Instant::now() };
                }
                Renewal::Underway { renewing, asked_at } => {
                    let Poll::Ready(answer) = renewing.as_mut().poll(cx) else { return Ok(()) };
                    let asked_at = *asked_at;
                    let lock = self.session.lock_duration();
                    let after = match answer.unwrap_or_else(|unanswered| Err(unanswered.into())) {
                        Ok(_) => {
                            self.locked_at = asked_at;
                            lock / 2
                        }
                        Err(error) if error.kind() == ErrorKind::SessionLockLost => return Err(Lost),
                        Err(error) => {
                            tracing::warn!(%error, "the lock of the reply session was not renewed: the renewal is tried again");
                            (lock / 8).min(self.left())
                        }
                    };
                    self.renewal = Renewal::after(after);
                }
            }
        }
    }
}

impl<S: Session> Renewal<S> {
    /// Never at once, whatever the lock: it would be renewed without an end.
    fn after(time: Duration) -> Self {
        Self::Due(Box::pin(sleep(time.max(Duration::from_millis(1)))))
    }
}

/// The lock is not ours any more.
struct Lost;

/// No field is structurally pinned.
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
                State::Away => State::Accepting(Box::pin(Timed::new(self.acceptor.accept(&self.id), self.operation))),
                State::Accepting(accepting) => match accepted(ready!(accepting.as_mut().poll(cx))) {
                    Ok(session) => {
                        self.is_told = false;
                        State::Held(Held::new(session, self.operation))
                    }
                    Err(error) if error.kind() == ErrorKind::SessionCannotBeLocked => {
                        if !std::mem::replace(&mut self.is_told, true) {
                            tracing::warn!(session = %self.id.escape_debug(), "another receiver holds the reply session: calls wait until it is free");
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
                    if let Some(suppressed) = log_limit("rpc", "ReplySessionLost") {
                        tracing::warn!(
                            suppressed,
                            "the lock of the session for replies was lost: it is accepted again"
                        );
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

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::Held(held) => held.session.poll_stopped(cx),
            _ => Poll::Ready(()),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.acceptor.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        match &self.state {
            State::Held(held) => held.session.entity_info(),
            _ => EntityInfo::default(),
        }
    }
}

fn accepted<S>(answer: Result<Result<S, ReceiveError>, Unanswered>) -> Result<S, ReceiveError> {
    answer.unwrap_or_else(|unanswered| Err(unanswered.into()))
}

fn pause<A: AcceptSession>(time: Duration) -> State<A> {
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

    fn is_receiving(&self) -> bool {
        matches!(self.state, State::Held(_))
    }
}

impl<A: AcceptSession> fmt::Debug for ReplySession<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplySession").field("address", &self.address).field("id", &self.id).finish_non_exhaustive()
    }
}
