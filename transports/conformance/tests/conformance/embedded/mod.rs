//! The embedded broker as the suite sees it.

mod disk;

use consign::{
    Disposition,
    broker::{self, Broker},
    message::EntityPath,
    time::{Clock, Moment, Timestamp},
    transport::{DynLease, DynTransport, Lease, ReceiveError, ReceiveMode, SettleError, Transport, TransportRegistry},
};
use consign_conformance::{Backend, Boxed, NoCall, SeparateReceiver};
use tokio::time::Instant;

pub(crate) use self::disk::OnDisk;

/// The broker on tokio's clock, which the tests pause.
pub(crate) struct Embedded {
    transport: DynTransport,
    clock: TokioClock,
    name: &'static str,
    url: Result<String, NoCall>,
}

/// UTC that begins at a fixed instant and follows tokio's time alone.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock(pub(crate) Instant);

impl TokioClock {
    const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        let elapsed = self.0.elapsed();
        Moment { elapsed, utc: Self::START.saturating_add(elapsed) }
    }
}

impl Embedded {
    pub(crate) fn new() -> Self {
        let clock = TokioClock(Instant::now());
        let transport = Broker::with_clock(clock).into();
        Self { transport, clock, name: "embedded", url: Ok("memory:".into()) }
    }

    /// A broker that another URL opens too.
    pub(crate) fn by_url(url: String) -> Self {
        Self { url: Ok(url), ..Self::new() }
    }
}

impl Backend for Embedded {
    fn name(&self) -> &'static str {
        self.name
    }

    fn transport(&self) -> &DynTransport {
        &self.transport
    }

    fn now(&self) -> Boxed<'_, Timestamp> {
        Box::pin(async { self.clock.now().utc })
    }

    fn url(&self) -> Result<(TransportRegistry, String), NoCall> {
        Ok((TransportRegistry::new().with(broker::connector()), self.url.clone()?))
    }

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
