use std::{future::Future, pin::Pin, time::Duration};

use consign::{
    Disposition,
    message::EntityPath,
    time::{Clock, SystemClock, Timestamp},
    transport::{
        Capability, Delivery, DynLease, DynReceiver, DynTransport, ReceiveError, SettleError, TransportRegistry,
    },
};

use crate::{Failure, NoCall, Timing};

/// A boxed future that borrows.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A broker under test: its transport, and what only its tests can do.
///
/// The suite calls the transport by the traits of [`consign::transport`], [`consign::administration`] and [`consign::rules`]. So a
/// backend says no more than which transport it is, how time passes there, and how a connection is lost.
pub trait Backend: Send + Sync + 'static {
    /// Returns the name in the table: lower case, without spaces.
    fn name(&self) -> &'static str;

    /// Returns the transport, as its URL opens it.
    fn transport(&self) -> &DynTransport;

    /// Returns the unsupported capabilities that no case can show to be unsupported, each with the reason.
    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[]
    }

    /// Returns how the suite waits for this broker.
    fn timing(&self) -> Timing {
        Timing::default()
    }

    /// Returns whether a failure is a known defect of the broker itself, so that it shows nothing about the transport. The case
    /// is run again then, with new entities, up to twice, and [`CaseReport::outages`](crate::CaseReport::outages) has the
    /// failures. The default is `false`.
    fn is_outage(&self, failure: &Failure) -> bool {
        let _ = failure;
        false
    }

    /// Returns the broker's UTC, exact to [`Timing::margin`]. The default is that of this machine, which does not follow tokio's
    /// paused time.
    fn now(&self) -> Boxed<'_, Timestamp> {
        Box::pin(async { SystemClock::new().now().utc })
    }

    /// Lets time pass. Under tokio's paused time the default takes none.
    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        Box::pin(tokio::time::sleep(by))
    }

    /// Returns a URL of the broker, and the registry that connects to it.
    ///
    /// # Errors
    ///
    /// [`NoCall`] with the reason, if there is no URL. The cases about URLs are not run then.
    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        Err(NoCall::new("the transport has no URL"))
    }

    /// Settles a delivery over another connection than that of the delivery.
    fn settle_elsewhere(&self, lease: DynLease, disposition: Disposition) -> Boxed<'_, Result<(), SettleError>> {
        let _ = (lease, disposition);
        Box::pin(async { Err(NoCall::new("the backend leaves out `settle_elsewhere`").into()) })
    }

    /// Creates a receiver that can be disconnected without disconnecting others: on a connection of its own where receivers
    /// have connections.
    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        let _ = path;
        Box::pin(async { Err(NoCall::new("the backend leaves out `separate_receiver`").into()) })
    }
}

type Deliveries = Vec<Delivery<DynLease>>;
type Disconnect = Box<dyn FnOnce(DynReceiver, Deliveries) -> Boxed<'static, Result<(), ReceiveError>> + Send>;

/// A receiver, and the function that disconnects it.
pub struct SeparateReceiver {
    receiver: DynReceiver,
    disconnect: Disconnect,
}

impl SeparateReceiver {
    /// Creates a receiver with a function that disconnects it as if its process had died, and waits until the broker has
    /// noticed. The function drops the deliveries that the receiver holds, and settles none.
    pub fn new<F>(
        receiver: DynReceiver,
        disconnect: impl FnOnce(DynReceiver, Vec<Delivery<DynLease>>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), ReceiveError>> + Send + 'static,
    {
        Self { receiver, disconnect: Box::new(move |receiver, held| Box::pin(disconnect(receiver, held))) }
    }

    /// Creates a receiver without a connection: it is lost when it is dropped with its deliveries.
    #[must_use]
    pub fn in_process(receiver: DynReceiver) -> Self {
        Self::new(receiver, |receiver, held| async {
            drop(receiver);
            drop(held);
            Ok(())
        })
    }

    pub(crate) fn receiver(&mut self) -> &mut DynReceiver {
        &mut self.receiver
    }

    pub(crate) async fn disconnect(self, held: Deliveries) -> Result<(), ReceiveError> {
        (self.disconnect)(self.receiver, held).await
    }
}
