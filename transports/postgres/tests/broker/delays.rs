//! Messages that are given back for a delay.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::QueueSettings,
    consumer::Consumer,
    middleware::retry::{Backoff, DelayedRetries, RetryHistory, RetryLayer},
    settlement::Changes,
    transport::{Delivery, Lease, Receiver, ReceiverExt, Sender},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tower::{BoxError, Layer, service_fn};

use crate::{Fixture, QUEUE};

/// A delay that no stall of the machine hides: a message that comes at once is far too early.
const DELAY: Duration = Duration::from_secs(2);
/// Two clocks may be read a little apart.
const ALMOST: Duration = Duration::from_millis(1_950);

async fn receive<R: Receiver>(receiver: &mut R) -> Delivery<R::Lease> {
    timeout(Duration::from_secs(20), receiver.receive()).await.expect("a message").expect("no error")
}

#[tokio::test]
async fn k_212_a_delay_holds_and_only_an_abandon_counts() {
    let Some(fixture) = Fixture::new(QueueSettings::default().with_max_delivery_count(3)).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let mut dead_letters = postgres.receiver(&format!("{QUEUE}/$deadletterqueue")).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    let (mut deliveries, mut given_back) = (vec![], None::<Instant>);
    for how in ["release", "abandon", "release", "complete"] {
        let delivery = receive(&mut receiver).await;
        if let Some(at) = given_back {
            assert!(at.elapsed() >= ALMOST, "after {:?}", at.elapsed());
        }
        deliveries.push(delivery.message.received().unwrap().delivery_count);
        given_back = Some(Instant::now());
        let settle = match how {
            "release" => delivery.lease.release_after(DELAY).expect("it can delay"),
            "abandon" => delivery.lease.abandon_after(Changes::NONE, DELAY).expect("it can delay"),
            _ => delivery.complete(),
        };
        settle.await.unwrap();
    }
    assert_eq!(deliveries, [1, 1, 2, 2]);

    // The last delivery is the last, whatever its delay.
    sender.send(Message::new("b")).await.unwrap();
    let start = Instant::now();
    for delay in [Duration::from_millis(1), Duration::from_millis(1), Duration::from_secs(3_600)] {
        receive(&mut receiver).await.abandon_after(delay).expect("it can delay").await.unwrap();
    }
    let dead = receive(&mut dead_letters).await;
    assert!(start.elapsed() < Duration::from_secs(60), "not after the delay");
    assert_eq!(dead.message.dead_letter_reason().unwrap(), "MaxDeliveryCountExceeded");
    dead.complete().await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn y_211_k_211_delayed_retries_are_the_transport_s_own() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let postgres = &fixture.postgres;
    let sender = postgres.sender(QUEUE).await.unwrap();
    let receiver = postgres.receiver(QUEUE).await.unwrap();
    sender.send(Message::builder().message_id("m-1").build("a").unwrap()).await.unwrap();
    let later = DelayedRetries::new(sender, Backoff::fixed(Duration::from_secs(1))).unwrap();
    let layer = RetryLayer::new().delayed(later);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (seen_by, finished) = (Arc::clone(&seen), Arc::new(Notify::new()));
    let done = Arc::clone(&finished);
    let handler = service_fn(move |message: Message| {
        let failures = RetryHistory::of(message.properties()).map_or(0, |history| history.failures);
        let count = message.received().unwrap().delivery_count;
        let id = message.message_id().unwrap().to_owned();
        seen_by.lock().unwrap().push((Instant::now(), id, count, failures));
        let answer = if failures < 3 { Err(BoxError::from("away")) } else { Ok(Disposition::Complete) };
        if answer.is_ok() {
            done.notify_one();
        }
        async { answer }
    });
    let run = Consumer::new(receiver, layer.layer(handler)).run_until(finished.notified());
    let stats = timeout(Duration::from_secs(60), run).await.expect("three delays").unwrap();
    assert_eq!((stats.handled(), stats.completed(), stats.abandoned(), stats.held()), (4, 1, 3, 0));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    for pair in seen.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_millis(950), "{:?}", pair[1].0 - pair[0].0);
    }
    let told: Vec<_> = seen.iter().map(|(_, id, count, failures)| (id.as_str(), *count, *failures)).collect();
    assert_eq!(told, [("m-1", 1, 0), ("m-1", 2, 1), ("m-1", 3, 2), ("m-1", 4, 3)]);
    fixture.end().await;
}
