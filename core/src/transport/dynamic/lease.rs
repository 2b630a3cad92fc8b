use std::{fmt, time::Duration};

use crate::{
    message::LockToken,
    settlement::{Changes, Disposition},
    time::Timestamp,
    transport::{BoxFuture, Delivery, Lease, SettleError},
};

/// A boxed [`Lease`].
pub struct DynLease(Box<dyn Twin>);

/// A settlement that has begun, or the lease if the transport cannot do it.
type Begun = Result<BoxFuture<Result<(), SettleError>>, DynLease>;

impl DynLease {
    /// Boxes a lease.
    #[must_use]
    pub fn new(lease: impl Lease) -> Self {
        Self(Box::new(lease))
    }

    /// Boxes the lease of a delivery.
    pub fn delivery<L: Lease>(delivery: Delivery<L>) -> Delivery<Self> {
        Delivery { message: delivery.message, lease: Self::new(delivery.lease) }
    }
}

trait Twin: Send {
    fn settle(self: Box<Self>, disposition: Disposition) -> BoxFuture<Result<(), SettleError>>;
    fn release(self: Box<Self>) -> BoxFuture<Result<(), SettleError>>;
    fn abandon_after(self: Box<Self>, changes: Changes, delay: Duration) -> Begun;
    fn release_after(self: Box<Self>, delay: Duration) -> Begun;
    fn renew(&self) -> BoxFuture<Result<Timestamp, SettleError>>;
    fn lock_duration(&self) -> Option<Duration>;
    fn lock_token(&self) -> Option<LockToken>;
    fn must_settle(&self) -> bool;
}

impl<L: Lease> Twin for L {
    fn settle(self: Box<Self>, disposition: Disposition) -> BoxFuture<Result<(), SettleError>> {
        Box::pin(Lease::settle(*self, disposition))
    }

    fn release(self: Box<Self>) -> BoxFuture<Result<(), SettleError>> {
        Box::pin(Lease::release(*self))
    }

    fn abandon_after(self: Box<Self>, changes: Changes, delay: Duration) -> Begun {
        match Lease::abandon_after(*self, changes, delay) {
            Ok(settle) => Ok(Box::pin(settle)),
            Err(lease) => Err(DynLease::new(lease)),
        }
    }

    fn release_after(self: Box<Self>, delay: Duration) -> Begun {
        match Lease::release_after(*self, delay) {
            Ok(settle) => Ok(Box::pin(settle)),
            Err(lease) => Err(DynLease::new(lease)),
        }
    }

    fn renew(&self) -> BoxFuture<Result<Timestamp, SettleError>> {
        Box::pin(Lease::renew(self))
    }

    fn lock_duration(&self) -> Option<Duration> {
        Lease::lock_duration(self)
    }

    fn lock_token(&self) -> Option<LockToken> {
        Lease::lock_token(self)
    }

    fn must_settle(&self) -> bool {
        Lease::must_settle(self)
    }
}

impl Lease for DynLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        self.0.settle(disposition)
    }

    fn release(self) -> Self::Settle {
        self.0.release()
    }

    fn abandon_after(self, changes: Changes, delay: Duration) -> Begun {
        self.0.abandon_after(changes, delay)
    }

    fn release_after(self, delay: Duration) -> Begun {
        self.0.release_after(delay)
    }

    fn renew(&self) -> Self::Renew {
        self.0.renew()
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.0.lock_duration()
    }

    fn lock_token(&self) -> Option<LockToken> {
        self.0.lock_token()
    }

    fn must_settle(&self) -> bool {
        self.0.must_settle()
    }
}

impl fmt::Debug for DynLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynLease").finish_non_exhaustive()
    }
}
