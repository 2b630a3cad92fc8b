use std::{
    fmt,
    future::{Ready, ready},
    sync::Arc,
};

use super::queue::Shared;
use crate::{
    Message,
    transport::{Batch, SendError, Sender},
};

/// Sends to a queue of the embedded broker. A send has happened when the call returns; its future is ready at once.
///
/// Refusals: [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument) names the field,
/// [`MessageSizeExceeded`](crate::transport::ErrorKind::MessageSizeExceeded) the limit,
/// [`QuotaExceeded`](crate::transport::ErrorKind::QuotaExceeded) says that the queue is full, and
/// [`NotSupported`](crate::transport::ErrorKind::NotSupported) that the message has an enqueue time in the future.
#[derive(Clone)]
pub struct QueueSender {
    shared: Arc<Shared>,
}

impl QueueSender {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Sender for QueueSender {
    type Send = Ready<Result<(), SendError>>;

    #[inline]
    fn send(&self, message: Message) -> Self::Send {
        let now = self.shared.now();
        let sent = self.shared.with(|state| state.engine.send(now, message));
        ready(sent.map_err(|(error, _)| error))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let now = self.shared.now();
        let sent = self.shared.with(|state| state.engine.send_batch(now, batch.0));
        ready(sent.map_err(|(error, _)| error))
    }
}

impl fmt::Debug for QueueSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueSender").field("queue", self.shared.path()).finish()
    }
}
