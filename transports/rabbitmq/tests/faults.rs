//! What becomes of messages when connections break and the server dies, by the harness of all transports.

mod support;

use std::{net::SocketAddr, time::Duration};

use consign_conformance::{
    Failure,
    faults::{Plan, Server},
};

use crate::support::{backend::Rabbit, node::Node};

struct Faulty(Node);

impl Server for Faulty {
    type Backend = Rabbit;

    fn address(&self) -> SocketAddr {
        self.0.socket()
    }

    async fn connect(&self, address: SocketAddr) -> Result<Rabbit, Failure> {
        let options = support::options()
            .deadline(self.deadline())
            .heartbeat(Duration::from_secs(1))
            .backoff(Duration::from_millis(50), Duration::from_millis(500));
        Ok(Rabbit::single(options, &format!("amqp://guest:guest@{address}/%2f")).await?)
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
