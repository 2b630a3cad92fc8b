//! Credit, prefetch and deferred messages.

use std::{future::poll_fn, sync::Arc, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    transport::{Lease, ReceiveDeferred, ReceiveMode, Receiver, ReceiverExt, Sender, Transport},
};
use consign_amqp::{
    codec,
    engine::{Event, OutboundDelivery},
    message::{Body, Sections},
    types::{DeliveryState, Released},
};
use consign_server::Limits;
use consign_servicebus::{ServiceBus, ServiceBusReceiver};
use futures_util::{FutureExt, future::try_join_all};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{InMemory, counts, create, path, receiver, send, text};
use crate::support::stub;

/// Rules: K-305.
#[tokio::test(start_paused = true)]
async fn only_what_is_requested_is_locked() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["a", "b", "c"]).await;
    let mut receiver = receiver(&service_bus, &orders).await;
    let held = receiver.receive().await.unwrap();
    assert_eq!(counts(&server, &orders).await, (2, 1));
    held.complete().await.unwrap();
}

/// Rules: K-305.
#[tokio::test(start_paused = true)]
async fn what_was_prefetched_is_released_without_a_count() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.options().prefetch(10).connect(crate::support::ANY_KEY).await.unwrap();
    send(&service_bus, &orders, &["a", "b", "c"]).await;
    let mut first = receiver(&service_bus, &orders).await;
    let held = first.receive_batch(1).await.unwrap().pop().unwrap();
    assert_eq!(text(&held.message), "a");
    first.stopped().await;
    assert_eq!(counts(&server, &orders).await, (2, 1));
    let mut second = receiver(&server.connect().await, &orders).await;
    let again = second.receive_batch(2).await.unwrap();
    let seen: Vec<_> = again
        .iter()
        .map(|delivery| (text(&delivery.message), delivery.message.received().unwrap().delivery_count))
        .collect();
    assert_eq!(seen, [("b", 1), ("c", 1)]);
    held.complete().await.unwrap();
}

/// Rules: K-305.
#[tokio::test(start_paused = true)]
async fn a_receive_and_delete_that_is_cancelled_loses_nothing() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let service_bus = server.connect().await;
    let mut receiver = service_bus.receiver(&orders, ReceiveMode::ReceiveAndDelete).await.unwrap();
    assert!(receiver.receive_within(Duration::from_secs(1)).await.is_err());
    send(&service_bus, &orders, &["a"]).await;
    let delivery = receiver.receive().await.unwrap();
    assert_eq!(text(&delivery.message), "a");
    assert!(!delivery.lease.must_settle() && delivery.complete().await.is_err());
    assert_eq!(counts(&server, &orders).await, (0, 0));
}

/// Rules: K-308.
#[tokio::test(start_paused = true)]
async fn a_deferred_message_of_a_dropped_call_stays_deferred() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default().lock_duration(Duration::from_secs(300))).await;
    let service_bus = server.connect().await;
    send(&service_bus, &orders, &["a"]).await;
    let held = receiver(&service_bus, &orders).await.receive().await.unwrap();
    let number = held.message.received().unwrap().sequence_number;
    held.defer().await.unwrap();
    assert!(service_bus.receive_deferred(&orders, &[number]).now_or_never().is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Released, and not counted.
    let fetched = service_bus.receive_deferred(&orders, &[number]).await.unwrap().pop().unwrap();
    assert_eq!(fetched.message.received().unwrap().delivery_count, 1);
    fetched.lease.release().await.unwrap();
    let fetched = service_bus.receive_deferred(&orders, &[number]).await.unwrap().pop().unwrap();
    assert_eq!(fetched.message.received().unwrap().delivery_count, 1);
    fetched.complete().await.unwrap();
}

/// More than the engine tracks by default. A link that is over its limit is detached.
/// Rules: K-305.
#[tokio::test(start_paused = true)]
async fn more_messages_than_the_engine_tracks_by_default_are_held_on_one_link() {
    const COUNT: usize = 8_200;
    let server = InMemory::with(|_, builder| builder.limits(Limits::default().max_unsettled(1 << 20)));
    let orders = create(&server, QueueSettings::default()).await;
    let sender = server.broker().sender(&orders).unwrap();
    try_join_all((0..COUNT).map(|_| sender.send(Message::new("a")))).await.unwrap();
    let service_bus = server.connect().await;
    let mut receiver = receiver(&service_bus, &orders).await;
    let mut held = Vec::new();
    while held.len() < COUNT {
        held.extend(receiver.receive_batch(COUNT - held.len()).await.unwrap());
    }
    held.remove(0).complete().await.unwrap();
    assert_eq!(counts(&server, &orders).await, (0, COUNT - 1));
    assert!(receiver.receive().now_or_never().is_none(), "none is redelivered");
}

/// What the server sends arrives later.
fn late(server: DuplexStream, by: Duration) -> DuplexStream {
    let (client, relay) = tokio::io::duplex(1 << 16);
    let (mut from_client, mut to_client) = tokio::io::split(relay);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    tokio::spawn(async move {
        let mut read = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut read).await {
            tokio::time::sleep(by).await;
            to_client.write_all(&read[..count]).await.unwrap();
        }
    });
    client
}

/// Rules: K-305.
#[tokio::test(start_paused = true)]
async fn messages_of_an_earlier_larger_receive_are_released_when_the_receiver_stops() {
    let server = InMemory::new();
    let orders = create(&server, QueueSettings::default()).await;
    let near = server.connect().await;
    let dialed = server.clone();
    let options = server.options().dial_with(move |_, _| {
        let stream = late(dialed.stream(), Duration::from_millis(100));
        async move { Ok(stream) }
    });
    let mut receiver = receiver(&options.connect(crate::support::ANY_KEY).await.unwrap(), &orders).await;
    let sender = near.sender(&orders).await.unwrap();
    let poll = |receiver: &mut ServiceBusReceiver, max: usize| {
        poll_fn(|cx| receiver.poll_receive(cx, max, &mut Vec::new())).now_or_never()
    };
    assert!(poll(&mut receiver, 5).is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    for body in ["a", "b", "c"] {
        sender.send(Message::new(body)).await.unwrap();
    }
    assert_eq!(counts(&server, &orders).await, (0, 3), "they are on their way");
    assert!(poll(&mut receiver, 1).is_none());
    let held = receiver.receive().await.unwrap();
    assert_eq!(text(&held.message), "a");
    tokio::time::sleep(Duration::from_secs(1)).await;
    receiver.stopped().await;
    assert_eq!(counts(&server, &orders).await, (2, 1));
    held.complete().await.unwrap();
}

/// A server that does not answer the drain.
/// Rules: K-305.
#[tokio::test(start_paused = true)]
async fn what_arrives_for_a_receiver_that_stops_is_released_before_the_link_is_detached() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let service_bus = stub::connect(ServiceBus::options(), move |_| {
        let noted = Arc::clone(&noted);
        move |commands, event| match event {
            Event::CreditChanged { link, drain: true, .. } => {
                let tag = OutboundDelivery { tag: vec![7; 16].into(), ..OutboundDelivery::default() };
                let message = Sections { body: Body::Value("a".into()), ..Sections::default() };
                commands.run(|engine| engine.send(link, tag, &[codec::encode(&message).unwrap()])).unwrap();
                None
            }
            Event::Disposition { ref deliveries, state: Some(DeliveryState::Released(_)), .. } => {
                noted.lock().push("released");
                for (link, delivery) in deliveries.iter() {
                    let released = Released {}.into();
                    commands.run(|engine| engine.settle(link, [delivery], Some(&released), true)).unwrap();
                }
                None
            }
            Event::Detached { .. } => {
                noted.lock().push("detached");
                None
            }
            event => Some(event),
        }
    });
    let service_bus = service_bus.await;
    let mut receiver = service_bus.receiver(&path("orders"), ReceiveMode::PeekLock).await.unwrap();
    let received = poll_fn(|cx| receiver.poll_receive(cx, 5, &mut Vec::new())).now_or_never();
    assert!(received.is_none(), "{received:?}");
    receiver.stopped().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*seen.lock(), ["released", "detached"]);
}
