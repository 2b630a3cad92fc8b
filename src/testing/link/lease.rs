use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{DeliveryFault, Link};
use crate::{
    Disposition,
    message::LockToken,
    settlement::Changes,
    time::Timestamp,
    transport::{BoxFuture, ErrorKind, Lease, SettleError},
};

/// A lease over a [`Link`]. It is stale once the connection that delivered it is broken.
#[doc(hidden)]
pub struct LinkLease<L> {
    link: Link,
    /// `None` if the lock was lost from the start.
    lease: Option<L>,
    fault: Option<DeliveryFault>,
    epoch: u64,
    token: Option<LockToken>,
    lock_duration: Option<Duration>,
    must_settle: bool,
}

impl<L: Lease> LinkLease<L> {
    pub(super) fn new(link: Link, lease: L, fault: Option<DeliveryFault>, epoch: u64) -> Self {
        let (token, lock_duration, must_settle) = (lease.lock_token(), lease.lock_duration(), lease.must_settle());
        Self { link, lease: Some(lease), fault, epoch, token, lock_duration, must_settle }
    }

    /// Whether the connection that delivered it is up.
    pub(super) fn is_current(&self) -> bool {
        self.link.is_current(self.epoch)
    }

    /// A lease whose lock is lost.
    pub(super) fn dead(link: Link, of: &L, epoch: u64) -> Self {
        Self {
            link,
            lease: None,
            fault: None,
            epoch,
            token: of.lock_token(),
            lock_duration: of.lock_duration(),
            must_settle: of.must_settle(),
        }
    }

    /// The lease, unless its lock is lost. A lease that is dropped here abandons its message.
    fn live(lease: Option<L>, fault: Option<DeliveryFault>, is_current: bool) -> Result<L, SettleError> {
        let is_lost = !is_current || fault == Some(DeliveryFault::LoseLock);
        lease.filter(|_| !is_lost).ok_or_else(lock_lost)
    }
}

impl<L: Lease> LinkLease<L> {
    /// Settles with a delay, if the transport can. A settlement that is to be lost is one without a delay.
    fn delayed(
        mut self,
        settle: impl FnOnce(L) -> Result<L::Settle, L>,
    ) -> Result<BoxFuture<Result<(), SettleError>>, Self> {
        if matches!(self.fault, Some(DeliveryFault::LoseSettlement(_))) {
            return Err(self);
        }
        let is_current = self.is_current();
        let settled = match Self::live(self.lease.take(), self.fault, is_current) {
            Ok(lease) => match settle(lease) {
                Ok(settled) => Ok(settled),
                Err(lease) => return Err(Self { lease: Some(lease), ..self }),
            },
            Err(lost) => Err(lost),
        };
        let answered = Instant::now() + self.link.there() + self.link.back();
        let fault = self.fault;
        Ok(Box::pin(async move {
            let settled = match settled {
                Ok(settled) => settled.await,
                Err(lost) => Err(lost),
            };
            sleep_until(answered).await;
            answer(fault, settled)
        }))
    }
}

/// What arrives of the answer of a settlement.
fn answer(fault: Option<DeliveryFault>, settled: Result<(), SettleError>) -> Result<(), SettleError> {
    match fault {
        Some(DeliveryFault::LoseSettlementAnswer(kind)) => Err(simulated(kind)),
        _ => settled,
    }
}

fn simulated(kind: ErrorKind) -> SettleError {
    SettleError::new(kind).with_detail("a simulated fault")
}

fn lock_lost() -> SettleError {
    SettleError::new(ErrorKind::MessageLockLost).with_detail("a simulated fault, or a connection that broke")
}

impl<L: Lease> Lease for LinkLease<L> {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        let Self { link, lease, fault, epoch, .. } = self;
        let arrives = Instant::now() + link.there();
        Box::pin(async move {
            sleep_until(arrives).await;
            if let Some(DeliveryFault::LoseSettlement(kind)) = fault {
                drop(lease);
                sleep_until(arrives + link.back()).await;
                return Err(simulated(kind));
            }
            let settled = match Self::live(lease, fault, link.is_current(epoch)) {
                Ok(lease) => lease.settle(disposition).await,
                Err(lost) => Err(lost),
            };
            sleep_until(arrives.max(Instant::now()) + link.back()).await;
            answer(fault, settled)
        })
    }

    fn release(self) -> Self::Settle {
        let Self { link, lease, fault, epoch, .. } = self;
        // A broker takes back what did not arrive, so a broken connection is no reason to count.
        let is_lost = lease.is_none() || fault == Some(DeliveryFault::LoseLock) || !link.is_current(epoch);
        let released = lease.map(Lease::release);
        let answered = Instant::now() + link.there() + link.back();
        Box::pin(async move {
            let released = match released {
                Some(released) => released.await,
                None => Ok(()),
            };
            sleep_until(answered).await;
            if is_lost { Err(lock_lost()) } else { released }
        })
    }

    fn abandon_after(self, changes: Changes, delay: Duration) -> Result<Self::Settle, Self> {
        self.delayed(|lease| lease.abandon_after(changes, delay))
    }

    fn release_after(self, delay: Duration) -> Result<Self::Settle, Self> {
        self.delayed(|lease| lease.release_after(delay))
    }

    fn renew(&self) -> Self::Renew {
        let is_lost = self.fault == Some(DeliveryFault::LoseLock) || !self.link.is_current(self.epoch);
        let renewed = self.lease.as_ref().filter(|_| !is_lost).map(Lease::renew);
        let answered = Instant::now() + self.link.there() + self.link.back();
        Box::pin(async move {
            let renewed = match renewed {
                Some(renewed) => renewed.await,
                None => Err(lock_lost()),
            };
            sleep_until(answered).await;
            renewed
        })
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.lock_duration
    }

    fn must_settle(&self) -> bool {
        self.must_settle
    }

    fn lock_token(&self) -> Option<LockToken> {
        self.token
    }
}

impl<L> fmt::Debug for LinkLease<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkLease").field("token", &self.token).field("fault", &self.fault).finish_non_exhaustive()
    }
}
