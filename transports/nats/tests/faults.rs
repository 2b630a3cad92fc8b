//! What becomes of messages when connections break and the server dies, by the harness of all transports.

#[path = "behaviour/own.rs"]
mod own;

use std::{net::SocketAddr, time::Duration};

use consign::{
    message::EntityPath,
    transport::{DynTransport, ManageError},
};
use consign_conformance::{
    Failure,
    faults::{Plan, Server, check_pings},
};
use consign_nats::{Nats, QueueSettings, async_nats::ConnectOptions};
use tokio::sync::Mutex;

use crate::own::OwnServer;

struct Faulty {
    address: SocketAddr,
    server: Mutex<OwnServer>,
}

impl Server for Faulty {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        let mut options = Nats::options().server_syncs();
        // Only a connection with faults needs to notice them soon.
        if address != self.address() {
            let client = ConnectOptions::new().ping_interval(Duration::from_secs(1)).ignore_discovered_servers();
            options = options
                .client(client)
                .timeout(self.deadline())
                .backoff(Duration::from_millis(50), Duration::from_millis(500));
        }
        Ok(options.connect(&format!("nats://{address}")).await?.into())
    }

    /// The limit counts no dead letters, so it is a setting of this crate alone.
    async fn create_small_queue(
        &self,
        transport: &DynTransport,
        path: &EntityPath,
        max_size: u64,
    ) -> Result<(), ManageError> {
        let nats = transport.extension::<Nats>().expect("a transport that has itself");
        let mut settings = QueueSettings::default();
        settings.max_bytes = Some(max_size);
        nats.create_queue(path.as_str(), settings).await
    }

    /// The server answers an acknowledgement from its memory, and writes it later: when it is killed, messages that were
    /// completed just before come again, whatever client completed them.
    fn keeps_settlements(&self) -> bool {
        false
    }

    async fn restart(&self) -> Result<(), Failure> {
        let mut server = self.server.lock().await;
        server.kill();
        server.run().await;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_nothing() {
    let Some(server) = OwnServer::start().await else { return };
    let faulty = Faulty { address: server.socket(), server: Mutex::new(server) };
    let report = Plan::from_env().run(&faulty).await;
    println!("faults: {}", report.to_json());
    assert!(report.is_passed() && report.left_out().is_empty(), "{report}");
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_succeed_only_while_the_server_answers() {
    let Some(server) = OwnServer::start().await else { return };
    if let Err(failure) = check_pings(&Faulty { address: server.socket(), server: Mutex::new(server) }).await {
        panic!("{failure}");
    }
}
