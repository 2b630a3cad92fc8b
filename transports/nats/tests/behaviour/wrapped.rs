//! A consumer and a subscription that were there before.

use std::time::Duration;

use consign::{
    Disposition, Message,
    middleware::delivery_limit::{DeliveryLimitLayer, count_delivery},
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, Lease, ReceiverExt},
};
use consign_nats::{
    Nats,
    async_nats::{
        self,
        header::NATS_MESSAGE_ID,
        jetstream::{self, consumer::pull, stream},
    },
    convert,
};
use futures_util::TryStreamExt;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use crate::{LONG, server};

#[tokio::test]
async fn a_consumer_that_is_there_gets_settlement_and_dead_letters() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let context = jetstream::new(client.clone());
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = pull::Config { durable_name: Some("mine".into()), ..Default::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    for body in ["a", "b", "c"] {
        context.publish(name.clone(), body.into()).await.unwrap().await.unwrap();
    }

    let nats = Nats::options().namespace("test").server_syncs().wrap(client.clone()).await.unwrap();
    let wrapped = nats.wrap_consumer(&consumer).await.unwrap();
    let mut receiver = wrapped.receiver();
    receiver.receive_within(LONG).await.unwrap().complete().await.unwrap();
    let delivery = receiver.receive_within(LONG).await.unwrap();
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();
    let delivery = receiver.receive_within(LONG).await.unwrap();
    assert_eq!((delivery.message.payload(), delivery.message.received().unwrap().delivery_count), (Some(&b"c"[..]), 1));
    delivery.lease.release().await.unwrap();
    let delivery = receiver.receive_within(LONG).await.unwrap();
    assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    delivery.complete().await.unwrap();
    assert!(receiver.receive_within(Duration::from_millis(300)).await.is_err());

    // It may be wrapped again.
    let dead = nats.wrap_consumer(&consumer).await.unwrap().dead_letters().receive_within(LONG).await.unwrap();
    assert_eq!((dead.message.payload(), dead.message.dead_letter_description()), (Some(&b"b"[..]), Some("why")));
    dead.complete().await.unwrap();
    wrapped.unwrap().await.unwrap();
    // The client is still its owner's.
    nats.close().await.unwrap();
    client.flush().await.unwrap();
    context.delete_stream(name).await.unwrap();
}

/// Rules: K-205.
/// The server leaves a message in the stream after its last delivery, as if it had never been sent.
#[tokio::test]
async fn a_process_that_dies_in_a_delivery_leaves_a_message_that_is_dead_lettered() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let context = jetstream::new(client.clone());
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = |max_deliver| pull::Config {
        durable_name: Some(format!("mine-{max_deliver}")),
        ack_wait: Duration::from_secs(6),
        max_deliver,
        ..Default::default()
    };
    let nats = Nats::options().namespace("test").server_syncs().wrap(client).await.unwrap();
    let once = stream.create_consumer(config(1)).await.unwrap();
    assert_eq!(nats.wrap_consumer(&once).await.unwrap_err().kind(), ErrorKind::InvalidArgument);

    let consumer = stream.create_consumer(config(2)).await.unwrap();
    context.publish(name.clone(), "a".into()).await.unwrap().await.unwrap();
    let lost = consumer.fetch().max_messages(1).messages().await.unwrap().try_next().await.unwrap();
    assert!(lost.is_some());
    let wrapped = nats.wrap_consumer(&consumer).await.unwrap();
    let mut receiver = wrapped.receiver();
    let mut dead = wrapped.dead_letters();
    let dead = tokio::select! {
        received = receiver.receive() => panic!("{received:?}"),
        dead = dead.receive_within(LONG) => dead.unwrap(),
    };
    assert_eq!(dead.message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    dead.complete().await.unwrap();
    // A delivery that is released counts too, because the server counts it.
    context.publish(name.clone(), "b".into()).await.unwrap().await.unwrap();
    receiver.receive_within(LONG).await.unwrap().lease.release().await.unwrap();
    let mut dead = wrapped.dead_letters();
    let dead = tokio::select! {
        received = receiver.receive() => panic!("{received:?}"),
        dead = dead.receive_within(LONG) => dead.unwrap(),
    };
    assert_eq!(dead.message.payload(), Some(&b"b"[..]));
    dead.complete().await.unwrap();
    wrapped.unwrap().await.unwrap();
    context.delete_stream(name).await.unwrap();
}

/// The server refuses a request beyond the limits of the consumer.
#[tokio::test]
async fn a_receiver_keeps_to_the_limits_of_its_consumer() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let context = jetstream::new(client.clone());
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let nats = Nats::options().namespace("test").server_syncs().wrap(client).await.unwrap();
    let config = || pull::Config { durable_name: Some("mine".into()), ..Default::default() };

    for refused in [
        pull::Config { headers_only: true, ..config() },
        pull::Config { max_expires: Duration::from_millis(10), ..config() },
    ] {
        let consumer = stream.create_consumer(refused).await.unwrap();
        assert_eq!(nats.wrap_consumer(&consumer).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        stream.delete_consumer("mine").await.unwrap();
    }

    let limited = pull::Config { max_batch: 4, max_expires: Duration::from_secs(2), ..config() };
    let wrapped = nats.wrap_consumer(&stream.create_consumer(limited).await.unwrap()).await.unwrap();
    for body in ["a", "b", "c", "d", "e", "f"] {
        context.publish(name.clone(), body.into()).await.unwrap().await.unwrap();
    }
    let (mut receiver, mut received) = (wrapped.receiver(), 0);
    while received < 6 {
        let deliveries = tokio::time::timeout(LONG, receiver.receive_batch(10)).await.unwrap().unwrap();
        assert!(deliveries.len() <= 4);
        for delivery in deliveries {
            delivery.complete().await.unwrap();
            received += 1;
        }
    }
    wrapped.unwrap().await.unwrap();
    context.delete_stream(name).await.unwrap();
}

/// The numbers of a stream that is created again begin again.
#[tokio::test]
async fn a_stream_that_is_created_again_takes_no_dead_letter_of_the_one_before() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let context = jetstream::new(client.clone());
    let nats = Nats::options().namespace("test").server_syncs().wrap(client.clone()).await.unwrap();
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    for body in ["a", "b"] {
        let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..Default::default() };
        let stream = context.create_stream(config).await.unwrap();
        let config = pull::Config { durable_name: Some("mine".into()), ..Default::default() };
        let wrapped = nats.wrap_consumer(&stream.create_consumer(config).await.unwrap()).await.unwrap();
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Traceparent", body);
        context.publish_with_headers(name.clone(), headers, body.into()).await.unwrap().await.unwrap();
        let delivery = wrapped.receiver().receive_within(LONG).await.unwrap();
        delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();
        context.delete_stream(&name).await.unwrap();
    }
    let beside = format!("test_{name}=2Fmine_x");
    let stream = context.get_stream(&beside).await.unwrap();
    assert_eq!(stream.cached_info().state.messages, 2);
    // What others have put into the headers is there too.
    let dead = stream.direct_get(stream.cached_info().state.last_sequence).await.unwrap();
    assert_eq!(dead.headers.get("Traceparent").map(async_nats::HeaderValue::as_str), Some("b"));
    context.delete_stream(beside).await.unwrap();
}

/// Rules: K-125.
/// Producers without this crate select the consumer of an event by its subject, and set no header.
#[tokio::test]
async fn the_subject_of_a_foreign_stream_selects_the_handler() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let context = jetstream::new(client.clone());
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![format!("{name}.>")], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = pull::Config { durable_name: Some("mine".into()), ..Default::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let placed = format!("{name}.order.placed");
    context.publish(placed.clone(), "a".into()).await.unwrap().await.unwrap();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Sb-Subject", "own");
    context.publish_with_headers(placed.clone(), headers, "b".into()).await.unwrap().await.unwrap();

    let nats = Nats::options().namespace("test").server_syncs().wrap(client).await.unwrap();
    let wrapped = nats.wrap_consumer(&consumer).await.unwrap();
    let mut receiver = wrapped.receiver();
    let first = receiver.receive_within(LONG).await.unwrap();
    assert_eq!(first.message.subject(), Some(placed.as_str()));
    first.defer().await.unwrap();
    let second = receiver.receive_within(LONG).await.unwrap();
    assert_eq!(second.message.subject(), Some("own"));
    second.complete().await.unwrap();
    let number = consign::message::SequenceNumber::new(1);
    let deferred = wrapped.receive_deferred(&[number]).await.unwrap().pop().unwrap();
    assert_eq!(deferred.message.subject(), Some(placed.as_str()));
    deferred.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();
    let dead = wrapped.dead_letters().receive_within(LONG).await.unwrap();
    assert_eq!((dead.message.subject(), dead.message.payload()), (Some(placed.as_str()), Some(&b"a"[..])));
    dead.complete().await.unwrap();
    wrapped.unwrap().await.unwrap();
    context.delete_stream(name).await.unwrap();
}

/// Rules: K-125.
#[tokio::test]
async fn conversions_keep_the_subject_of_a_foreign_stream() {
    let Some(url) = server::url() else { return };
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![format!("{name}.>")], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = pull::Config { durable_name: Some("mine".into()), ..Default::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let (placed, dead) = (format!("{name}.order.placed"), format!("{name}.dead"));
    context.publish(placed.clone(), "a".into()).await.unwrap().await.unwrap();
    let mut deliveries = consumer.messages().await.unwrap();
    let delivery = deliveries.try_next().await.unwrap().unwrap();
    assert_eq!(convert::from_jetstream(&delivery).unwrap().subject(), Some(placed.as_str()));
    let letter = DeadLetter::new(DeadLetterReason::HandlerPermanent, "why");
    let (headers, payload) = convert::dead_letter_of(&delivery, letter).unwrap();
    context.publish_with_headers(dead, headers, payload).await.unwrap().await.unwrap();
    delivery.ack().await.unwrap();
    let delivery = deliveries.try_next().await.unwrap().unwrap();
    let read = convert::from_jetstream(&delivery).unwrap();
    assert_eq!((read.subject(), read.dead_letter_reason()), (Some(placed.as_str()), Some("HandlerPermanent")));
    context.delete_stream(name).await.unwrap();
}

/// Rules: K-123.
/// The dead letter would have no body, and its message would be removed.
#[tokio::test]
async fn a_delivery_without_its_payload_is_not_a_message() {
    let Some(url) = server::url() else { return };
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = pull::Config { durable_name: Some("mine".into()), headers_only: true, ..Default::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    context.publish(name.clone(), "a".into()).await.unwrap().await.unwrap();
    let mut deliveries = consumer.messages().await.unwrap();
    let delivery = deliveries.try_next().await.unwrap().unwrap();
    let unreadable = convert::from_jetstream(&delivery).unwrap_err();
    assert!(unreadable.to_string().contains("headers_only"), "{unreadable}");
    let error = convert::dead_letter_of(&delivery, unreadable.dead_letter().clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    context.delete_stream(name).await.unwrap();
}

/// Rules: K-123, Y-242.
#[tokio::test]
async fn a_copy_that_is_published_again_reaches_the_limit_of_deliveries() {
    const LIMIT: u32 = 3;
    let Some(url) = server::url() else { return };
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let name = format!("wrapped-{:016x}", fastrand::u64(..));
    let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..Default::default() };
    let stream = context.create_stream(config).await.unwrap();
    let config = pull::Config { durable_name: Some("mine".into()), ..Default::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let (headers, payload) = convert::to_nats(&Message::builder().message_id("order-7").build("a").unwrap()).unwrap();
    context.publish_with_headers(name.clone(), headers, payload).await.unwrap().await.unwrap();
    let stack = ServiceBuilder::new()
        .layer(DeliveryLimitLayer::new(LIMIT))
        .service(service_fn(async |_: Message| Err::<Disposition, _>(BoxError::from("fails"))));
    let mut deliveries = consumer.messages().await.unwrap();
    for number in 1..=LIMIT {
        let delivery = deliveries.try_next().await.unwrap().unwrap();
        let message = convert::from_jetstream(&delivery).unwrap();
        assert_eq!((message.message_id(), message.received().unwrap().delivery_count), (Some("order-7"), number));
        let result = stack.oneshot(message.clone()).await;
        assert_eq!(result.is_ok(), number == LIMIT, "delivery {number}: {result:?}");
        if result.is_err() {
            let (mut headers, payload) = convert::to_nats(&count_delivery(&message)).unwrap();
            headers.insert(NATS_MESSAGE_ID, "");
            let stored = context.publish_with_headers(name.clone(), headers, payload).await.unwrap().await.unwrap();
            assert!(!stored.duplicate);
        }
        delivery.ack().await.unwrap();
    }
    context.delete_stream(name).await.unwrap();
}

#[tokio::test]
async fn deliveries_of_a_core_subscription_are_settled() {
    let Some(url) = server::url() else { return };
    let client = async_nats::connect(url).await.unwrap();
    let nats = Nats::options().server_syncs().wrap(client.clone()).await.unwrap();
    let subject = format!("wrapped.{:016x}", fastrand::u64(..));
    let mut receiver = nats.wrap_subscription(client.subscribe(subject.clone()).await.unwrap());
    client.publish(subject, "a".into()).await.unwrap();
    let delivery = receiver.receive_within(LONG).await.unwrap();
    assert_eq!((delivery.message.payload(), delivery.lease.lock_duration()), (Some(&b"a"[..]), None));
    assert_eq!(delivery.complete().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
}
