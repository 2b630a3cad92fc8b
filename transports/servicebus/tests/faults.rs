//! What becomes of messages when connections break and the server dies, by the harness of all transports.

#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use consign::{
    administration::QueueSettings,
    broker::Broker,
    transport::{DynTransport, ErrorKind},
};
use consign_conformance::{
    Failure,
    faults::{Plan, Server, check_pings},
};
use consign_servicebus::ServiceBus;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::support::managed::Managed;

/// A server of a broker on a disk, which is closed and opened again.
struct OnDisk {
    folder: TempDir,
    address: SocketAddr,
    running: Arc<Mutex<Option<Running>>>,
}

struct Running {
    broker: Broker,
    task: JoinHandle<()>,
}

impl OnDisk {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = Self { folder, address, running: Arc::default() };
        this.serve(listener);
        this
    }

    fn serve(&self, listener: TcpListener) {
        let broker = Broker::options().open(self.folder.path().join("store")).unwrap();
        let server = consign_server::Server::builder().broker(broker.clone()).create_entities(false).build();
        let task = tokio::spawn(async move { drop(server.serve(listener).await) });
        *self.running.lock() = Some(Running { broker, task });
    }
}

impl Server for OnDisk {
    fn name(&self) -> &'static str {
        "servicebus"
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        let options = ServiceBus::options()
            .timeout(Duration::from_secs(2))
            .idle_timeout(Duration::from_secs(2))
            .backoff(Duration::from_millis(50), Duration::from_millis(500));
        let text =
            format!("Endpoint=sb://{address};SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true");
        let service_bus = options.connect(&text).await?;
        let broker = self.running.lock().as_ref().map(|running| running.broker.clone());
        let broker = broker.ok_or_else(|| Failure::answer(ErrorKind::CommunicationProblem, "the server is down"))?;
        Ok(Managed { service_bus, broker }.into())
    }

    fn queue(&self) -> QueueSettings {
        QueueSettings::default().lock_duration(Duration::from_secs(5)).max_delivery_count(1_000)
    }

    /// The connections end without a close frame, and the store is opened again.
    async fn restart(&self) -> Result<(), Failure> {
        let Some(Running { broker, task }) = self.running.lock().take() else { return Ok(()) };
        task.abort();
        let _ = task.await;
        broker.close().await.map_err(|error| Failure::behaviour(error.to_string()))?;
        let listener = TcpListener::bind(self.address).await;
        self.serve(listener.map_err(|error| Failure::behaviour(error.to_string()))?);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_nothing() {
    let report = Plan::from_env().run(&OnDisk::start().await).await;
    println!("faults: {}", report.to_json());
    assert!(report.is_passed() && report.left_out().is_empty(), "{report}");
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_succeed_only_while_the_server_answers() {
    let server = OnDisk::start().await;
    if let Err(failure) = check_pings(&server).await {
        panic!("{failure}");
    }
}
