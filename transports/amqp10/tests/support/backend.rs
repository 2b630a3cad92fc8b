//! A broker as the suite sees it.

use consign::{
    message::EntityPath,
    transport::{Capability, DynReceiver, DynTransport, ReceiveError, ReceiveMode, Transport, TransportRegistry},
};
use consign_amqp10::Amqp10;
use consign_conformance::{Backend, Boxed, Failure, NoCall, SeparateReceiver, Timing};

use super::managed::{ManagedConnector, Queues};

pub(crate) struct Broker<Q> {
    name: &'static str,
    url: String,
    queues: Q,
    transport: DynTransport,
    not_tested: &'static [(Capability, &'static str)],
}

impl<Q: Queues> Broker<Q> {
    pub(crate) async fn connect(
        name: &'static str,
        url: String,
        queues: Q,
        not_tested: &'static [(Capability, &'static str)],
    ) -> Self {
        let registry = TransportRegistry::new().with(ManagedConnector(queues.clone()));
        let transport = registry.connect(&url).await.expect("a broker that answers");
        Self { name, url, queues, transport, not_tested }
    }

    pub(crate) async fn close(&self) {
        self.transport.close().await.expect("a connection");
    }
}

impl<Q: Queues> Backend for Broker<Q> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        self.not_tested
    }

    fn timing(&self) -> Timing {
        Timing::BUSY
    }

    /// RabbitMQ 3 opens a channel for each attach and closes it after. If it notices the end of that process before it watches
    /// it, it ends the session of the link, which may be in use by then.
    fn is_outage(&self, failure: &Failure) -> bool {
        failure.why().contains("{connection_closing,{internal_error,541,")
    }

    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        Ok((TransportRegistry::new().with(ManagedConnector(self.queues.clone())), self.url.clone()))
    }

    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        Box::pin(async {
            let connecting = Amqp10::connect(&self.url).await;
            let amqp = connecting.map_err(|error| ReceiveError::new(error.kind()).with_source(error))?;
            let receiver = DynReceiver::new(amqp.receiver(path, ReceiveMode::PeekLock).await?);
            Ok(SeparateReceiver::new(receiver, |receiver, held| async move {
                let _ = amqp.close().await;
                drop(receiver);
                drop(held);
                Ok(())
            }))
        })
    }
}
