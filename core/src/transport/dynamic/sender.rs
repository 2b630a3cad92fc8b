use std::{fmt, sync::Arc};

use crate::{
    Message,
    time::Clock,
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
    fn clock(&self) -> Option<Arc<dyn Clock>>;
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

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Sender::clock(self)
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

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }
}

impl fmt::Debug for DynSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynSender").finish_non_exhaustive()
    }
}
