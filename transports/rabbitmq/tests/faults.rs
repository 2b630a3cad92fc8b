//! What becomes of messages when connections break and the server dies, by the harness of all transports.

mod support;

use std::{net::SocketAddr, time::Duration};

use consign::{
    message::EntityPath,
    transport::{DynTransport, ManageError},
};
use consign_conformance::{
    Failure,
    faults::{Plan, Server, check_pings},
};

use consign_rabbitmq::{QueueSettings, RabbitMq};

use crate::support::node::Node;

struct Faulty(Node);

impl Server for Faulty {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn address(&self) -> SocketAddr {
        self.0.socket()
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        let mut options = support::options();
        // Only a connection with faults needs to notice them soon.
        if address != self.address() {
            options = options
                .timeout(self.deadline())
                .heartbeat(Duration::from_secs(1))
                .backoff(Duration::from_millis(50), Duration::from_millis(500));
        }
        Ok(options.connect(&format!("amqp://guest:guest@{address}/%2f")).await?.into())
    }

    /// The limit counts no dead letters, so it is a setting of this crate alone.
    async fn create_small_queue(
        &self,
        transport: &DynTransport,
        path: &EntityPath,
        max_size: u64,
    ) -> Result<(), ManageError> {
        let rabbit = transport.extension::<RabbitMq>().expect("a transport that has itself");
        let mut settings = QueueSettings::default();
        settings.max_length_bytes = Some(max_size);
        rabbit.create_queue(path.as_str(), settings).await
    }

    /// AMQP 0-9-1 has no answer to an acknowledgement.
    fn answers_settlements(&self) -> bool {
        false
    }

    async fn restart(&self) -> Result<(), Failure> {
        self.0.restart().await.map_err(|error| Failure::behaviour(error.to_string()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_nothing() {
    let Some(node) = Node::start().await else { return };
    let report = Plan::from_env().run(&Faulty(node)).await;
    println!("faults: {}", report.to_json());
    assert!(report.is_passed() && report.left_out().is_empty(), "{report}");
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_succeed_only_while_the_server_answers() {
    let Some(node) = Node::start().await else { return };
    if let Err(failure) = check_pings(&Faulty(node)).await {
        panic!("{failure}");
    }
}
