//! JetStream as the suite sees it.

use std::time::Duration;

use consign::{
    Disposition,
    message::EntityPath,
    transport::{
        Capability, DynLease, DynReceiver, DynTransport, ErrorKind, Lease, ReceiveError, SettleError, TransportRegistry,
    },
};
use consign_conformance::{Backend, Boxed, NoCall, Process, SeparateReceiver, Timing};
use consign_nats::{Nats, NatsLease, Options, connector};

/// Two connections to one server.
pub(crate) struct JetStream {
    url: String,
    transport: DynTransport,
    other: Nats,
}

const NAMESPACE: &str = "conformance";
/// For a server that all cases use at the same time.
const PATIENCE: Duration = Duration::from_secs(2);

impl JetStream {
    pub(crate) async fn connect(url: &str) -> Self {
        let (nats, other) = (options().connect(url).await, options().connect(url).await);
        let connected = "the server that the tests want";
        let (nats, other) = (nats.expect(connected), other.expect(connected));
        Self { url: url.to_owned(), transport: nats.into(), other }
    }
}

fn options() -> Options {
    Nats::options().namespace(NAMESPACE).server_syncs().patience(PATIENCE)
}

impl Backend for JetStream {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn not_tested(&self) -> &'static [(Capability, &'static str)] {
        &[(Capability::DeadLetterOnExpiration, "no message expires")]
    }

    fn timing(&self) -> Timing {
        Timing::BUSY
    }

    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        Ok((TransportRegistry::new().with(connector()), format!("{}?namespace={NAMESPACE}", self.url)))
    }

    fn settle_elsewhere(&self, lease: DynLease, disposition: Disposition) -> Boxed<'_, Result<(), SettleError>> {
        Box::pin(async move {
            let lease = lease.downcast::<NatsLease>();
            let lease =
                lease.map_err(|_| SettleError::new(ErrorKind::General).with_detail("a lease of another kind"))?;
            lease.over(&self.other).settle(disposition).await
        })
    }

    /// The server does nothing when a connection ends, so there is nothing to wait for.
    fn separate_receiver<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<SeparateReceiver, ReceiveError>> {
        let (url, path) = (self.url.clone(), path.clone());
        let connecting = async move {
            let nats = options().connect(&url).await;
            let nats = nats.map_err(|error| ReceiveError::new(error.kind()).with_source(error))?;
            Ok(DynReceiver::new(nats.receiver(path.as_str()).await?))
        };
        Box::pin(async {
            let (process, receiver) = Process::start(connecting).await?;
            Ok(SeparateReceiver::new(receiver, |receiver, held| process.kill(receiver, held)))
        })
    }
}
