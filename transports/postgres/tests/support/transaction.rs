use consign::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
};
use consign_conformance::Failure;
use consign_postgres::{Postgres, PostgresLease, Transaction};

/// A transaction that finds its senders by path.
pub(crate) struct ByPath {
    pub(super) postgres: Postgres,
    pub(super) inner: Transaction,
}

impl consign_conformance::Transaction for ByPath {
    type Lease = PostgresLease;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), Failure> {
        Ok(self.inner.send(&self.postgres.sender(to.as_str()).await?, message).await?)
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), Failure> {
        Ok(self.inner.schedule(&self.postgres.sender(to.as_str()).await?, message, at).await?)
    }

    async fn settle(&mut self, lease: PostgresLease, disposition: Disposition) -> Result<(), Failure> {
        let settled = self.inner.settle(lease, disposition).await;
        settled.map_err(|error| Failure::answer(error.kind(), format!("{error:?}")))
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, Failure> {
        match self.inner.commit().await {
            Ok(committed) => Ok(committed.scheduled),
            Err(error) => Err(Failure::answer(error.kind(), format!("{error:?}"))),
        }
    }

    async fn rollback(self) -> Result<Vec<PostgresLease>, Failure> {
        Ok(self.inner.rollback())
    }
}
