use std::{fmt, sync::Arc};

use crate::{
    Message,
    transport::{Batch, BoxFuture, Capabilities, SendError, Sender},
};

/// A boxed [`Sender`].
#[derive(Clone)]
pub struct DynSender(Arc<dyn Twin>);

impl DynSender {
    /// Boxes a sender.
    #[must_use]
    pub fn new(sender: impl Sender) -> Self {
        Self(Arc::new(sender))
    }
}

trait Twin: Send + Sync {
    fn send(&self, message: Message) -> BoxFuture<Result<(), SendError>>;
    fn send_batch(&self, batch: Batch) -> BoxFuture<Result<(), SendError>>;
    fn capabilities(&self) -> Capabilities;
}

impl<S: Sender> Twin for S {
    fn send(&self, message: Message) -> BoxFuture<Result<(), SendError>> {
        Box::pin(Sender::send(self, message))
    }

    fn send_batch(&self, batch: Batch) -> BoxFuture<Result<(), SendError>> {
        Box::pin(Sender::send_batch(self, batch))
    }

    fn capabilities(&self) -> Capabilities {
        Sender::capabilities(self)
    }
}

impl Sender for DynSender {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        self.0.send(message)
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        self.0.send_batch(batch)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}

impl fmt::Debug for DynSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynSender").finish_non_exhaustive()
    }
}
