//! What a run asks of a broker, so that it is the same run on any of them.

use std::future::Future;

use consign::{
    broker::QueueSender,
    transport::{Receiver, Sender},
};

use crate::{failure::Failure, ledger::Ledger};

/// A queue with its dead-letter sub-queue.
pub trait Place: Send + Sync {
    type Sender: Sender;
    type Receiver: Receiver + 'static;

    fn sender(&self) -> impl Future<Output = Result<Self::Sender, Failure>> + Send;

    fn receiver(&self) -> impl Future<Output = Result<Self::Receiver, Failure>> + Send;

    fn dead_letters(&self) -> impl Future<Output = Result<Self::Receiver, Failure>> + Send;

    /// Where entries are written, if they are.
    fn books(&self) -> Option<QueueSender> {
        None
    }

    /// Whether all that was sent is settled, or as good as that.
    fn is_drained(&self, ledger: &Ledger, sent: u64) -> bool {
        ledger.books().entered() >= sent
    }

    fn close(self) -> impl Future<Output = Result<(), Failure>> + Send;
}
