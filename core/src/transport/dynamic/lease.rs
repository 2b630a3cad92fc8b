use std::{any::Any, fmt, mem, time::Duration};

use futures_util::future::join_all;

use crate::{
    message::LockToken,
    settlement::{Changes, Disposition},
    time::Timestamp,
    transport::{BoxFuture, CompleteAll, CompleteAllError, Delivery, Lease, SettleError},
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

    /// Returns the lease inside if it is of this type.
    ///
    /// # Errors
    ///
    /// The lease as it was, if it is of another type.
    pub fn downcast<L: Lease>(self) -> Result<L, Self> {
        let mut place = None::<L>;
        match self.0.put_in(&mut place) {
            Some(lease) => Err(lease),
            None => place.ok_or_else(|| unreachable!("a lease that is not returned is in its place")),
        }
    }

    /// Boxes the lease of a delivery.
    pub fn delivery<L: Lease>(delivery: Delivery<L>) -> Delivery<Self> {
        Delivery { message: delivery.message, lease: Self::new(delivery.lease) }
    }
}

trait Twin: Any + Send {
    fn settle(self: Box<Self>, disposition: Disposition) -> BoxFuture<Result<(), SettleError>>;
    fn release(self: Box<Self>) -> BoxFuture<Result<(), SettleError>>;
    fn abandon_after(self: Box<Self>, changes: Changes, delay: Duration) -> Begun;
    fn release_after(self: Box<Self>, delay: Duration) -> Begun;
    fn renew(&self) -> BoxFuture<Result<Timestamp, SettleError>>;
    fn lock_duration(&self) -> Option<Duration>;
    fn lock_token(&self) -> Option<LockToken>;
    fn must_settle(&self) -> bool;
    fn completes_in_batches(&self) -> bool;
    /// Completes the leases of this type at the front of `batch`, which are removed from it. Returns how many these were.
    fn complete_front(&self) -> fn(batch: &mut Vec<DynLease>) -> (usize, Completing);
    /// Moves the lease into an `Option` of its own type. Returns it if the place is of another type.
    fn put_in(self: Box<Self>, place: &mut dyn Any) -> Option<DynLease>;
}

/// The failures of a batch, by index.
type Completing = BoxFuture<Vec<(usize, SettleError)>>;

fn complete_front<L: Lease>(batch: &mut Vec<DynLease>) -> (usize, Completing) {
    let is_other = |lease: &DynLease| !(&*lease.0 as &dyn Any).is::<L>();
    let count = batch.iter().position(is_other).unwrap_or(batch.len());
    let unboxed = batch.drain(..count).filter_map(|lease| (lease.0 as Box<dyn Any>).downcast::<L>().ok());
    let mut unboxed: Vec<L> = unboxed.map(|lease| *lease).collect();
    let completing = L::complete_all(&mut unboxed);
    (count, Box::pin(async move { completing.await.map_or_else(CompleteAllError::into_failures, |()| Vec::new()) }))
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

    fn completes_in_batches(&self) -> bool {
        Lease::completes_in_batches(self)
    }

    fn complete_front(&self) -> fn(&mut Vec<DynLease>) -> (usize, Completing) {
        complete_front::<L>
    }

    fn put_in(self: Box<Self>, place: &mut dyn Any) -> Option<DynLease> {
        match place.downcast_mut::<Option<L>>() {
            Some(place) => {
                *place = Some(*self);
                None
            }
            None => Some(DynLease(self)),
        }
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

    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<Self::Settle> {
        let mut batch = mem::take(batch);
        // Nearly always all are of one transport. Each begins here, whenever the future is polled.
        let mut parts = Vec::new();
        let mut done = 0;
        while let Some(first) = batch.first() {
            let (count, completing) = first.0.complete_front()(&mut batch);
            parts.push((done, completing));
            done += count;
        }
        CompleteAll::from_future(async move {
            let parts = parts.into_iter().map(async |(from, completing)| {
                completing.await.into_iter().map(|(index, error)| (from + index, error)).collect::<Vec<_>>()
            });
            join_all(parts).await.into_iter().flatten().collect()
        })
    }

    fn completes_in_batches(&self) -> bool {
        self.0.completes_in_batches()
    }
}

impl fmt::Debug for DynLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynLease").finish_non_exhaustive()
    }
}
