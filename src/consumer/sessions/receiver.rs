use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::AtomicUsize},
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

use super::{
    super::log::Log,
    lease::{Renewing, SessionLease},
    registry::{self, HeldSession},
    shared::Shared,
};
use crate::{
    consumer::{Health, Stats, health::ConsumerFailure, options::Options},
    transport::{
        Capabilities, Delivery, EntityInfo, ErrorKind, ReceiveError, Receiver, Session, SettleError, appended,
        deadline::Timed,
    },
};

/// How long a session stays without a message before it can be closed for one that waits. The next message may be on its
/// way: several transports have to request it.
const LINGER: Duration = Duration::from_millis(20);
/// How long a session stays at least for its first message, which the source has seen and the transport has to request.
const FIRST: Duration = Duration::from_secs(1);

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

impl<Q: Session> SessionReceiver<Q> {
    pub(super) fn new(session: Q, idle: Duration, options: &Options, spares: Arc<AtomicUsize>) -> Self {
        let operation = options.operation;
        let shared = registry::register(|registered| Shared::new(session, registered, operation, spares));
        let log = options.log.of_part(Some(shared.id()));
        Self {
            shared,
            idle,
            renews: !options.renewal.is_zero(),
            received: Vec::new(),
            renewing: None,
            operation,
            stats: options.stats.clone(),
            health: options.health.clone(),
            empty_since: None,
            has_received: false,
            timer: None,
            log,
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared<Q>> {
        &self.shared
    }

    /// How long the session is kept without a message. The first one is awaited as long as any answer of the transport:
    /// a session that is closed before it comes would be accepted again, without an end.
    fn kept(&self) -> Duration {
        if self.has_received { self.idle } else { self.idle.max(self.operation).max(FIRST) }
    }

    /// From when on a session without a message can be closed for one that waits.
    fn lingers(&self) -> Duration {
        if self.has_received { LINGER } else { self.idle.max(FIRST) }
    }

    /// Nothing more is received from this session.
    fn finish(&mut self, cx: &Context<'_>) {
        self.stop();
        self.shared.finish();
        // The driver looks at it when it is polled the next time.
        cx.waker().wake_by_ref();
    }

    /// Whether half of the lock has passed.
    fn is_old(&self, now: Instant) -> bool {
        let locked = self.shared.locked();
        now >= locked.at + locked.lock / 2
    }

    #[cold]
    fn not_renewed(&mut self, error: &SettleError, cx: &Context<'_>) {
        self.health.failed(ConsumerFailure::Renew(error.kind()));
        let info = self.entity_info();
        self.log.session_not_renewed(&info, error);
        if !self.has_received {
            self.shared.lost_unused();
        }
        self.finish(cx);
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
        let received = locked.session.poll_receive(cx, max, &mut self.received);
        match received.map(|received| appended(received, &self.received)) {
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
            Poll::Ready(Err(error)) => {
                if !self.has_received && error.kind() == ErrorKind::SessionLockLost {
                    self.shared.lost_unused();
                }
                Poll::Ready(Some(Err(error)))
            }
            Poll::Pending => {
                let half = locked.at + locked.lock / 2;
                drop(locked);
                let since = *self.empty_since.get_or_insert(now);
                let mut due = half.min(since + self.kept());
                let spare_from = since + self.lingers();
                if now < spare_from {
                    due = due.min(spare_from);
                } else {
                    drop(self.shared.set_spare(Some((since, cx.waker().clone()))));
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
                    // An answer that takes half of the lock leaves no time for a message.
                    Ok(_) if self.is_old(Instant::now()) => {
                        let slow = SettleError::new(ErrorKind::ServiceTimeout);
                        let error = slow.with_detail("the renewal took more than half of the lock");
                        self.not_renewed(&error, cx);
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) if error.is_lock_lost() => {
                        if !self.has_received {
                            self.shared.lost_unused();
                        }
                        return Poll::Ready(Err(ReceiveError::new(ErrorKind::SessionLockLost).with_source(error)));
                    }
                    Err(error) => {
                        self.not_renewed(&error, cx);
                        continue;
                    }
                }
            }
            let now = Instant::now();
            if self.empty_since.is_some_and(|since| now >= since + self.kept()) {
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

    fn capabilities(&self) -> Capabilities {
        self.shared.locked().session.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.shared.locked().session.entity_info()
    }
}
