use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep};

use super::{
    super::log::Log,
    lease::{Renewing, SessionLease},
    registry::{self, HeldSession, Registered},
};
use crate::{
    consumer::{Health, Stats, health::ConsumerFailure, options::Options},
    transport::{
        BoxFuture, Delivery, EntityInfo, ErrorKind, ReceiveError, Receiver, Session, SettleError, deadline::Timed,
    },
};

/// How long a session stays without a message before it can be closed for one that waits. The next message may be on its
/// way: several transports have to request it.
const LINGER: Duration = Duration::from_millis(20);

/// A session as a consumer receives from it: its lock is renewed between messages, and it is done when it stays empty.
pub(super) struct SessionReceiver<Q: Session> {
    shared: Arc<Shared<Q>>,
    idle: Duration,
    renews: bool,
    received: Vec<Delivery<Q::Lease>>,
    renewing: Option<Pin<Box<Timed<Renewing<Q>>>>>,
    /// How long the broker may take to answer a renewal.
    operation: Duration,
    stats: Stats,
    health: Health,
    /// Since when there is no message.
    empty_since: Option<Instant>,
    has_received: bool,
    timer: Option<Pin<Box<Sleep>>>,
    log: Log,
}

/// What the receiver and the leases of one session have in common.
pub(super) struct Shared<Q> {
    locked: Mutex<Locked<Q>>,
    id: Arc<str>,
    /// How handlers find it.
    registered: Registered,
    is_done: AtomicBool,
    /// Whether it is done when no handler runs.
    is_closing: AtomicBool,
    /// Wakes the receiver while it waits for messages.
    waits: AtomicWaker,
    /// Since when the session could be closed for another one, and how to wake its receiver.
    spare: Mutex<Option<(Instant, Waker)>>,
    /// How many sessions of the consumer could be closed.
    spares: Arc<AtomicUsize>,
    /// How long the broker may take to answer a call of a handler.
    operation: Duration,
}

impl<Q: Session> HeldSession for Shared<Q> {
    fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn operation_timeout(&self) -> Duration {
        self.operation
    }

    fn state(&self) -> BoxFuture<Result<Option<Bytes>, SettleError>> {
        Box::pin(self.locked().session.state())
    }

    fn set_state(&self, state: Option<Bytes>) -> BoxFuture<Result<(), SettleError>> {
        Box::pin(self.locked().session.set_state(state))
    }
}

struct Locked<Q> {
    session: Q,
    lock: Duration,
    /// When the lock was taken, or renewed.
    at: Instant,
}

impl<Q: Session> Shared<Q> {
    fn locked(&self) -> MutexGuard<'_, Locked<Q>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn renew(&self) -> Q::Renew {
        self.locked().session.renew()
    }

    /// The lock was renewed by a request that was sent then.
    pub(super) fn renewed(&self, asked_at: Instant) {
        self.locked().at = asked_at;
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    fn set_spare(&self, spare: Option<(Instant, Waker)>) -> Option<(Instant, Waker)> {
        let mut present = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        match (present.is_some(), spare.is_some()) {
            (false, true) => self.spares.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.spares.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        std::mem::replace(&mut *present, spare)
    }

    /// Since when the session has nothing to do, if it could be closed for another one.
    pub(super) fn spare_since(&self) -> Option<Instant> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(since, _)| *since)
    }

    /// Ends a session that has nothing to do. No message is received from it from now on.
    pub(super) fn retire(&self) {
        let spare = self.set_spare(None);
        self.locked().session.stop();
        self.is_done.store(true, Ordering::Release);
        if let Some((_, waker)) = spare {
            waker.wake();
        }
    }

    /// Whether it ends soon, or has ended.
    pub(super) fn is_closing(&self) -> bool {
        self.is_done() || self.is_closing.load(Ordering::Acquire)
    }

    /// Ends the session when no handler runs.
    pub(super) fn close_when_idle(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.waits.wake();
    }

    pub(super) fn into_session(self) -> Q {
        self.locked.into_inner().unwrap_or_else(PoisonError::into_inner).session
    }
}

impl<Q: Session> SessionReceiver<Q> {
    pub(super) fn new(session: Q, idle: Duration, options: &Options, spares: Arc<AtomicUsize>) -> Self {
        let lock = session.lock_duration().min(super::LONGEST);
        let id = session.session_id().into();
        let locked = Mutex::new(Locked { session, lock, at: Instant::now() });
        let operation = options.operation;
        let shared = registry::register(|registered| Shared {
            locked,
            id,
            registered,
            operation,
            is_done: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            waits: AtomicWaker::new(),
            spare: Mutex::new(None),
            spares,
        });
        Self {
            shared,
            idle,
            renews: !options.renewal.is_zero(),
            received: Vec::new(),
            renewing: None,
            operation: options.operation,
            stats: options.stats.clone(),
            health: options.health.clone(),
            empty_since: None,
            has_received: false,
            timer: None,
            log: options.log.of_part(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared<Q>> {
        &self.shared
    }

    /// Nothing more is received from this session.
    fn finish(&mut self, cx: &Context<'_>) {
        self.stop();
        drop(self.shared.set_spare(None));
        self.shared.is_done.store(true, Ordering::Release);
        // The driver looks at it when it is polled the next time.
        cx.waker().wake_by_ref();
    }

    /// Waits for messages, or until something is due. `Ready(None)` if it was.
    fn poll_messages(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<SessionLease<Q>>>,
    ) -> Poll<Option<Result<usize, ReceiveError>>> {
        let mut locked = self.shared.locked();
        let now = Instant::now();
        match locked.session.poll_receive(cx, max, &mut self.received) {
            Poll::Ready(Ok(count)) => {
                let left = (locked.at + locked.lock).saturating_duration_since(now);
                drop(locked);
                (self.empty_since, self.timer, self.has_received) = (None, None, true);
                drop(self.shared.set_spare(None));
                let key = self.shared.registered.key();
                out.extend(self.received.drain(..).map(|Delivery { mut message, lease }| {
                    message.set_session_key(key);
                    let lease = SessionLease::new(lease, left, Arc::clone(&self.shared));
                    Delivery { message, lease }
                }));
                Poll::Ready(Some(Ok(count)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Pending => {
                let half = locked.at + locked.lock / 2;
                drop(locked);
                let since = *self.empty_since.get_or_insert(now);
                let mut due = half.min(since + self.idle);
                // A session that was just accepted has a message that may be on its way.
                if self.has_received {
                    let spare_from = since + LINGER;
                    if now < spare_from {
                        due = due.min(spare_from);
                    } else {
                        drop(self.shared.set_spare(Some((since, cx.waker().clone()))));
                    }
                }
                self.shared.waits.register(cx.waker());
                if self.shared.is_closing() {
                    return Poll::Ready(None);
                }
                let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
                if timer.deadline() != due {
                    timer.as_mut().reset(due);
                }
                timer.as_mut().poll(cx).map(|()| None)
            }
        }
    }
}

impl<Q: Session> Drop for SessionReceiver<Q> {
    fn drop(&mut self) {
        drop(self.shared.set_spare(None));
    }
}

/// No field is structurally pinned.
impl<Q: Session> Unpin for SessionReceiver<Q> {}

impl<Q: Session> Receiver for SessionReceiver<Q> {
    type Lease = SessionLease<Q>;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<Self::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        loop {
            if self.shared.is_done() {
                return Poll::Pending;
            }
            // It is not polled while a handler runs.
            if self.shared.is_closing() {
                self.finish(cx);
                continue;
            }
            if let Some(renewing) = &mut self.renewing {
                let Poll::Ready(renewed) = renewing.as_mut().poll(cx) else { return Poll::Pending };
                self.renewing = None;
                let renewed = renewed.unwrap_or_else(|unanswered| {
                    self.stats.count_timed_out();
                    Err(unanswered.into())
                });
                match renewed {
                    Ok(_) => {}
                    Err(error) if error.is_lock_lost() => {
                        return Poll::Ready(Err(ReceiveError::new(ErrorKind::SessionLockLost).with_source(error)));
                    }
                    Err(error) => {
                        self.health.failed(ConsumerFailure::Renew(error.kind()));
                        let info = self.entity_info();
                        self.log.session_not_renewed(&info, self.shared.locked().session.session_id(), &error);
                        self.finish(cx);
                        continue;
                    }
                }
            }
            let now = Instant::now();
            if self.empty_since.is_some_and(|since| now >= since + self.idle) {
                self.finish(cx);
                continue;
            }
            let (is_old, left) = {
                let locked = self.shared.locked();
                (now >= locked.at + locked.lock / 2, (locked.at + locked.lock).saturating_duration_since(now))
            };
            // A message is received only with half of the lock left, so that there is time to renew while it is handled.
            if is_old && self.renews {
                // An answer that comes after the lock has ended is worth nothing.
                let timeout = self.operation.min(left);
                self.renewing = Some(Box::pin(Timed::new(Renewing::new(&self.shared), timeout)));
            } else if is_old {
                self.finish(cx);
            } else if let Some(received) = std::task::ready!(self.poll_messages(cx, max, out)) {
                return Poll::Ready(received);
            }
        }
    }

    fn stop(&mut self) {
        self.timer = None;
        self.shared.locked().session.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.locked().session.poll_stopped(cx)
    }

    fn entity_info(&self) -> EntityInfo {
        self.shared.locked().session.entity_info()
    }
}
