use consign::{
    Disposition, Message,
    broker::{QueueLease, Transaction},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
};
use consign_conformance::Failure;

use super::Embedded;

/// A transaction that finds its senders by path.
pub(crate) struct BrokerTransaction {
    pub(super) embedded: Embedded,
    pub(super) inner: Transaction,
}

impl consign_conformance::Transaction for BrokerTransaction {
    type Lease = QueueLease;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), Failure> {
        Ok(self.inner.send(&self.embedded.destination(to)?, message)?)
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), Failure> {
        Ok(self.inner.schedule(&self.embedded.destination(to)?, message, at)?)
    }

    async fn settle(&mut self, lease: QueueLease, disposition: Disposition) -> Result<(), Failure> {
        let settled = self.inner.settle(lease, disposition);
        settled.map_err(|error| Failure::answer(error.kind(), error.to_string()))
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, Failure> {
        match self.inner.commit().wait() {
            Ok(committed) => Ok(committed.scheduled),
            Err(error) => Err(Failure::answer(error.kind(), error.to_string())),
        }
    }

    async fn rollback(self) -> Result<Vec<QueueLease>, Failure> {
        Ok(self.inner.rollback())
    }
}
