//! A connection that is lost.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    transport::{AcceptSession, Delivery, ErrorKind, Lease, ReceiverExt, Sender, Session, Sessions, Transport},
};
use consign_server::Timeouts;
use consign_servicebus::ServiceBus;
use futures_util::future::join;
use tokio::time::timeout;

use super::{InMemory, WHILE, counts, create, receiver, send, text};

/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn a_receive_that_waits_continues_on_the_next_connection() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    let mut receiver = receiver(&service_bus, &orders).await;
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        service_bus.disconnect().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        send(&service_bus, &orders, &["a"]).await;
    };
    let (received, ()) = join(receiver.receive_within(WHILE), later).await;
    assert_eq!(text(&received.unwrap().message), "a");
}

/// Rules: K-302.
#[tokio::test(start_paused = true)]
async fn a_lock_outlives_its_connection() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().lock_duration(Duration::from_secs(60))).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["completed", "together", "renewed", "dropped"]).await;
    let mut receiver = receiver(&service_bus, &orders).await;
    let mut held = receiver.receive_batch(4).await.unwrap().into_iter();
    let [completed, together, renewed, dropped] = [(); 4].map(|()| held.next().unwrap());
    service_bus.disconnect().await.unwrap();
    completed.complete().await.unwrap();
    Delivery::complete_all([together]).await.unwrap();
    drop(dropped);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(40)).await;
        renewed.lease.renew().await.unwrap();
    }
    assert_eq!(counts(&server, &orders).await, (1, 1));
    renewed.complete().await.unwrap();
    // It was abandoned, which counts.
    let again = receiver.receive().await.unwrap();
    assert_eq!((text(&again.message), again.message.received().unwrap().delivery_count), ("dropped", 2));
}

/// Rules: K-302.
#[tokio::test(start_paused = true)]
async fn a_lock_that_has_run_out_is_lost_by_token_too() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().lock_duration(Duration::from_secs(10))).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["a"]).await;
    let held = receiver(&service_bus, &orders).await.receive().await.unwrap();
    service_bus.disconnect().await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(held.lease.renew().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
    assert_eq!(held.complete().await.unwrap_err().kind(), ErrorKind::MessageLockLost);
}

/// Rules: K-303.
#[tokio::test(start_paused = true)]
async fn a_session_is_lost_with_its_connection() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().requires_session(true)).await;
    let service_bus = server.connect().await;
    let sender = service_bus.sender(&orders).await.unwrap();
    sender.send(Message::builder().session_id("one").build("a").unwrap()).await.unwrap();
    let mut sessions = service_bus.sessions(&orders).await.unwrap();
    let mut session = sessions.accept("one").await.unwrap();
    let held = session.receive().await.unwrap();
    service_bus.disconnect().await.unwrap();
    let lost = ErrorKind::SessionLockLost;
    for _ in 0..2 {
        let error = session.receive().await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (lost, false), "{error}");
    }
    assert_eq!(session.state().await.unwrap_err().kind(), lost);
    assert_eq!(session.renew().await.unwrap_err().kind(), lost);
    assert_eq!(held.complete().await.unwrap_err().kind(), lost);
    assert_eq!(session.close().await.unwrap_err().kind(), lost);
    let mut again = sessions.accept("one").await.unwrap();
    assert_eq!(text(&again.receive().await.unwrap().message), "a");
}

/// Connects, after so many failures.
async fn failing(server: &InMemory) -> (ServiceBus, Arc<AtomicU32>) {
    let failures = Arc::new(AtomicU32::new(0));
    let (left, server) = (Arc::clone(&failures), server.clone());
    let options = server.options().dial_with(move |_, _| {
        let fails = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        let stream = server.stream();
        async move { if fails { Err(io::Error::other("no route")) } else { Ok(stream) } }
    });
    (options.connect(crate::support::ANY_KEY).await.unwrap(), failures)
}

/// Rules: K-304.
#[tokio::test(start_paused = true)]
async fn what_failed_to_connect_is_tried_again() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let (service_bus, failures) = failing(&server).await;
    let sender = service_bus.sender(&orders).await.unwrap();
    service_bus.disconnect().await.unwrap();
    failures.store(3, Ordering::Relaxed);
    sender.send(Message::new("a")).await.unwrap();
    service_bus.disconnect().await.unwrap();
    failures.store(1_000, Ordering::Relaxed);
    let error = sender.send(Message::new("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommunicationProblem, "{error}");
    assert_eq!(failures.load(Ordering::Relaxed), 1_000 - 4, "the first attempt, and three more");
    assert_eq!(counts(&server, &orders).await, (1, 0));
}

/// Rules: K-301, K-304.
#[tokio::test(start_paused = true)]
async fn a_receive_that_waits_continues_after_a_server_that_was_away_for_a_while() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let (service_bus, failures) = failing(&server).await;
    let mut receiver = receiver(&service_bus, &orders).await;
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        failures.store(3, Ordering::Relaxed);
        service_bus.disconnect().await.unwrap();
        send(&server.connect().await, &orders, &["a"]).await;
    };
    let (received, ()) = join(receiver.receive_within(WHILE), later).await;
    assert_eq!(text(&received.unwrap().message), "a");
    failures.store(1_000, Ordering::Relaxed);
    service_bus.disconnect().await.unwrap();
    let error = receiver.receive().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, true), "{error}");
    assert_eq!(failures.load(Ordering::Relaxed), 1_000 - 4);
}

/// Calls that end before a connection is opened share one attempt, and a transport that is closed ends it.
/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn one_attempt_to_connect_is_shared_and_ends_with_the_transport() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let dials = Arc::new(AtomicU32::new(0));
    let (counted, dialing) = (Arc::clone(&dials), server.clone());
    let options = server.options().dial_with(move |_, _| {
        let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        let stream = is_first.then(|| dialing.stream());
        async move { if let Some(stream) = stream { Ok(stream) } else { std::future::pending().await } }
    });
    let service_bus = options.connect(crate::support::ANY_KEY).await.unwrap();
    let sender = service_bus.sender(&orders).await.unwrap();
    service_bus.disconnect().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..10 {
        let sent = timeout(Duration::from_secs(1), sender.send(Message::new("a"))).await;
        assert!(sent.is_err(), "{sent:?}");
    }
    assert_eq!(dials.load(Ordering::Relaxed), 2);
    assert!(tasks() <= before + 1, "{} tasks, and {before} before", tasks());
    let waiting = tokio::spawn(async move { sender.send(Message::new("a")).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    timeout(Duration::from_secs(1), service_bus.close()).await.unwrap().unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false), "{error}");
    tokio::time::sleep(WHILE).await;
    assert_eq!(dials.load(Ordering::Relaxed), 2);
}

/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn a_closed_transport_opens_nothing() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    let sender = service_bus.sender(&orders).await.unwrap();
    let mut receiver = receiver(&service_bus, &orders).await;
    service_bus.close().await.unwrap();
    let error = sender.send(Message::new("a")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false));
    let error = receiver.receive().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::CommunicationProblem, false));
}

/// The close is not confirmed yet.
/// Rules: K-302.
#[tokio::test(start_paused = true)]
async fn a_lock_outlives_a_connection_that_is_being_closed() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["a"]).await;
    let held = receiver(&service_bus, &orders).await.receive().await.unwrap();
    let mut disconnecting = pin!(service_bus.disconnect());
    assert!(futures_util::poll!(disconnecting.as_mut()).is_pending());
    held.complete().await.unwrap();
    disconnecting.await.unwrap();
    assert_eq!(counts(&server, &orders).await, (0, 0));
}

/// Rules: K-301.
#[tokio::test(start_paused = true)]
async fn links_that_are_lost_after_a_long_time_are_attached_again_at_once() {
    let day = Duration::from_secs(86_400);
    let timeouts = Timeouts::default().idle_link(day).idle_connection(day).new_connection(day).authorization(day);
    let server = InMemory::with(|_, builder| builder.timeouts(timeouts));
    let orders = create(&server, QueueSettings::default()).await;
    let (service_bus, sending) = (server.connect().await, server.connect().await);
    let mut receiver = receiver(&service_bus, &orders).await;
    let receiving =
        tokio::spawn(async move { receiver.receive().await.map(|delivery| text(&delivery.message).to_owned()) });
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        service_bus.disconnect().await.unwrap();
    }
    send(&sending, &orders, &["a"]).await;
    let received = timeout(Duration::from_secs(10), receiving).await;
    assert_eq!(received.unwrap().unwrap().unwrap(), "a");
}
