use std::time::Duration;

use consign::{
    Message,
    administration::{Counts, QueueSettings},
    transport::{Batch, ErrorKind, Lease, ReceiverExt, Sender, Session},
};
use futures_util::FutureExt;

use crate::{Fixture, QUEUE, until};

/// Rules: I-34.
/// Dropped at each of its polls, a receive loses nothing, counts nothing and leaves no lock.
#[tokio::test]
async fn a_dropped_receive_leaves_no_lock() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let mut delivered = 0;
    // Later drops come while the call is under way, or when it has ended and nobody has asked.
    for pause in (0..60).map(|step| Duration::from_micros(150 * step)) {
        let mut receiving = Box::pin(receiver.receive());
        if receiving.as_mut().now_or_never().is_none() {
            tokio::time::sleep(pause).await;
        }
        drop(receiving);
        // And one that is polled once more before it is dropped.
        let mut receiving = Box::pin(receiver.receive());
        let _ = receiving.as_mut().now_or_never();
        tokio::time::sleep(pause).await;
        if let Some(received) = receiving.as_mut().now_or_never() {
            delivered += 1;
            received.unwrap().lease.release().await.unwrap();
        }
    }
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(delivery.message.received().unwrap().delivery_count, 1, "{delivered} were delivered");
    delivery.complete().await.unwrap();
    until(async || postgres.counts(QUEUE).await.unwrap() == Counts::default()).await;
    fixture.end().await;
}

/// Rules: I-35.
#[tokio::test]
async fn a_dropped_delivery_is_redelivered_and_counts() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    for count in 1..=3 {
        let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, count);
        // Also where there is no runtime.
        std::thread::spawn(move || drop(delivery)).join().unwrap();
    }
    fixture.end().await;
}

#[tokio::test]
async fn a_dropped_receiver_gives_back_what_nobody_has_seen() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let batch = (0..10).map(|_| Message::new("a")).collect::<Batch>();
    postgres.sender(QUEUE).await.unwrap().send_batch(batch).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let mut receiving = Box::pin(receiver.receive_batch(10));
    assert!(receiving.as_mut().now_or_never().is_none());
    drop(receiving);
    drop(receiver);
    let mut other = postgres.receiver(QUEUE).await.unwrap();
    let mut received = Vec::new();
    while received.len() < 10 {
        let more = tokio::time::timeout(Duration::from_secs(10), other.receive_batch(10)).await.unwrap();
        received.extend(more.unwrap());
    }
    assert!(received.iter().all(|delivery| delivery.message.received().unwrap().delivery_count == 1));
    for delivery in received {
        delivery.complete().await.unwrap();
    }
    fixture.end().await;
}

#[tokio::test]
async fn a_dropped_session_is_given_up() {
    let settings = QueueSettings::default().requires_session(true);
    let Some(fixture) = Fixture::new(settings).await else { return };
    let postgres = &fixture.postgres;
    let message = Message::builder().session_id("one").build("a").unwrap();
    postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
    let mut sessions = postgres.sessions(QUEUE).await.unwrap();
    for _ in 0..3 {
        let mut session = sessions.next_within(Duration::from_secs(10)).await.unwrap();
        assert_eq!(session.session_id(), "one");
        let held = postgres.accept_session(QUEUE, "one").await.unwrap_err();
        assert_eq!(held.kind(), ErrorKind::SessionCannotBeLocked);
        let delivery = session.receive_within(Duration::from_secs(10)).await.unwrap();
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
        drop(session);
        // Its lock is gone with that of the session, and the drop changes nothing.
        drop(delivery);
    }
    // Calls that nobody waits for lock nothing either.
    for _ in 0..20 {
        let _ = sessions.next_within(Duration::from_micros(500)).await;
    }
    let session = sessions.next_within(Duration::from_secs(10)).await.unwrap();
    session.close().await.unwrap();
    fixture.end().await;
}
