//! I37: after a drain, and after the end of a connection, nothing is lost, and nothing stays locked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    consumer::Consumer,
    transport::{ErrorKind, ReceiverExt, Sender, Session},
};
use consign_nats::{Nats, QueueSettings};
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use crate::{LONG, queue, server};

/// Rules: I-37.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_consumer_leaves_nothing_locked() {
    const SENT: usize = 100;
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sender = nats.sender(&path).await.unwrap();
    sender.send_batch((0..SENT).map(|number| Message::new(format!("{number}"))).collect()).await.unwrap();

    let (handled, shutdown) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, enough) = (Arc::clone(&handled), Arc::clone(&shutdown));
    let handler = service_fn(move |_: Message| {
        if counted.fetch_add(1, Ordering::Relaxed) == 30 {
            enough.notify_one();
        }
        async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let receiver = nats.receiver(&path).await.unwrap();
    let stats =
        Consumer::new(receiver, handler).concurrency(8).prefetch(8).run_until(shutdown.notified()).await.unwrap();
    let handled = handled.load(Ordering::Relaxed);
    assert_eq!(stats.completed(), handled as u64);

    // Locks last a minute: what was not given back would not come.
    let mut receiver = nats.receiver(&path).await.unwrap();
    for left in (1..=SENT - handled).rev() {
        let delivery = receiver.receive_within(LONG).await.unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1, "{left} left");
        delivery.complete().await.unwrap();
    }
    assert!(receiver.receive_within(Duration::from_millis(500)).await.is_err());
    nats.delete(&path).await.unwrap();
}

/// Rules: I-37.
/// Locks last a minute: what closing did not give back would not come.
#[tokio::test]
async fn closing_releases_what_was_dropped_before() {
    let mut by_session = QueueSettings::default();
    by_session.requires_session = true;
    let Some((nats, sessions)) = queue(by_session).await else { return };
    let mut last = QueueSettings::default();
    last.max_delivery_count = 1;
    let single = format!("{sessions}-single");
    nats.create_queue(&single, last).await.unwrap();
    let other = Nats::options().namespace("test").server_syncs().connect(&server::url().unwrap()).await.unwrap();
    other.sender(&single).await.unwrap().send(Message::new("a")).await.unwrap();

    drop(nats.accept_session(&sessions, "a").await.unwrap());
    drop(nats.receiver(&single).await.unwrap().receive_within(LONG).await.unwrap());
    nats.close().await.unwrap();
    other.accept_session(&sessions, "a").await.unwrap().close().await.unwrap();
    let mut dead = other.receiver(&format!("{single}/$DeadLetterQueue")).await.unwrap();
    dead.receive_within(Duration::from_secs(5)).await.unwrap().complete().await.unwrap();
    assert_eq!(nats.delete(&single).await.unwrap_err().kind(), ErrorKind::CommunicationProblem);
    other.delete(&single).await.unwrap();
    other.delete(&sessions).await.unwrap();
}
