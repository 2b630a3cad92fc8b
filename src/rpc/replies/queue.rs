use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use crate::transport::ReplySource;
use crate::transport::{Capabilities, Delivery, DirectReceiver, EntityInfo, ReceiveError, Receiver};

/// A queue for replies.
pub struct ReplyQueue<R> {
    address: Box<str>,
    receiver: R,
    is_shared: bool,
}

impl<R: Receiver> ReplyQueue<R> {
    /// A queue at `address` that only `receiver` receives from: one of this process that is deleted when idle, or one
    /// that was created for it.
    #[must_use]
    pub fn new(address: impl Into<Box<str>>, receiver: R) -> Self {
        Self { address: address.into(), receiver, is_shared: false }
    }

    /// Sets whether others receive from the queue too. A requester cannot be built on such a queue, for each would take
    /// the replies of the others; share an entity with sessions instead, by [`ReplySession`](super::ReplySession).
    #[must_use]
    pub fn shared(mut self, is_shared: bool) -> Self {
        self.is_shared = is_shared;
        self
    }
}

impl<R: Receiver + 'static> ReplySource for ReplyQueue<R> {
    fn address(&self) -> &str {
        &self.address
    }

    fn session_id(&self) -> Option<&str> {
        None
    }

    fn is_exclusive(&self) -> bool {
        !self.is_shared
    }
}

impl<R: Receiver> Receiver for ReplyQueue<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.receiver.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn receive_directly(&mut self, direct: &Arc<dyn DirectReceiver>) {
        self.receiver.receive_directly(direct);
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}

impl<R> fmt::Debug for ReplyQueue<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyQueue")
            .field("address", &self.address)
            .field("is_shared", &self.is_shared)
            .finish_non_exhaustive()
    }
}
