//! The transport as the suite sees it.

use std::time::Duration;

use consign::{
    Disposition,
    message::EntityPath,
    time::{Clock, SystemClock, Timestamp},
    transport::{
        Capability, DynLease, DynTransport, Lease, ReceiveError, ReceiveMode, SettleError, Transport, TransportRegistry,
    },
};
use consign_conformance::{Backend, Boxed, NoCall, SeparateReceiver};
use consign_example_transport::{Channels, connector};

/// How far the time of the tests is ahead of real time before the first case.
const AHEAD: Duration = Duration::from_secs(10);

pub(crate) struct InChannels {
    transport: DynTransport,
    clock: SystemClock,
}

impl InChannels {
    pub(crate) fn new() -> Self {
        Self { transport: Channels::new().into(), clock: SystemClock::new() }
    }
}

impl Backend for InChannels {
    fn name(&self) -> &'static str {
        "example"
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[
            (Capability::DeadLetterOnExpiration, "no message expires"),
            (Capability::SessionState, "no queue has sessions"),
            (Capability::NextSession, "no queue has sessions"),
            (Capability::CorrelationFilters, "there are no topics"),
            (Capability::SqlRules, "there are no topics"),
        ]
    }

    /// It follows the time of the tests, as that of the transport does. While that is less than a second ahead of real time, both
    /// clocks may read the UTC of the machine, each at another moment.
    fn now(&self) -> Boxed<'_, Timestamp> {
        Box::pin(async {
            let elapsed = self.clock.now().elapsed;
            tokio::time::sleep(AHEAD.saturating_sub(elapsed)).await;
            self.clock.now().utc
        })
    }

    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        Ok((TransportRegistry::new().with(connector()), "channel:".into()))
    }

    /// There are no connections: a lease settles wherever it is.
    fn settle_elsewhere(&self, lease: DynLease, disposition: Disposition) -> Boxed<'_, Result<(), SettleError>> {
        lease.settle(disposition)
    }

    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        Box::pin(async {
            let receiver = self.transport.receiver(path, ReceiveMode::PeekLock).await?;
            Ok(SeparateReceiver::in_process(receiver))
        })
    }
}
