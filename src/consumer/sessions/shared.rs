use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
    time::Duration,
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::registry::{HeldSession, Registered};
use crate::transport::{BoxFuture, Session, SettleError};

/// A lock that is shorter would be old whenever it is looked at.
const SHORTEST_LOCK: Duration = Duration::from_millis(10);

/// What the receiver and the leases of one session have in common.
pub(super) struct Shared<Q> {
    locked: Mutex<Locked<Q>>,
    id: Arc<str>,
    /// How handlers find it.
    pub(super) registered: Registered,
    is_done: AtomicBool,
    /// Whether its lock was lost before a message was delivered.
    is_lost_unused: AtomicBool,
    /// Whether it is done when no handler runs.
    is_closing: AtomicBool,
    /// Wakes the receiver while it waits for messages.
    pub(super) waits: AtomicWaker,
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

pub(super) struct Locked<Q> {
    pub(super) session: Q,
    pub(super) lock: Duration,
    /// When the lock was taken, or renewed.
    pub(super) at: Instant,
}

impl<Q: Session> Shared<Q> {
    /// A session that was just accepted.
    pub(super) fn new(session: Q, registered: Registered, operation: Duration, spares: Arc<AtomicUsize>) -> Self {
        let lock = session.lock_duration().clamp(SHORTEST_LOCK, super::LONGEST);
        let id = session.session_id().into();
        Self {
            locked: Mutex::new(Locked { session, lock, at: Instant::now() }),
            id,
            registered,
            is_done: AtomicBool::new(false),
            is_lost_unused: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            waits: AtomicWaker::new(),
            spare: Mutex::new(None),
            spares,
            operation,
        }
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, Locked<Q>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn renew(&self) -> Q::Renew {
        self.locked().session.renew()
    }

    /// The lock was renewed by a request that was sent then.
    pub(super) fn renewed(&self, asked_at: Instant) {
        self.locked().at = asked_at;
    }

    #[cold]
    pub(super) fn lost_unused(&self) {
        self.is_lost_unused.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_lost_unused(&self) -> bool {
        self.is_lost_unused.load(Ordering::Relaxed)
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    pub(super) fn set_spare(&self, spare: Option<(Instant, Waker)>) -> Option<(Instant, Waker)> {
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

    /// Ends the session: nothing more is received from it.
    pub(super) fn finish(&self) {
        drop(self.set_spare(None));
        self.is_done.store(true, Ordering::Release);
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
