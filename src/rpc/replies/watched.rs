use std::{
    sync::Arc,
    task::{Context, Poll},
};

use crate::{
    rpc::pending::Pending,
    transport::{Capabilities, Delivery, EntityInfo, ReceiveError, Receiver, ReplySource},
};

/// A receiver whose failure fails the calls that wait for what it would have received.
pub(super) struct Watched<R> {
    receiver: R,
    pending: Arc<Pending>,
    /// Whether calls are refused until it receives. It has received nothing yet, so they may be.
    failed: bool,
}

impl<R> Watched<R> {
    pub(super) fn new(receiver: R, pending: Arc<Pending>) -> Self {
        Self { receiver, pending, failed: true }
    }
}

impl<R: ReplySource> Watched<R> {
    /// It waits again, or has received: something can arrive again, unless the source is not that far yet.
    #[cold]
    fn waits(&mut self, has_received: bool) {
        if has_received || self.receiver.is_receiving() {
            self.failed = false;
            self.pending.open();
        }
    }
}

impl<R: ReplySource> Receiver for Watched<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.receiver.poll_receive(cx, max, out);
        match &polled {
            Poll::Ready(Err(_)) => {
                self.failed = true;
                self.pending.disconnect();
            }
            Poll::Ready(Ok(_)) | Poll::Pending if self.failed => self.waits(polled.is_ready()),
            Poll::Ready(Ok(_)) | Poll::Pending => {}
        }
        polled
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}
