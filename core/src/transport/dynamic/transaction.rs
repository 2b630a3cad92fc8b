use std::fmt;

use super::{Boxed, DynLease};
use crate::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{BoxFuture, ErrorKind, Lease, SendError, SettleError, Transaction, TransactionError, Transactions},
};

/// A boxed [`Transaction`]. It settles the leases of its own transport.
#[must_use = "a transaction that is dropped has no effect, and abandons what it was to settle"]
pub struct DynTransaction(Box<dyn Twin>);

impl DynTransaction {
    /// Boxes a transaction.
    pub fn new(transaction: impl Transaction) -> Self {
        Self(Box::new(transaction))
    }
}

type Committed = Result<Vec<SequenceNumber>, TransactionError<DynLease>>;

trait Twin: Send {
    fn send<'a>(&'a mut self, to: &'a EntityPath, message: Message) -> Boxed<'a, Result<(), SendError>>;
    fn schedule<'a>(
        &'a mut self,
        to: &'a EntityPath,
        message: Message,
        at: Timestamp,
    ) -> Boxed<'a, Result<(), SendError>>;
    fn settle(
        &mut self,
        lease: DynLease,
        disposition: Disposition,
    ) -> Boxed<'_, Result<(), TransactionError<DynLease>>>;
    fn commit(self: Box<Self>) -> BoxFuture<Committed>;
    fn rollback(self: Box<Self>) -> Vec<DynLease>;
}

fn boxed<L: Lease>(error: TransactionError<L>) -> TransactionError<DynLease> {
    error.map_leases(DynLease::new)
}

impl<T: Transaction> Twin for T {
    fn send<'a>(&'a mut self, to: &'a EntityPath, message: Message) -> Boxed<'a, Result<(), SendError>> {
        Box::pin(Transaction::send(self, to, message))
    }

    fn schedule<'a>(
        &'a mut self,
        to: &'a EntityPath,
        message: Message,
        at: Timestamp,
    ) -> Boxed<'a, Result<(), SendError>> {
        Box::pin(Transaction::schedule(self, to, message, at))
    }

    fn settle(
        &mut self,
        lease: DynLease,
        disposition: Disposition,
    ) -> Boxed<'_, Result<(), TransactionError<DynLease>>> {
        Box::pin(async move {
            match lease.downcast::<T::Lease>() {
                Ok(lease) => Transaction::settle(self, lease, disposition).await.map_err(boxed),
                Err(lease) => {
                    let refused = SettleError::new(ErrorKind::InvalidOperation);
                    let refused = refused.with_detail("the lease of another transport");
                    Err(TransactionError::from(refused).with_leases([lease]))
                }
            }
        })
    }

    fn commit(self: Box<Self>) -> BoxFuture<Committed> {
        Box::pin(async move { Transaction::commit(*self).await.map_err(boxed) })
    }

    fn rollback(self: Box<Self>) -> Vec<DynLease> {
        Transaction::rollback(*self).into_iter().map(DynLease::new).collect()
    }
}

impl Transaction for DynTransaction {
    type Lease = DynLease;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), SendError> {
        self.0.send(to, message).await
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), SendError> {
        self.0.schedule(to, message, at).await
    }

    async fn settle(&mut self, lease: DynLease, disposition: Disposition) -> Result<(), TransactionError<DynLease>> {
        self.0.settle(lease, disposition).await
    }

    async fn commit(self) -> Committed {
        self.0.commit().await
    }

    fn rollback(self) -> Vec<DynLease> {
        self.0.rollback()
    }
}

impl fmt::Debug for DynTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynTransaction").finish_non_exhaustive()
    }
}

/// The object-safe twin of [`Transactions`].
pub(super) trait Begin: Send + Sync {
    fn begin(&self) -> Boxed<'_, Result<DynTransaction, TransactionError<DynLease>>>;
}

impl<T: Transactions> Begin for T {
    fn begin(&self) -> Boxed<'_, Result<DynTransaction, TransactionError<DynLease>>> {
        Box::pin(async move { Transactions::begin(self).await.map(DynTransaction::new).map_err(boxed) })
    }
}
