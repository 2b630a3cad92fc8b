use std::{fmt, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{DeliveryFault, Link};
use crate::{
    Disposition,
    message::LockToken,
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

    /// A lease whose lock is lost.
    pub(super) fn dead(link: Link, of: &L) -> Self {
        Self {
            link,
            lease: None,
            fault: None,
            epoch: 0,
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
                return Err(SettleError::new(kind).with_detail("a simulated fault"));
            }
            let settled = match Self::live(lease, fault, link.is_current(epoch)) {
                Ok(lease) => lease.settle(disposition).await,
                Err(lost) => Err(lost),
            };
            sleep_until(arrives.max(Instant::now()) + link.back()).await;
            match fault {
                Some(DeliveryFault::LoseSettlementAnswer(kind)) => {
                    Err(SettleError::new(kind).with_detail("a simulated fault"))
                }
                _ => settled,
            }
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
