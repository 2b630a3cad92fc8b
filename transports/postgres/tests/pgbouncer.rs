//! Behind `PgBouncer`.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    message::EntityPath,
    transport::{Capability, ReceiveMode, ReceiverExt, Sender, Transport, TransportRegistry},
};
use consign_conformance::{Suite, log::Lines};
use consign_postgres::{
    Postgres, connector,
    tokio_postgres::{self, NoTls},
};
use tokio::time::timeout;

use crate::support::{backend::InPostgres, cluster::Cluster, pgbouncer::PgBouncer, server};

/// Those that need more than one statement of a connection, or a notification. The others take minutes.
const CAPABILITIES: [Capability; 3] = [Capability::Sessions, Capability::RequestReply, Capability::Transactions];

/// For what a machine that is busy does late.
const SOON: Duration = Duration::from_secs(60);

const TIMEOUT: Duration = Duration::from_secs(3);
/// After this a connection of the server is older than one that is opened within the timeout.
const OLD: Duration = Duration::from_millis(3_500);

/// What may be left on a connection of the server, and where nothing is.
const LEFT: &str = "|| ' ' || current_setting('synchronous_commit') || current_setting('lock_timeout')
    || current_setting('jit') || (SELECT count(*) FROM pg_prepared_statements)";
const NOTHING: &str = " on0on0";

/// Rules: K-339.
#[tokio::test]
async fn cases_of_the_suite_pass_with_a_listening_connection_beside_the_pooler() {
    let Some(url) = server::url().await else { return };
    let Some(bouncer) = PgBouncer::start(&url, "transaction").await else { return };
    let (lines, _guard) = Lines::capture();
    let broker = InPostgres::behind(bouncer.url(), &url, true).await;
    for capability in CAPABILITIES {
        let report = Suite::new().only(capability).run(&broker).await;
        assert!(report.is_passed(), "{report}");
    }
    assert!(!lines.all().iter().any(|line| line.contains("a pooler")), "{:?}", lines.all());
    broker.drop_schema().await;
}

/// Rules: K-339.
/// What one process sets on a connection of the server stays there for the others, and so do its prepared statements.
#[tokio::test]
async fn nothing_stays_on_the_connections_of_the_server() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(bouncer) = PgBouncer::start(&Cluster::url(cluster.address()), "transaction").await else { return };
    let (lines, _guard) = Lines::capture();
    // Those of another program, which are older than the longest connection.
    let programs = connect(&bouncer, 4).await;
    let of_program = processes(&programs, "").await;
    tokio::time::sleep(OLD).await;

    let postgres = Postgres::options().timeout(TIMEOUT).poll_every(Duration::from_millis(100));
    let postgres = postgres.connect(bouncer.url()).await.unwrap();
    postgres.migrate().await.unwrap();
    postgres.create_queue("orders", QueueSettings::default()).await.unwrap();
    let (sender, mut receiver) = (postgres.sender("orders").await.unwrap(), postgres.receiver("orders").await.unwrap());
    let is_logged = || lines.all().iter().any(|line| line.contains("WARN") && line.contains("a pooler"));
    let works = async {
        while !is_logged() {
            sender.send(Message::new("a")).await.unwrap();
            receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();
        }
    };
    assert!(timeout(SOON, works).await.is_ok(), "{:?}", lines.all());
    sender.send(Message::new("b")).await.unwrap();
    receiver.receive_within(SOON).await.unwrap().complete().await.unwrap();
    drop((sender, receiver));
    postgres.close().await.unwrap();

    let after = processes(&programs, LEFT).await;
    assert_eq!(after.len(), of_program.len());
    assert!(after.iter().all(|row| row.ends_with(NOTHING)), "{after:?}");
}

/// Rules: K-339.
/// Each connection has one of the server until it is closed, though that may be older.
#[tokio::test]
async fn a_pooler_of_sessions_is_no_difference() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(bouncer) = PgBouncer::start(&Cluster::url(cluster.address()), "session").await else { return };
    let (lines, _guard) = Lines::capture();
    drop(connect(&bouncer, 8).await);
    tokio::time::sleep(OLD).await;
    let options = Postgres::options().timeout(TIMEOUT).poll_every(Duration::from_secs(3_600)).connections(3);
    let postgres = options.connect(bouncer.url()).await.unwrap();
    postgres.migrate().await.unwrap();
    let replies = postgres.create_reply_queue().await.unwrap();
    let mut receiver = postgres.receiver(replies.as_str()).await.unwrap();
    let other = Postgres::options().timeout(TIMEOUT).connections(3).connect(bouncer.url()).await.unwrap();
    let (received, ()) = tokio::join!(receiver.receive_within(SOON), async {
        other.sender(replies.as_str()).await.unwrap().send(Message::new("a")).await.unwrap();
    });
    received.unwrap().complete().await.unwrap();
    drop(receiver);
    other.close().await.unwrap();
    postgres.close().await.unwrap();
    assert!(!lines.all().iter().any(|line| line.contains("WARN")), "{:?}", lines.all());
}

/// Rules: K-339.
#[tokio::test]
async fn a_url_with_the_address_of_the_server_has_notifications() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(bouncer) = PgBouncer::start(&Cluster::url(cluster.address()), "transaction").await else { return };
    let (lines, _guard) = Lines::capture();
    let url = format!("{}?listen_on={}&poll_every=60m", bouncer.url(), cluster.address());
    let transports = TransportRegistry::new().with(connector());
    let transport = transports.connect(&url).await.unwrap();
    let other = transports.connect(&url).await.unwrap();
    let replies = transport.extension::<Postgres>().unwrap().create_reply_queue().await.unwrap();
    let replies = EntityPath::new(&replies).unwrap();
    let mut receiver = transport.receiver(&replies, ReceiveMode::PeekLock).await.unwrap();
    let (received, ()) = tokio::join!(receiver.receive_within(SOON), async {
        other.sender(&replies).await.unwrap().send(Message::new("a")).await.unwrap();
    });
    received.unwrap().complete().await.unwrap();
    drop(receiver);
    other.close().await.unwrap();
    transport.close().await.unwrap();
    assert!(!lines.all().iter().any(|line| line.contains("WARN")), "{:?}", lines.all());
    let clients = connect(&bouncer, 4).await;
    let left = processes(&clients, LEFT).await;
    assert!(left.iter().all(|row| row.ends_with(NOTHING)), "{left:?}");
}

async fn connect(bouncer: &PgBouncer, count: usize) -> Vec<tokio_postgres::Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let (client, connection) = tokio_postgres::connect(bouncer.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        clients.push(client);
    }
    clients
}

/// Reads something of as many connections of the server as there are clients.
async fn processes(clients: &[tokio_postgres::Client], and: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for client in clients {
        client.batch_execute("BEGIN").await.unwrap();
        let sql = format!("SELECT pg_backend_pid()::text {and}");
        rows.push(client.query_typed(&sql, &[]).await.unwrap().first().unwrap().get(0));
    }
    for client in clients {
        client.batch_execute("COMMIT").await.unwrap();
    }
    rows
}
