use std::{convert::Infallible, future::Future, marker::PhantomData};

use consign::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::Lease,
};

use crate::Failure;

/// A transaction: settlements and sends that happen together or not at all. A dropped one is rolled back.
pub trait Transaction: Send {
    /// The lease that it settles.
    type Lease: Lease;

    /// Sends to a queue or a topic when the transaction is committed.
    fn send(&mut self, to: &EntityPath, message: Message) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Schedules on a queue or a topic when the transaction is committed.
    fn schedule(
        &mut self,
        to: &EntityPath,
        message: Message,
        at: Timestamp,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Settles when the transaction is committed. The message stays locked until then.
    fn settle(
        &mut self,
        lease: Self::Lease,
        disposition: Disposition,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Commits it. Returns the sequence numbers of the scheduled messages.
    fn commit(self) -> impl Future<Output = Result<Vec<SequenceNumber>, Failure>> + Send;

    /// Rolls it back, and returns the leases.
    fn rollback(self) -> impl Future<Output = Result<Vec<Self::Lease>, Failure>> + Send;
}

/// The transaction type of a backend without transactions. It has no values.
#[derive(Debug)]
pub struct NoTransaction<L>(Infallible, PhantomData<fn() -> L>);

impl<L: Lease> Transaction for NoTransaction<L> {
    type Lease = L;

    async fn send(&mut self, _: &EntityPath, _: Message) -> Result<(), Failure> {
        match self.0 {}
    }

    async fn schedule(&mut self, _: &EntityPath, _: Message, _: Timestamp) -> Result<(), Failure> {
        match self.0 {}
    }

    async fn settle(&mut self, _: L, _: Disposition) -> Result<(), Failure> {
        match self.0 {}
    }

    async fn commit(self) -> Result<Vec<SequenceNumber>, Failure> {
        match self.0 {}
    }

    async fn rollback(self) -> Result<Vec<L>, Failure> {
        match self.0 {}
    }
}
