//! What becomes of messages when connections break and the server dies, by the harness of all transports.

mod support;

use std::{net::SocketAddr, time::Duration};

use consign::{
    administration::QueueSettings,
    message::EntityPath,
    transport::{DynTransport, ErrorKind, ManageError},
};
use consign_amqp10::Amqp10;
use consign_conformance::{
    Failure,
    faults::{Plan, Server, check_pings},
};

use crate::support::{
    managed::{Managed, Queues},
    node::Node,
    proton::{Proton, ProtonQueues},
    rabbitmq::RabbitMqQueues,
};

async fn connect<S: Server>(
    server: &S,
    address: SocketAddr,
    login: &str,
    queues: impl Queues,
) -> Result<DynTransport, Failure> {
    let mut options = Amqp10::options();
    // Only a connection with faults needs to notice them soon.
    if address != server.address() {
        options = options
            .timeout(server.deadline())
            .idle_timeout(Duration::from_secs(2))
            .backoff(Duration::from_millis(50), Duration::from_millis(500));
    }
    Ok(Managed::new(options.connect(&format!("amqp10://{login}{address}")).await?, queues).ignoring_settings().into())
}

struct OnProton(Proton);

impl Server for OnProton {
    fn name(&self) -> &'static str {
        "amqp10"
    }

    fn address(&self) -> SocketAddr {
        self.0.socket()
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        connect(self, address, "", self.0.queues()).await
    }

    /// AMQP 1.0 has no setting for the size.
    async fn create_small_queue(&self, _: &DynTransport, path: &EntityPath, max_size: u64) -> Result<(), ManageError> {
        let queues: ProtonQueues = self.0.queues();
        queues.create_small(path.as_str(), max_size).await
    }

    /// A lock ends with its connection.
    fn queue(&self) -> QueueSettings {
        QueueSettings::default().lock_duration(Duration::from_secs(1))
    }
}

struct OnRabbitMq(Node);

impl Server for OnRabbitMq {
    fn name(&self) -> &'static str {
        "amqp10-rabbitmq"
    }

    fn address(&self) -> SocketAddr {
        self.0.socket()
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        connect(self, address, "guest:guest@", RabbitMqQueues::connect(&self.0.url()).await).await
    }

    /// The plugin does not answer a message that a full queue refuses.
    async fn create_small_queue(&self, _: &DynTransport, _: &EntityPath, _: u64) -> Result<(), ManageError> {
        Err(ManageError::new(ErrorKind::NotSupported))
    }

    /// A lock ends with its connection.
    fn queue(&self) -> QueueSettings {
        QueueSettings::default().lock_duration(Duration::from_secs(1))
    }

    /// The plugin answers before the queue has written the acknowledgement to its disk.
    fn keeps_settlements(&self) -> bool {
        false
    }

    async fn restart(&self) -> Result<(), Failure> {
        self.0.restart().await.map_err(|error| Failure::behaviour(error.to_string()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_nothing() {
    let Some(proton) = Proton::start().await else { return };
    let report = Plan::from_env().run(&OnProton(proton)).await;
    println!("faults: {}", report.to_json());
    // Its queues are in memory, so that it is not restarted.
    assert!(report.is_passed() && report.left_out() == ["server restart"], "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_nothing_on_rabbitmq() {
    let Some(node) = Node::start().await else { return };
    let report = Plan::from_env().run(&OnRabbitMq(node)).await;
    println!("faults: {}", report.to_json());
    assert!(report.is_passed() && report.left_out() == ["full queue"], "{report}");
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_succeed_only_while_the_server_answers() {
    let Some(proton) = Proton::start().await else { return };
    if let Err(failure) = check_pings(&OnProton(proton)).await {
        panic!("{failure}");
    }
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_on_rabbitmq_succeed_only_while_the_server_answers() {
    let Some(node) = Node::start().await else { return };
    if let Err(failure) = check_pings(&OnRabbitMq(node)).await {
        panic!("{failure}");
    }
}
