mod arrival;
mod removed;
mod request;

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use async_nats::Subscriber;
use consign_core::{
    message::EntityPath,
    transport::{BoxFuture, Capabilities, Capability, Delivery, EntityInfo, ErrorKind, Level, ReceiveError, Receiver},
};
use futures_util::stream::FuturesOrdered;
use tokio::{
    sync::oneshot,
    time::{Instant, Sleep, sleep},
};

pub(crate) use self::arrival::delivery;
use self::{arrival::Preparing, removed::Removed};
use crate::{
    Nats,
    error::Fault,
    jobs::{Job, JobPlace},
    lease::NatsLease,
    log,
    pending_requests::PendingRequest,
    request_times::EXPIRES,
    source::Source,
};

/// Receives from a queue, a subscription, or a dead-letter sub-queue.
///
/// It requests as many messages from the server as [`poll_receive`](Receiver::poll_receive) may take, and no more: none is
/// locked ahead. The server cannot withdraw a request, which lasts 4.65 s, and up to 18.6 s if the previous ones got no message.
/// Messages that arrive in that time after [`stop`](Receiver::stop) or a drop are released uncounted.
///
/// When the connection breaks a receive fails once, as a [`CommunicationProblem`](ErrorKind::CommunicationProblem), which is
/// transient. Later receives wait for the client to reconnect, and continue.
pub struct NatsReceiver {
    source: Arc<Source>,
    deletes: bool,
    removed: Removed,
    subscriber: Option<Subscriber>,
    inbox: String,
    /// The request that is being sent.
    asking: Option<BoxFuture<Result<Option<Subscriber>, Fault>>>,
    /// A check before the next request: why there was no answer, or whether a session has all its deliveries.
    looking: Option<BoxFuture<Result<(), Fault>>>,
    /// How many requested messages have not arrived.
    outstanding: usize,
    /// Whether a message of the request has arrived. The server then ends the request as soon as it has no more.
    has_begun: bool,
    asked_at: Instant,
    /// How many requests before it had no answer.
    lost: u32,
    /// How long the server keeps the request, and the next one.
    lasts: Duration,
    next_lasts: Duration,
    /// All present messages have arrived after this.
    empty_at: Instant,
    /// Messages that arrived while there were too many unsettled deliveries, and until when they are locked.
    unplaced: VecDeque<(async_nats::Message, Instant)>,
    /// Messages that need a further request to the server.
    preparing: FuturesOrdered<Preparing>,
    ready: VecDeque<Delivery<NatsLease>>,
    tick: Pin<Box<Sleep>>,
    /// Ends when the connection has changed.
    changing: Option<BoxFuture<()>>,
    connects: u64,
    /// Whether the broken connection was reported.
    is_broken: bool,
    cleanup: Option<JobPlace>,
    pending: Option<PendingRequest>,
    older: Older,
    /// Ends when the messages of a stopped receiver are released.
    stopping: Option<oneshot::Receiver<()>>,
}

/// A returned message that should come before those that are ready.
#[derive(Clone, Copy)]
enum Older {
    NotAwaited,
    /// The server has no request for it yet.
    Awaited,
    /// The server has a request since then.
    Requested(Instant),
}

impl Older {
    fn is_awaited(self) -> bool {
        !matches!(self, Self::NotAwaited)
    }
}

/// More than the server delivers at once.
const MANY: usize = 1 << 20;

impl Nats {
    /// Creates a receiver that locks messages.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound); [`InvalidOperation`](ErrorKind::InvalidOperation) for a topic, and for an
    /// entity that requires sessions; and those of the connection.
    pub async fn receiver(&self, path: &str) -> Result<NatsReceiver, ReceiveError> {
        self.receive(path, false).await
    }

    /// Creates a receiver in receive-and-delete mode: each message is acknowledged, and the server has confirmed that,
    /// before it is dispatched.
    ///
    /// A message whose receive is dropped meanwhile is returned by the next receive. If the receiver is dropped before that, the
    /// message may be lost, and a WARN line has the number of such messages.
    ///
    /// # Errors
    ///
    /// Those of [`receiver`](Self::receiver).
    pub async fn receive_and_delete(&self, path: &str) -> Result<NatsReceiver, ReceiveError> {
        self.receive(path, true).await
    }

    async fn receive(&self, path: &str, deletes: bool) -> Result<NatsReceiver, ReceiveError> {
        let path = EntityPath::new(path)?;
        let source = self.inner.source(&path).await?;
        if source.settings.requires_session && !source.is_dead_letter() {
            let why = "messages are received by session only";
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail(why));
        }
        Ok(NatsReceiver::new(source, deletes))
    }
}

impl NatsReceiver {
    pub(crate) fn new(source: Arc<Source>, deletes: bool) -> Self {
        let now = Instant::now();
        Self {
            deletes,
            removed: Removed::default(),
            subscriber: None,
            inbox: source.inner.client.new_inbox(),
            asking: None,
            looking: None,
            outstanding: 0,
            has_begun: false,
            asked_at: now,
            lost: 0,
            lasts: EXPIRES,
            next_lasts: EXPIRES,
            empty_at: now,
            unplaced: VecDeque::new(),
            preparing: FuturesOrdered::new(),
            ready: VecDeque::new(),
            tick: Box::pin(sleep(EXPIRES)),
            changing: None,
            connects: source.inner.connects(),
            is_broken: false,
            cleanup: source.inner.place(),
            pending: None,
            older: Older::NotAwaited,
            stopping: None,
            source,
        }
    }

    /// Returns whether the connection has changed since the last call. The next change wakes the task.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> bool {
        let inner = &self.source.inner;
        let changing = self.changing.get_or_insert_with(|| {
            let mut changes = inner.changes.subscribe();
            Box::pin(async move { drop(changes.changed().await) })
        });
        let has_changed = changing.as_mut().poll(cx).is_ready();
        if has_changed {
            self.changing = None;
        }
        has_changed
    }

    /// Checks whether the connection is unchanged. A change is reported once.
    fn look_at_connection(&mut self) -> Result<(), ReceiveError> {
        let inner = &self.source.inner;
        if inner.is_closed() {
            return Err(Fault::closed().into());
        }
        if let Some(fan_out) = &self.source.fan_out {
            fan_out.check()?;
        }
        let connects = inner.connects();
        if connects != self.connects {
            // The new connection has lost the request.
            self.connects = connects;
            self.lost = 0;
            self.doubt();
            self.looking = None;
            self.give_up();
            self.pending = None;
            return self.say_broken();
        }
        if self.looking.is_none()
            && let Some(session_lock) =
                self.source.session_lock().filter(|session_lock| session_lock.is_in_doubt()).cloned()
        {
            self.looking = Some(Box::pin(async move { session_lock.recover().await }));
        }
        if self.source.inner.is_connected() {
            if std::mem::replace(&mut self.is_broken, false) {
                log::connected(&self.source.settings.path);
            }
            return Ok(());
        }
        self.say_broken()
    }

    /// Records that a message may be lost in transit.
    fn doubt(&self) {
        if let Some(session_lock) = self.source.session_lock() {
            session_lock.doubt();
        }
    }

    fn say_broken(&mut self) -> Result<(), ReceiveError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Ok(());
        }
        log::lost(&self.source.settings.path);
        let why = "the connection to the server broke; the client connects again";
        Err(ReceiveError::new(ErrorKind::CommunicationProblem).with_detail(why))
    }
}

impl Receiver for NatsReceiver {
    type Lease = NatsLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<NatsLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let max = max.max(1);
        // What this receive gets, an earlier stop has not released.
        self.stopping = None;
        loop {
            // Before the look, so that no change is missed.
            let has_changed = self.poll_changed(cx);
            self.look_at_connection()?;
            if has_changed {
                continue;
            }
            if let Some(looking) = &mut self.looking {
                let Poll::Ready(found) = looking.as_mut().poll(cx) else {
                    if self.source.session_lock().is_some() {
                        // Messages that arrive meanwhile are part of the check.
                        self.poll_messages(cx, MANY)?;
                    }
                    return Poll::Pending;
                };
                self.looking = None;
                found?;
                // A session is checked before the next request.
                continue;
            }
            if let Some(asking) = &mut self.asking
                && let Poll::Ready(asked) = asking.as_mut().poll(cx)
            {
                self.asking = None;
                match asked {
                    Ok(Some(subscriber)) => self.subscriber = Some(subscriber),
                    Ok(None) => {}
                    Err(fault) => {
                        self.give_up();
                        return Poll::Ready(Err(fault.into()));
                    }
                }
            }
            if self.ready.is_empty() {
                self.place_all()?;
            }
            let has_taken = self.poll_messages(cx, max)?;
            self.poll_preparing(cx)?;
            let has_awaited = self.older.is_awaited();
            if self.awaits_older(cx) {
                if self.outstanding == 0 && self.asking.is_none() && self.preparing.is_empty() {
                    self.ask(1);
                    continue;
                }
                // A receive that has begun to wait takes one message more.
                if has_taken || !has_awaited {
                    continue;
                }
                return Poll::Pending;
            }
            if !self.ready.is_empty() {
                let taken = self.ready.len().min(max);
                out.extend(
                    self.ready
                        .drain(..taken)
                        .map(|Delivery { message, lease }| Delivery { message, lease: lease.handed_out() }),
                );
                if self.deletes {
                    self.removed.subtract(taken);
                }
                return Poll::Ready(Ok(taken));
            }
            if has_taken {
                continue;
            }
            if self.outstanding == 0 && self.asking.is_none() && self.preparing.is_empty() {
                self.unpark(max)?;
                if self.outstanding == 0 && self.ready.is_empty() && self.preparing.is_empty() {
                    self.ask(max);
                }
                continue;
            }
            if self.outstanding > 0 && Instant::now() >= self.is_lost_at() {
                self.lose_request();
                continue;
            }
            if self.tick.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let lost_at = if self.outstanding > 0 { self.is_lost_at() } else { Instant::now() + EXPIRES };
            self.tick.as_mut().reset(lost_at);
        }
    }

    /// In a session the request stays: its messages are for this session only, and another request would get later ones.
    fn stop(&mut self) {
        if self.source.session_lock().is_none() && self.outstanding > 0 && !self.has_begun {
            self.park();
        }
    }

    /// Waits until the server has the messages that have arrived. One that arrives later, in answer to the last request, is
    /// released then. Messages of a session are released when it is closed; those that were received and deleted stay.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.source.session_lock().is_some() || self.deletes {
            return Poll::Ready(());
        }
        if self.stopping.is_none() {
            self.park();
            self.ready.clear();
            self.preparing = FuturesOrdered::new();
            let Some(place) = self.source.inner.place() else { return Poll::Ready(()) };
            let (done, stopped) = oneshot::channel();
            place.send(Job::Flush(done));
            self.stopping = Some(stopped);
        }
        if let Some(stopping) = &mut self.stopping {
            let _ = ready!(Pin::new(stopping).poll(cx));
            self.stopping = None;
        }
        Poll::Ready(())
    }

    /// A dead letter cannot be deferred.
    fn capabilities(&self) -> Capabilities {
        if self.source.is_dead_letter() {
            return Nats::CAPABILITIES.with(Capability::Deferral, Level::Unsupported);
        }
        Nats::CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        self.source.info()
    }
}

/// Releases messages that were not dispatched. Those of a session are dropped with its consumer, and those that the server has
/// removed are lost.
impl Drop for NatsReceiver {
    fn drop(&mut self) {
        let removed = self.removed.count();
        if removed > 0 {
            log::removed(&self.source.settings.path, removed);
        }
        if self.source.session_lock().is_none() {
            self.park();
        }
    }
}

impl fmt::Debug for NatsReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsReceiver").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}

/// Nothing in it is pinned in place.
impl Unpin for NatsReceiver {}
