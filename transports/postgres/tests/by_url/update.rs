//! New settings of entities that exist.

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    transport::{ErrorKind, Lease, ReceiverExt, Sender, Transport},
};

use crate::{Fixture, receive, receiver, send, text};

#[tokio::test]
async fn new_settings_are_read_and_applied_by_every_process() {
    let Some(fixture) = Fixture::new().await else { return };
    let (queue, other) = (fixture.create("orders", QueueSettings::default()).await, fixture.other().await);
    let sender = fixture.transport.sender(&queue).await.unwrap();
    let closed = QueueSettings::default().status(Status::SendDisabled).max_delivery_count(1);
    other.update(&queue, &closed.clone().into()).await.unwrap();
    assert_eq!(fixture.transport.settings(&queue).await.unwrap(), closed.clone().into());
    assert_eq!(sender.send(Message::new("a")).await.unwrap_err().kind(), ErrorKind::EntityDisabled);

    let small = closed.status(Status::Active).max_size(2_048);
    other.update(&queue, &small.into()).await.unwrap();
    send(&fixture.transport, &queue, [Message::new("b")]).await;
    // The process is told that the size has changed.
    let refused = async {
        loop {
            if let Err(full) = sender.send(Message::new(vec![0; 2_000])).await {
                return full;
            }
        }
    };
    let full = tokio::time::timeout(Duration::from_secs(20), refused).await.unwrap();
    assert_eq!(full.kind(), ErrorKind::QuotaExceeded, "{full}");
    let mut orders = receiver(&fixture.transport, &queue).await;
    receive(&mut orders).await.abandon().await.unwrap();
    assert_eq!(other.counts(&queue).await.unwrap().dead_lettered, 1);
    fixture.end().await;
}

#[tokio::test]
async fn settings_that_are_fixed_and_another_kind_are_refused() {
    let Some(fixture) = Fixture::new().await else { return };
    let (transport, queue) = (&fixture.transport, fixture.create("orders", QueueSettings::default()).await);
    for (settings, kind, name) in [
        (QueueSettings::default().requires_session(true).into(), ErrorKind::InvalidOperation, "requires_session"),
        (
            QueueSettings::default().duplicate_detection(Duration::from_secs(60)).into(),
            ErrorKind::InvalidOperation,
            "duplicate_detection",
        ),
        (QueueSettings::default().partitioned(true).into(), ErrorKind::NotSupported, "partitioned"),
        (QueueSettings::default().forward_to("Orders").into(), ErrorKind::InvalidOperation, "itself"),
        (QueueSettings::default().forward_to("nothing").into(), ErrorKind::EntityNotFound, "nothing"),
        (TopicSettings::default().into(), ErrorKind::EntityNotFound, "orders"),
    ] {
        let error = transport.update(&queue, &settings).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(transport.settings(&queue).await.unwrap(), QueueSettings::default().into());
    fixture.end().await;
}

/// A receiver that existed before renews in time.
#[tokio::test]
async fn a_new_lock_duration_releases_locks_without_a_count() {
    let Some(fixture) = Fixture::new().await else { return };
    let (queue, other) = (fixture.create("orders", QueueSettings::default()).await, fixture.other().await);
    send(&fixture.transport, &queue, [Message::new("a")]).await;
    let mut orders = receiver(&fixture.transport, &queue).await;
    let held = receive(&mut orders).await;
    let short = QueueSettings::default().lock_duration(Duration::from_secs(5));
    other.update(&queue, &short.into()).await.unwrap();
    assert_eq!(held.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    let again = receive(&mut orders).await;
    assert_eq!(again.message.received().unwrap().delivery_count, 1);
    let lock = again.lease.lock_duration().unwrap();
    assert!(lock <= Duration::from_secs(5), "{lock:?}");
    again.complete().await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn messages_that_wait_are_forwarded_when_that_is_enabled() {
    let Some(fixture) = Fixture::new().await else { return };
    let (transport, other) = (&fixture.transport, fixture.other().await);
    fixture.create("target", TopicSettings::default()).await;
    let target = fixture.create("target/Subscriptions/all", SubscriptionSettings::default()).await;
    let queue = fixture.create("orders", QueueSettings::default()).await;
    send(transport, &queue, [Message::new("locked"), Message::new("waits")]).await;
    let mut orders = receiver(transport, &queue).await;
    let held = receive(&mut orders).await;
    receive(&mut orders).await.abandon().await.unwrap();
    other.update(&queue, &QueueSettings::default().forward_to("Target").into()).await.unwrap();
    drop(held);
    let mut copies = receiver(transport, &target).await;
    for expected in [&b"locked"[..], b"waits"] {
        let copy = receive(&mut copies).await;
        assert_eq!(text(&copy.message), expected);
        copy.complete().await.unwrap();
    }
    let counts = transport.counts(&queue).await.unwrap();
    assert_eq!((counts.active, counts.locked), (0, 0));

    other.update(&queue, &QueueSettings::default().into()).await.unwrap();
    send(transport, &queue, [Message::new("stays")]).await;
    let stays = receiver(transport, &queue).await.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(text(&stays.message), b"stays");
    fixture.end().await;
}
