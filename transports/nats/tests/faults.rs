//! What becomes of messages when connections break and the server dies, by the harness of all transports.

#[path = "conformance/backend.rs"]
mod backend;
#[path = "behaviour/own.rs"]
mod own;

use std::{net::SocketAddr, time::Duration};

use consign_conformance::{
    Failure,
    faults::{Plan, Server},
};
use consign_nats::{Nats, async_nats::ConnectOptions};
use tokio::sync::Mutex;

use crate::{backend::JetStream, own::OwnServer};

struct Faulty {
    address: SocketAddr,
    server: Mutex<OwnServer>,
}

impl Server for Faulty {
    type Backend = JetStream;

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn connect(&self, address: SocketAddr) -> Result<JetStream, Failure> {
        let client = ConnectOptions::new().ping_interval(Duration::from_secs(1)).ignore_discovered_servers();
        let options = Nats::options()
            .client(client)
            .timeout(self.deadline())
            .backoff(Duration::from_millis(50), Duration::from_millis(500))
            .server_syncs();
        Ok(JetStream::single(options.connect(&format!("nats://{address}")).await?))
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
