use std::time::Duration;

use consign_amqp::{
    bytes::Bytes,
    engine::OutboundDelivery,
    message::{
        Annotations, ApplicationProperties, BATCH_FORMAT, BatchBuilder, Body, EncodedMessage, Footer, Header,
        MessageAnnotations, MessageId, Properties, Sections,
    },
    value::{Decimal128, List, Symbol, Timestamp, Uuid, Value},
};
use consign_core::administration::QueueSettings;

use crate::support::*;

/// Rules: U-10, U-12.
#[tokio::test(start_paused = true)]
async fn a_symbol_is_a_string_in_a_property_and_stays_one_elsewhere() {
    let harness = Harness::new();
    let session = harness.session().await;
    let symbol = || Value::from(Symbol::from_static("sym"));
    let mut properties = ApplicationProperties::default();
    properties.push("p", symbol());
    let annotations = Annotations(vec![(Symbol::from_static("x-opt-own"), symbol())]);
    let sent = Sections {
        message_annotations: Some(MessageAnnotations(annotations)),
        application_properties: Some(properties),
        body: Body::Value(symbol()),
        ..Sections::default()
    };
    sender(&session, "orders").await.send(encode(&sent)).await.unwrap();
    let mut receiver = receiver(&session, "orders").await;
    let received = read(receive(&mut receiver).await);
    assert_eq!(annotation(&received, "x-opt-own"), Some(symbol()));
    assert_eq!(received.application_properties.unwrap().get("p"), Some(&Value::from("sym")));
    assert_eq!(received.body, Body::Value(symbol()));
}

/// A message has the types of its ids and properties, its body and its footer when it is received.
/// Rules: A-03, U-12, M-25.
#[tokio::test(start_paused = true)]
async fn a_message_survives_the_broker_unchanged() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let mut receiver = receiver(&session, "orders").await;
    let ids = [
        MessageId::Ulong(7),
        MessageId::Uuid(Uuid([9; 16])),
        MessageId::Binary(b"\x01\x02".to_vec().into()),
        MessageId::String("text".into()),
    ];
    let bodies = [
        Body::Data(vec![b"one".to_vec().into(), vec![5; 70_000].into(), b"three".to_vec().into()]),
        Body::Value(Value::Map(fields([("k", 1_i32.into()), ("l", Value::List(List(vec![true.into()])))]))),
        Body::Sequence(vec![List(vec![1_u8.into(), "a".into()]), List::default()]),
        Body::Value(Value::Null),
    ];
    for (id, body) in ids.into_iter().zip(bodies) {
        let mut properties = ApplicationProperties::default();
        for (name, value) in [
            ("bool", Value::from(true)),
            ("byte", Value::from(-1_i8)),
            ("ulong", Value::from(u64::MAX)),
            ("char", Value::from('x')),
            ("decimal", Value::from(Decimal128([3; 16]))),
            ("time", Value::from(Timestamp(1_000))),
            ("uuid", Value::from(Uuid([4; 16]))),
            ("null", Value::Null),
            ("double", Value::from(0.5_f64)),
        ] {
            properties.push(name, value);
        }
        properties.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        let sent = Sections {
            header: Some(Header { durable: true, priority: 7, ttl: Some(60_000), ..Header::default() }),
            message_annotations: Some(MessageAnnotations(Annotations(vec![(
                Symbol::from_static("x-opt-own"),
                Value::from(3_i16),
            )]))),
            properties: Some(Properties {
                message_id: Some(id.clone()),
                correlation_id: Some(id),
                user_id: Some(b"user".to_vec().into()),
                to: Some("to".into()),
                subject: Some("subject".into()),
                reply_to: Some("reply".into()),
                content_type: Some(Symbol::from_static("application/json")),
                content_encoding: Some(Symbol::from_static("gzip")),
                creation_time: Some(Timestamp(5)),
                group_id: Some("group".into()),
                group_sequence: Some(3),
                reply_to_group_id: Some("replies".into()),
                absolute_expiry_time: None,
            }),
            application_properties: Some(properties),
            footer: Some(Footer(Annotations(vec![(Symbol::from_static("f"), "x".into())]))),
            body,
            delivery_annotations: None,
        };
        assert_eq!(link.send(encode(&sent)).await.unwrap(), Some(accepted()));
        let delivery = receive(&mut receiver).await;
        complete(&receiver, &delivery).await;
        let mut received = read(delivery);
        assert_eq!(annotation(&received, "x-opt-own"), Some(3_i16.into()));
        // Clients take the difference to the creation time as the time to live.
        let expiry = received.properties.as_mut().unwrap().absolute_expiry_time.take();
        assert_eq!(expiry, Some(Timestamp(5 + 60_000)));
        received.message_annotations.clone_from(&sent.message_annotations);
        received.delivery_annotations = None;
        assert_eq!(received, sent);
    }
}

/// The header has 32 bits for it.
/// Rules: A-16.
#[tokio::test(start_paused = true)]
async fn a_message_whose_entity_limits_its_life_to_many_days_is_received() {
    const DAYS: Duration = Duration::from_secs(60 * 86_400);
    let harness = Harness::new();
    let settings = QueueSettings::default().default_time_to_live(DAYS);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let received = read(receive(&mut receiver(&session, "orders").await).await);
    assert_eq!(received.header.unwrap().ttl, Some(u32::MAX));
    let properties = received.properties.unwrap();
    let expiry = START.saturating_add(DAYS).as_millis();
    assert_eq!(properties.creation_time, Some(Timestamp(START.as_millis())));
    assert_eq!(properties.absolute_expiry_time, Some(Timestamp(expiry)));
}

/// Rules.
#[tokio::test(start_paused = true)]
async fn a_send_is_answered_when_the_broker_has_it_and_credit_follows() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    // More than twice the credit.
    for nth in 0..250 {
        assert_eq!(link.send(message(&nth.to_string())).await.unwrap(), Some(accepted()));
    }
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 250);
}

/// Rules: A-34.
#[tokio::test(start_paused = true)]
async fn a_settled_transfer_is_not_answered() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let settled = OutboundDelivery { settled: true, ..OutboundDelivery::default() };
    assert_eq!(link.send_with(settled.clone(), &[message("a")]).await.unwrap(), None);
    // One that is refused is lost.
    assert_eq!(link.send_with(settled, &[Bytes::from_static(b"garbage")]).await.unwrap(), None);
    assert_eq!(link.send(message("b")).await.unwrap(), Some(accepted()));
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 2);
}

fn batch(messages: &[Bytes]) -> (OutboundDelivery, Bytes) {
    let mut builder = BatchBuilder::new(1 << 20);
    for message in messages {
        builder.try_add(&EncodedMessage::split(message.clone()).unwrap()).unwrap();
    }
    let transfer = builder.build().unwrap();
    (OutboundDelivery { format: transfer.message_format, ..OutboundDelivery::default() }, transfer.payload)
}

/// Rules: T-80, A-04.
#[tokio::test(start_paused = true)]
async fn a_batch_is_accepted_as_its_messages() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let (delivery, payload) = batch(&[message("a"), message("b"), message("c")]);
    assert_eq!(link.send_with(delivery, &[payload]).await.unwrap(), Some(accepted()));
    assert_eq!(drain(&mut receiver(&session, "orders").await).await, ["a", "b", "c"]);
}

/// Rules: T-80, T-82.
#[tokio::test(start_paused = true)]
async fn a_batch_is_refused_as_a_whole() {
    let harness = Harness::new();
    harness.broker().create_queue("orders", QueueSettings::default().requires_session(true)).unwrap();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let (delivery, payload) = batch(&[of_session("a", "s"), message("b")]);
    let outcome = link.send_with(delivery, &[payload]).await.unwrap().unwrap();
    assert_eq!(condition_of(&outcome), "amqp:not-allowed");
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 0);
}

/// Rules: M-11.
#[tokio::test(start_paused = true)]
async fn a_message_without_an_id_gets_one() {
    let harness = Harness::new();
    let session = harness.session().await;
    send(&session, "orders", &["a", "b"]).await;
    let mut receiver = receiver(&session, "orders").await;
    let id = |sections: &Sections| sections.properties.clone().unwrap().message_id.unwrap();
    let (first, second) = (read(receive(&mut receiver).await), read(receive(&mut receiver).await));
    assert!(matches!(id(&first), MessageId::String(text) if !text.is_empty()));
    assert_ne!(id(&first), id(&second));
}

/// Rules: V-10.
#[tokio::test(start_paused = true)]
async fn a_message_over_the_size_of_its_entity_is_rejected_and_the_link_stays() {
    let harness = Harness::new();
    harness.broker().create_queue("small", QueueSettings::default().max_message_size(1_000)).unwrap();
    let session = harness.session().await;
    // The client would refuse to send it otherwise.
    let link = sender(&session, "small").await;
    assert_eq!(link.peer().max_message_size, Some(1_000));
    let big = message(&"x".repeat(2_000));
    let error = link.send(big).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!(link.send(message("small")).await.unwrap(), Some(accepted()));
}

/// Rules: V-01.
#[tokio::test(start_paused = true)]
async fn a_malformed_message_is_rejected_and_the_link_stays() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let outcome = link.send(Bytes::from_static(b"\x00\x53\x75\xa0")).await.unwrap().unwrap();
    assert_eq!(condition_of(&outcome), "amqp:decode-error");
    let too_long = Properties { message_id: Some("x".repeat(200).as_str().into()), ..Properties::default() };
    let outcome = link.send(encode(&Sections { properties: Some(too_long), ..sections("a") })).await.unwrap().unwrap();
    assert_eq!(condition_of(&outcome), "com.microsoft:argument-error");
    assert_eq!(link.send(message("a")).await.unwrap(), Some(accepted()));
}

/// Rules: T-86.
#[tokio::test(start_paused = true)]
async fn a_full_entity_refuses_messages_by_the_quota() {
    let harness = Harness::new();
    let settings = QueueSettings::default().max_size(2_000);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let mut last = accepted();
    for _ in 0..10 {
        last = link.send(message(&"x".repeat(500))).await.unwrap().unwrap();
    }
    assert_eq!(condition_of(&last), "amqp:resource-limit-exceeded");
}

/// Rules: T-40, T-41.
#[tokio::test(start_paused = true)]
async fn a_duplicate_is_accepted_and_dropped() {
    let harness = Harness::new();
    let window = std::time::Duration::from_secs(60);
    let settings = QueueSettings::default().duplicate_detection(window);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    for body in ["a", "b"] {
        let properties = Properties { message_id: Some("same".into()), ..Properties::default() };
        let message = encode(&Sections { properties: Some(properties), ..sections(body) });
        assert_eq!(link.send(message).await.unwrap(), Some(accepted()));
    }
    assert_eq!(drain(&mut receiver(&session, "orders").await).await, ["a"]);
}

/// A client that does not wait for credit, and frames of several transfers.
/// Rules: A-33.
#[tokio::test(start_paused = true)]
async fn many_sends_at_once_are_answered_each() {
    let harness = Harness::new();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let sends = (0..300).map(|nth| {
        let body = "x".repeat(if nth % 10 == 0 { 200_000 } else { 10 });
        let link = &link;
        async move { link.send(message(&body)).await }
    });
    for outcome in futures_util::future::join_all(sends).await {
        assert_eq!(outcome.unwrap(), Some(accepted()));
    }
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 300);
}

/// As many as fit into 256 KiB, and more.
#[tokio::test(start_paused = true)]
async fn a_batch_has_at_most_32_768_messages() {
    let harness = Harness::new();
    let settings = QueueSettings::default().max_message_size(1 << 20);
    harness.broker().create_queue("orders", settings).unwrap();
    let session = harness.session().await;
    let link = sender(&session, "orders").await;
    let one = consign_amqp::codec::encode(&consign_amqp::message::Data(message("").to_vec().into())).unwrap();
    for (count, expected) in [(26_000, None), (32_769, Some("com.microsoft:argument-error"))] {
        let delivery = OutboundDelivery { format: BATCH_FORMAT, ..OutboundDelivery::default() };
        let state = link.send_with(delivery, &[one.repeat(count).into()]).await.unwrap().unwrap();
        assert_eq!((state != accepted()).then(|| condition_of(&state)), expected, "{count}");
    }
    assert_eq!(harness.broker().queue("orders").unwrap().counts().active, 26_000);
}
