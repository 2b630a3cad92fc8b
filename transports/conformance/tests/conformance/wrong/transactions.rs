//! A transaction with a fault.

use consign::{
    Disposition, Message, broker,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{ErrorKind, SendError, SettleError, Transaction, TransactionError},
};

use super::{Fault, receiving::WrongLease};

pub(super) struct WrongTransaction {
    pub(super) inner: broker::Transaction,
    pub(super) fault: Fault,
}

impl WrongTransaction {
    fn lease(&self, inner: broker::QueueLease) -> WrongLease {
        WrongLease::new(inner, self.fault, Message::new(""))
    }
}

/// Returns the error for the lease of the wrapper.
fn failed(kind: ErrorKind) -> TransactionError<WrongLease> {
    SettleError::new(kind).into()
}

impl Transaction for WrongTransaction {
    type Lease = WrongLease;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), SendError> {
        match Transaction::send(&mut self.inner, to, message).await {
            Err(late) if late.kind() == ErrorKind::Transaction && self.fault == Fault::TakesLateSends => Ok(()),
            sent => sent,
        }
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), SendError> {
        Transaction::schedule(&mut self.inner, to, message, at).await
    }

    async fn settle(
        &mut self,
        lease: WrongLease,
        disposition: Disposition,
    ) -> Result<(), TransactionError<WrongLease>> {
        let settled = Transaction::settle(&mut self.inner, lease.inner, disposition).await;
        settled.map_err(|error| failed(error.kind()))
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, TransactionError<WrongLease>> {
        let kind = |kind| if self.fault == Fault::NamesNoTimeout { ErrorKind::General } else { kind };
        Transaction::commit(self.inner).await.map_err(|error| failed(kind(error.kind())))
    }

    fn rollback(mut self) -> Vec<WrongLease> {
        let begun = std::mem::replace(&mut self.inner, broker::Broker::new().transaction());
        begun.rollback().into_iter().map(|lease| self.lease(lease)).collect()
    }
}
