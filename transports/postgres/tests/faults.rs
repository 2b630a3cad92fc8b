//! What becomes of messages when connections break and the server dies, by the harness of all transports.

mod support;

use std::{net::SocketAddr, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    transport::{DynTransport, ErrorKind, Sender},
};
use consign_conformance::{
    Failure,
    faults::{Plan, Server, check_pings},
};
use consign_postgres::{
    Postgres,
    tokio_postgres::{self, NoTls},
};

use crate::support::cluster::Cluster;

const SCHEMA: &str = "faults";

struct Faulty(Cluster);

impl Server for Faulty {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        let options = Postgres::options().schema(SCHEMA).connections(1).timeout(self.deadline());
        let options = options.poll_every(Duration::from_millis(500)).grace(Duration::from_secs(2));
        Ok(options.connect(&Cluster::url(address)).await?.into())
    }

    async fn restart(&self) -> Result<(), Failure> {
        self.0.restart().await.map_err(|error| Failure::answer(ErrorKind::General, error.to_string()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let url = Cluster::url(cluster.address());
    Postgres::options().schema(SCHEMA).connect(&url).await.unwrap().migrate().await.unwrap();
    let report = Plan::from_env().run(&Faulty(cluster)).await;
    println!("faults: {}", report.to_json());
    assert!(report.is_passed() && report.left_out().is_empty(), "{report}");
}

/// Each commit waits for a standby that is not there.
#[tokio::test]
async fn sends_without_an_answer_leave_no_connection_at_the_server() {
    let Some(cluster) = Cluster::start_with(|_| "-c synchronous_standby_names=none".into()) else { return };
    let url = Cluster::url(cluster.address());
    let local = format!("{url}&options=-c%20synchronous_commit%3Dlocal");
    let options = || Postgres::options().schema("waits").connections(1);
    let before = options().connect(&local).await.unwrap();
    before.migrate().await.unwrap();
    before.create_queue("queue", QueueSettings::default()).await.unwrap();
    let waits = format!("{url}&application_name=waits");
    // The short timeout is also that of what precedes the sends.
    let connecting = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let Ok(waits) = options().timeout(Duration::from_millis(300)).connect(&waits).await else { continue };
            if let Ok(sender) = waits.sender("queue").await {
                return (waits, sender);
            }
        }
    });
    let (_waits, sender) = connecting.await.expect("a connection");
    let (until, mut unanswered) = (tokio::time::Instant::now() + Duration::from_secs(60), 0);
    while unanswered < 6 {
        assert!(tokio::time::Instant::now() < until, "{unanswered} sends");
        let error = sender.send(Message::new("a")).await.unwrap_err();
        match error.kind() {
            ErrorKind::ServiceTimeout => unanswered += 1,
            // It got no connection, and nothing was executed.
            ErrorKind::ServiceBusy => {}
            _ => panic!("{error}"),
        }
    }
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits'";
    let left = tokio::time::timeout(Duration::from_secs(60), async {
        // One of the pool, and the one that listens.
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    left.await.expect("they end");
}

/// The server is there, and another attempt may succeed.
#[tokio::test]
async fn a_database_that_is_not_open_for_now_is_retryable() {
    let Some(cluster) = Cluster::start() else { return };
    let url = Cluster::url(cluster.address());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE DATABASE closed ALLOW_CONNECTIONS false").await.unwrap();
    let error = Postgres::connect(&url.replace("/postgres", "/closed")).await.unwrap_err();
    assert!(error.is_retryable() && error.kind() == ErrorKind::CommunicationProblem, "{error:?}");
    let error = Postgres::connect(&url.replace("/postgres", "/none")).await.unwrap_err();
    assert!(!error.is_retryable(), "{error:?}");
}

/// Rules: K-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_succeed_only_while_the_server_answers() {
    let Some(cluster) = Cluster::start() else { return };
    let url = Cluster::url(cluster.address());
    Postgres::options().schema(SCHEMA).connect(&url).await.unwrap().migrate().await.unwrap();
    if let Err(failure) = check_pings(&Faulty(cluster)).await {
        panic!("{failure}");
    }
}
