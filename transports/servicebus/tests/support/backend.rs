//! The transport on a server in this process, as the suite sees it.

use consign::{
    Disposition,
    message::EntityPath,
    time::{Clock, Timestamp},
    transport::{
        Capability, DynLease, DynReceiver, DynTransport, Lease, ReceiveError, ReceiveMode, SettleError, Transport,
        TransportRegistry,
    },
};
use consign_conformance::{Backend, Boxed, NoCall, SeparateReceiver, Timing};
use consign_servicebus::ServiceBus;

use super::{
    InMemory,
    managed::{Managed, ManagedConnector},
};

pub(crate) struct OnServer {
    server: InMemory,
    service_bus: ServiceBus,
    transport: DynTransport,
    /// None of a server on virtual time.
    url: Option<String>,
}

impl OnServer {
    /// On virtual time, which the tests pause.
    pub(crate) async fn new() -> Self {
        let server = InMemory::new();
        let service_bus = server.connect().await;
        let managed = Managed { service_bus: service_bus.clone(), broker: server.broker().clone() };
        Self { server, service_bus, transport: managed.into(), url: None }
    }

    /// On loopback, and real time.
    pub(crate) async fn by_url() -> Self {
        let this = Self::new().await;
        let address = super::listen(&this.server.server).await;
        Self { url: Some(format!("servicebus://any:any@{address}?emulator=true")), ..this }
    }
}

impl Backend for OnServer {
    fn name(&self) -> &'static str {
        "servicebus"
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[]
    }

    fn timing(&self) -> Timing {
        if self.url.is_some() { Timing::BUSY } else { Timing::default() }
    }

    fn now(&self) -> Boxed<'_, Timestamp> {
        Box::pin(async { self.server.clock.now().utc })
    }

    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        let virtual_time = "a URL opens a socket, and the time of these cases is virtual";
        let url = self.url.clone().ok_or_else(|| NoCall::new(virtual_time))?;
        Ok((TransportRegistry::new().with(ManagedConnector(self.server.broker().clone())), url))
    }

    /// The connection of the delivery is closed before.
    fn settle_elsewhere(&self, lease: DynLease, disposition: Disposition) -> Boxed<'_, Result<(), SettleError>> {
        Box::pin(async move {
            let closed = self.service_bus.disconnect().await;
            closed.map_err(|error| SettleError::new(error.kind()).with_source(error))?;
            lease.settle(disposition).await
        })
    }

    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        Box::pin(async {
            let service_bus = self.server.connect().await;
            let receiver = DynReceiver::new(service_bus.receiver(path, ReceiveMode::PeekLock).await?);
            Ok(SeparateReceiver::new(receiver, |receiver, held| async move {
                let _ = service_bus.close().await;
                drop(receiver);
                drop(held);
                Ok(())
            }))
        })
    }
}
