use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    consumer::Consumer,
    transport::{Batch, Sender},
};
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use crate::{Fixture, QUEUE, until};

/// Rules: I-37.
/// A consumer that drains leaves no lock, and what no handler has seen comes again uncounted.
#[tokio::test]
async fn a_consumer_drains() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let batch = (0..40).map(|_| Message::new("a")).collect::<Batch>();
    postgres.sender(QUEUE).await.unwrap().send_batch(batch).await.unwrap();
    let (handled, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let counted = Arc::clone(&handled);
    let stopped = Arc::clone(&stop);
    let stack = service_fn(move |_: Message| {
        let (counted, stopped) = (Arc::clone(&counted), Arc::clone(&stopped));
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if counted.fetch_add(1, Ordering::Relaxed) == 10 {
                stopped.notify_one();
            }
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let receiver = postgres.receiver(QUEUE).await.unwrap();
    let consumer = Consumer::new(receiver, stack).concurrency(4).prefetch(8);
    tokio::time::timeout(Duration::from_secs(30), consumer.run_until(stop.notified())).await.unwrap().unwrap();
    let rest = 40 - handled.load(Ordering::Relaxed);
    until(async || {
        let counts = postgres.counts(QUEUE).await.unwrap();
        counts.locked == 0 && counts.active == rest
    })
    .await;
    let left = postgres.peek(QUEUE, consign::message::SequenceNumber::new(0), 100).await.unwrap();
    assert!(left.iter().all(|message| message.received().unwrap().delivery_count == 0));
    fixture.end().await;
}

/// Rules: K-34.
/// Credit is what the caller has free: no message is locked for nobody.
#[tokio::test]
async fn nothing_is_locked_ahead() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let batch = (0..20).map(|_| Message::new("a")).collect::<Batch>();
    postgres.sender(QUEUE).await.unwrap().send_batch(batch).await.unwrap();
    let (most, at_work) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let told = Arc::clone(&at_work);
    let stack = service_fn(move |_: Message| {
        let (most, told) = (Arc::clone(&most), Arc::clone(&told));
        async move {
            if most.fetch_add(1, Ordering::Relaxed) == 2 {
                told.notify_one();
            }
            std::future::pending::<Result<Disposition, BoxError>>().await
        }
    });
    let consumer = Consumer::new(postgres.receiver(QUEUE).await.unwrap(), stack).concurrency(3);
    let locked = async {
        at_work.notified().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        postgres.counts(QUEUE).await.unwrap().locked
    };
    tokio::select! {
        ended = consumer.run_until(std::future::pending::<()>()) => panic!("{ended:?}"),
        locked = locked => assert_eq!(locked, 3),
    }
    fixture.end().await;
}
