use consign::{
    message::EntityPath,
    transport::{Capability, DynReceiver, DynTransport, ReceiveError, TransportRegistry},
};
use consign_conformance::{Backend, Boxed, NoCall, SeparateReceiver, Timing};
use consign_rabbitmq::{RabbitMq, connector};

use super::{address, delete_delays, options, unique};

/// RabbitMQ as the suite sees it.
pub(crate) struct Rabbit {
    client: RabbitMq,
    transport: DynTransport,
    delays: String,
}

/// Few, for each is two quorum queues.
const SLOTS: u16 = 3;

impl Rabbit {
    pub(crate) async fn connect() -> Option<Self> {
        let delays = unique("delays");
        let client = super::connect(options().delays(delays.clone()).session_slots(SLOTS)).await?;
        Some(Self { transport: client.clone().into(), client, delays })
    }

    pub(crate) async fn clean_up(&self) {
        delete_delays(&self.delays).await;
        self.client.close().await.expect("an open connection");
    }
}

impl Backend for Rabbit {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[
            (Capability::SettleElsewhere, "no call for it"),
            (Capability::EnqueuedTime, "the time is the sender's: on one machine it is that of the broker"),
        ]
    }

    fn timing(&self) -> Timing {
        Timing::BUSY
    }

    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        Ok((TransportRegistry::new().with(connector()), format!("{}?delays={}", address(), self.delays)))
    }

    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        Box::pin(async {
            let connecting = self.client.connect_again().await;
            let rabbit = connecting.map_err(|error| ReceiveError::new(error.kind()).with_source(error))?;
            let receiver = DynReceiver::new(rabbit.receiver(path.as_str())?);
            Ok(SeparateReceiver::new(receiver, |receiver, held| async move {
                rabbit.close().await.expect("an open connection");
                drop(receiver);
                drop(held);
                Ok(())
            }))
        })
    }
}
