use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use super::shared::Shared;
use crate::{
    Disposition,
    message::LockToken,
    settlement::Changes,
    time::Timestamp,
    transport::{Lease, Session, SettleError},
};

/// The right to settle a message of a session. Its renewal is that of the session.
pub(super) struct SessionLease<Q: Session> {
    lease: Q::Lease,
    /// What was left of the session's lock at the delivery.
    left: Duration,
    shared: Arc<Shared<Q>>,
}

impl<Q: Session> SessionLease<Q> {
    pub(super) fn new(lease: Q::Lease, left: Duration, shared: Arc<Shared<Q>>) -> Self {
        Self { lease, left, shared }
    }
}

impl<Q: Session> Lease for SessionLease<Q> {
    type Settle = <Q::Lease as Lease>::Settle;
    type Renew = Renewing<Q>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        self.lease.settle(disposition)
    }

    fn release(self) -> Self::Settle {
        self.lease.release()
    }

    fn abandon_after(self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self> {
        let Self { lease, left, shared } = self;
        lease.abandon_after(changes, delay).map_err(|lease| Self { lease, left, shared })
    }

    fn release_after(self, delay: Duration) -> Result<Self::Settle, Self> {
        let Self { lease, left, shared } = self;
        lease.release_after(delay).map_err(|lease| Self { lease, left, shared })
    }

    fn renew(&self) -> Self::Renew {
        Renewing::new(&self.shared)
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.lease.lock_duration().map(|_| self.left)
    }

    fn lock_token(&self) -> Option<LockToken> {
        self.lease.lock_token()
    }

    fn must_settle(&self) -> bool {
        self.lease.must_settle()
    }
}

/// The renewal of a session's lock, which the others that share the session learn of.
pub(super) struct Renewing<Q: Session> {
    renewal: Pin<Box<Q::Renew>>,
    asked_at: Instant,
    shared: Arc<Shared<Q>>,
}

impl<Q: Session> Renewing<Q> {
    pub(super) fn new(shared: &Arc<Shared<Q>>) -> Self {
        let renewal = Box::pin(shared.renew());
        Self { renewal, asked_at: Instant::now(), shared: Arc::clone(shared) }
    }
}

impl<Q: Session> Future for Renewing<Q> {
    type Output = Result<Timestamp, SettleError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let renewed = std::task::ready!(self.renewal.as_mut().poll(cx));
        if renewed.is_ok() {
            self.shared.renewed(self.asked_at);
        }
        Poll::Ready(renewed)
    }
}
