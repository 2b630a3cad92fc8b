//! A sender with a fault.

use consign::{
    Message,
    broker::QueueSender,
    transport::{Batch, BoxFuture, SendError, Sender},
};

use super::Fault;

#[derive(Clone)]
pub(super) struct WrongSender {
    pub(super) inner: QueueSender,
    pub(super) fault: Fault,
}

impl Sender for WrongSender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        Box::pin(self.inner.send(message))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        Box::pin(self.inner.send_batch(batch))
    }
}
