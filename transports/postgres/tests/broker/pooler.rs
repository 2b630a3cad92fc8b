//! A pooler that gives each transaction any connection of the server.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    transport::{ReceiverExt, Sender},
};
use consign_conformance::log::Lines;

use crate::{Fixture, QUEUE, options, until};

/// Rules: K-339.
/// As behind such a pooler, each statement has another process of the server.
#[tokio::test]
async fn a_shared_connection_holds_no_locks() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    fixture
        .run(
            "CREATE SEQUENCE {s}.pids;
            CREATE FUNCTION {s}.pg_backend_pid() RETURNS integer LANGUAGE sql
            AS 'SELECT nextval(''{s}.pids'')::integer'",
        )
        .await;
    let separator = if fixture.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-csearch_path%3D{},pg_catalog", fixture.url, &*fixture.schema);
    let pooled = options(&fixture.schema).connect(&url).await.unwrap();
    let sender = pooled.sender(QUEUE).await.unwrap();
    let is_logged = |line: &String| line.contains("WARN") && line.contains("a pooler");
    until(async || lines.all().iter().any(is_logged)).await;
    // Its locks have an end of their own, and it works.
    sender.send(Message::new("a")).await.unwrap();
    let mut receiver = pooled.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    // No holder of the table, which others would find lost.
    let sql = format!("SELECT holder < 0 FROM {}.locks", fixture.schema);
    let client = fixture.postgres.pool().get().await.unwrap();
    assert!(client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0));
    drop(client);
    delivery.complete().await.unwrap();
    pooled.create_reply_queue().await.unwrap_err();
    drop((sender, receiver, pooled));
    fixture.end().await;
}

/// As behind a proxy that keeps a connection to one process of the server from when it listens.
#[tokio::test]
async fn a_connection_that_is_shared_until_it_listens_holds_locks() {
    let (lines, _guard) = Lines::capture();
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    fixture
        .run(
            "CREATE SEQUENCE {s}.pids;
            CREATE FUNCTION {s}.pg_backend_pid() RETURNS integer LANGUAGE sql
            AS 'SELECT CASE WHEN EXISTS (SELECT FROM pg_listening_channels()) THEN pg_catalog.pg_backend_pid()
                ELSE nextval(''{s}.pids'')::integer END'",
        )
        .await;
    let separator = if fixture.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-csearch_path%3D{},pg_catalog", fixture.url, &*fixture.schema);
    let pinned = options(&fixture.schema).connect(&url).await.unwrap();
    let sender = pinned.sender(QUEUE).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    let mut receiver = pinned.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    let sql = format!("SELECT holder IS NOT NULL FROM {}.locks", fixture.schema);
    let client = fixture.postgres.pool().get().await.unwrap();
    assert!(client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0), "{:?}", lines.all());
    drop(client);
    delivery.complete().await.unwrap();
    assert!(!lines.all().iter().any(|line| line.contains("a pooler")));
    drop((sender, receiver, pinned));
    fixture.end().await;
}
