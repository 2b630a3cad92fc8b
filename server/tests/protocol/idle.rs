//! Clients that wait for minutes, and those that stop.

use std::time::Duration;

use consign_amqp::{
    client::{Connection, Options},
    engine,
};
use consign_server::Timeouts;
use tokio::{
    io::{DuplexStream, copy, duplex, split},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::support::*;

/// A connection whose client can be cut off: the server gets none of its bytes any more, and the connection stays open.
async fn connect_through(harness: &Harness) -> (Connection, JoinHandle<()>) {
    let (client, near) = duplex(1 << 16);
    let server: DuplexStream = harness.stream();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (split(near), split(server));
    let inbound = tokio::spawn(async move {
        let _ = copy(&mut from_client, &mut to_server).await;
    });
    tokio::spawn(async move {
        let _ = copy(&mut from_server, &mut to_client).await;
    });
    let options = Options::new("client").engine(engine::Options::default()).timeout(LONG);
    (Connection::open(client, options).await.unwrap(), inbound)
}

/// The client announces an idle timeout of its own, by which it would close a connection on which the server is silent.
/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn a_client_that_only_sends_heartbeats_stays_attached() {
    let harness = Harness::new();
    let mut options = engine::Options::default();
    options.idle_timeout = Some(Duration::from_secs(60));
    let session = harness.try_connect(options).await.unwrap().begin().await.unwrap();
    let mut link = receiver(&session, "orders").await;
    link.set_credit(1).unwrap();
    let idle = sender(&session, "orders").await;
    for _ in 0..6 {
        // Five minutes without a call of the program.
        timeout(Duration::from_secs(300), link.recv()).await.unwrap_err();
    }
    assert_eq!(harness.server.connections(), 1);
    send(&session, "orders", &["a"]).await;
    assert_eq!(text_of(&link.recv().await.unwrap()), "a");
    // The sender was not used for half an hour. Another link takes its place on the same connection.
    assert_eq!(idle.send(message("b")).await.unwrap_err().condition().unwrap(), "amqp:link:detach-forced");
    assert_eq!(sender(&session, "orders").await.send(message("c")).await.unwrap(), Some(accepted()));
}

/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn a_sender_that_is_used_every_five_minutes_stays_attached() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    for nth in 0..12 {
        assert_eq!(link.send(message(&nth.to_string())).await.unwrap(), Some(accepted()));
        sleep(Duration::from_secs(300)).await;
    }
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 12);
}

/// The other party is gone, and its connection was never closed.
/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_is_disconnected_and_its_locks_are_released() {
    let harness = Harness::new();
    let (connection, inbound) = connect_through(&harness).await;
    let session = connection.begin().await.unwrap();
    send(&session, "orders", &["a"]).await;
    let mut link = receiver(&session, "orders").await;
    receive(&mut link).await;
    let queue = harness.broker().queue("orders").unwrap();
    assert_eq!(queue.counts().locked, 1);
    inbound.abort();
    let began = Instant::now();
    while harness.server.connections() > 0 {
        sleep(Duration::from_secs(1)).await;
    }
    // The silence, and the time for an answer to the close.
    assert!((480..=501).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!((queue.counts().active, queue.counts().locked), (1, 0));
}

/// The timer of a connection is due as often as a link may be idle.
/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn an_idle_link_has_a_second_at_least() {
    let timeouts = Timeouts::default().idle_link(Duration::ZERO);
    let harness = Harness::with(|builder| builder.timeouts(timeouts));
    let session = harness.session().await;
    let mut waiting = receiver(&session, "orders").await;
    waiting.set_credit(1).unwrap();
    timeout(Duration::from_secs(100), waiting.recv()).await.unwrap_err();
    let mut idle = receiver(&session, "orders").await;
    let began = Instant::now();
    assert_eq!(idle.recv().await.unwrap_err().condition().unwrap(), "amqp:link:detach-forced");
    // The timer of the waiting link is due each second.
    assert!((1..=2).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// Nothing else has the times of a new connection looked at before.
/// Rules: A-41.
#[tokio::test(start_paused = true)]
async fn the_first_link_is_detached_when_it_has_been_idle() {
    for idle in [1, 5, 30] {
        let timeouts = Timeouts::default().idle_link(Duration::from_secs(idle));
        let harness = Harness::with(|builder| builder.timeouts(timeouts));
        let session = harness.session().await;
        let mut link = receiver(&session, "orders").await;
        let began = Instant::now();
        assert_eq!(link.recv().await.unwrap_err().condition().unwrap(), "amqp:link:detach-forced");
        assert!((idle..=idle + 1).contains(&began.elapsed().as_secs()), "{:?} after {idle} s", began.elapsed());
    }
}
