//! What becomes of locks when a connection is lost.

use std::time::Duration;

use consign_amqp::value::{Array, ValueType};
use consign_broker::{OnDisconnect, Quirks};
use consign_core::administration::QueueSettings;

use crate::support::*;

fn with(quirks: Quirks) -> Harness {
    Harness::with(|builder| builder.broker(broker_with(quirks)))
}

/// Rules: C-02, C-03, S-29, S-73.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_releases_its_locks_without_a_count() {
    let harness = with(Quirks::default());
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    receive(&mut link).await;
    drop((session, link));
    let mut link = receiver(&harness.session().await, "orders").await;
    let again = read(receive(&mut link).await);
    assert_eq!((harness.broker().now(), again.header.as_ref().unwrap().delivery_count), (START, 0));
}

/// Rules: C-03.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_counts_where_the_broker_counts_it() {
    let harness = with(Quirks::default().count_on_disconnect(true));
    let settings = QueueSettings::default().requires_session(true);
    harness.broker().create_queue("sessions", settings).unwrap();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    sender(&session, "sessions").await.send(of_session("b", "s")).await.unwrap();
    let mut link = receiver(&session, "orders").await;
    receive(&mut link).await;
    let mut of_session = session_receiver(&session, "sessions", Some("s")).await;
    receive(&mut of_session).await;
    drop((session, link, of_session));
    let session = harness.session().await;
    let again = read(receive(&mut receiver(&session, "orders").await).await);
    assert_eq!(again.header.as_ref().unwrap().delivery_count, 1);
    let again = read(receive(&mut session_receiver(&session, "sessions", None).await).await);
    assert_eq!(again.header.as_ref().unwrap().delivery_count, 1);
}

/// Rules: C-02, S-64.
#[tokio::test(start_paused = true)]
async fn locks_hold_until_they_run_out_where_the_broker_holds_them() {
    let harness = with(Quirks::default().on_disconnect(OnDisconnect::HoldUntilExpiry));
    let session = harness.session().await;
    send(&session, "orders", &["a", "b"]).await;
    let mut link = receiver(&session, "orders").await;
    let one = receive(&mut link).await;
    receive(&mut link).await;
    drop((session, link));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!((queue.counts().active, queue.counts().locked), (0, 2));

    let session = harness.session().await;
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let tokens = Array::new(ValueType::Uuid, vec![token(&one).into()]).unwrap();
    let request = fields([("lock-tokens", tokens.clone().into())]);
    assert_eq!(manage.call("com.microsoft:renew-lock", request).await.status(), 200);
    let request = fields([("disposition-status", "completed".into()), ("lock-tokens", tokens.into())]);
    assert_eq!(manage.call("com.microsoft:update-disposition", request).await.status(), 200);

    let again = read(receive(&mut receiver(&session, "orders").await).await);
    assert_eq!(harness.broker().now().as_millis(), START.as_millis() + 60_000);
    assert_eq!((body(&again), again.header.as_ref().unwrap().delivery_count), ("b", 1));
}

/// Rules: C-02, S-76.
#[tokio::test(start_paused = true)]
async fn the_lock_of_a_session_ends_with_its_link_in_any_case() {
    let harness = with(Quirks::default().on_disconnect(OnDisconnect::HoldUntilExpiry));
    let settings = QueueSettings::default().requires_session(true);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = harness.session().await;
    sender(&session, "orders").await.send(of_session("a", "s")).await.unwrap();
    let mut link = session_receiver(&session, "orders", Some("s")).await;
    receive(&mut link).await;
    drop((session, link));
    let session = harness.session().await;
    let again = read(receive(&mut session_receiver(&session, "orders", Some("s")).await).await);
    assert_eq!((harness.broker().now(), again.header.as_ref().unwrap().delivery_count), (START, 0));
}

/// A stream that is cut, without a close frame.
/// Rules: S-29, A-42.
#[tokio::test(start_paused = true)]
async fn a_cut_stream_releases_its_locks() {
    let harness = with(Quirks::default());
    send(&harness.session().await, "orders", &["a", "b"]).await;
    let (client, server) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn(harness.server.serve_stream(server));
    let options = consign_amqp::client::Options::new("client");
    let connection = consign_amqp::client::Connection::open(client, options).await.unwrap();
    let session = connection.begin().await.unwrap();
    let mut link = receiver(&session, "orders").await;
    receive(&mut link).await;
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!(queue.counts().locked, 1);
    serving.abort();
    let _ = serving.await;
    assert_eq!((queue.counts().active, queue.counts().locked), (2, 0));
}
