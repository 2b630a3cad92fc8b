use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::DynLease;
use crate::transport::{Capabilities, Delivery, DirectReceiver, EntityInfo, Lease, ReceiveError, Receiver, appended};

/// A boxed [`Receiver`].
pub struct DynReceiver(Box<dyn Twin>);

impl DynReceiver {
    /// Boxes a receiver.
    #[must_use]
    pub fn new<R: Receiver + 'static>(receiver: R) -> Self {
        Self(Box::new(Unboxed { receiver, deliveries: Vec::new() }))
    }
}

/// A receiver, and its deliveries on their way to a caller that expects boxed leases.
pub(super) struct Unboxed<R, L> {
    pub(super) receiver: R,
    pub(super) deliveries: Vec<Delivery<L>>,
}

impl<R: Receiver<Lease = L>, L: Lease> Unboxed<R, L> {
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let received = ready!(self.receiver.poll_receive(cx, max, &mut self.deliveries));
        let received = appended(received, &self.deliveries);
        out.extend(self.deliveries.drain(..).map(DynLease::delivery));
        Poll::Ready(received)
    }
}

trait Twin: Send {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>>;
    fn stop(&mut self);
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    fn receive_directly(&mut self, direct: &Arc<dyn DirectReceiver>);
    fn browse_only(&mut self);
    fn capabilities(&self) -> Capabilities;
    fn entity_info(&self) -> EntityInfo;
}

impl<R: Receiver<Lease = L>, L: Lease> Twin for Unboxed<R, L> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        Self::poll_receive(self, cx, max, out)
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

    fn browse_only(&mut self) {
        self.receiver.browse_only();
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}

impl Receiver for DynReceiver {
    type Lease = DynLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<DynLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_stopped(cx)
    }

    fn receive_directly(&mut self, direct: &Arc<dyn DirectReceiver>) {
        self.0.receive_directly(direct);
    }

    fn browse_only(&mut self) {
        self.0.browse_only();
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.entity_info()
    }
}

impl fmt::Debug for DynReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynReceiver").field("entity", &self.entity_info()).finish_non_exhaustive()
    }
}
