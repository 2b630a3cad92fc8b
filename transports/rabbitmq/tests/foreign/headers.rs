//! Properties and headers of other clients, both ways: published and fetched by lapin itself.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Message,
    message::{PropertyValue, TraceContext, Value},
    rules::{CorrelationFilter, Rule},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{ReceiverExt, Sender as _},
};
use consign_conformance::log::Lines;
use consign_rabbitmq::{
    QueueSettings, TopicSettings,
    lapin::{
        BasicProperties, Channel, Connection, ConnectionProperties,
        message::Delivery,
        options::{BasicGetOptions, BasicPublishOptions},
        types::{AMQPValue, FieldTable},
    },
};

use crate::{Bench, SOON, support};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn long(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn table(all: Vec<(&str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in all {
        table.insert(name.into(), value);
    }
    table
}

fn text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.application_properties().get(name).and_then(PropertyValue::as_str)
}

/// Another client.
struct Other {
    channel: Channel,
    connection: Connection,
    queue: String,
}

impl Other {
    async fn of(bench: &Bench) -> Self {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&support::address(), properties).await.expect("a broker that answers");
        let channel = connection.create_channel().await.expect("a broker that answers");
        Self { channel, connection, queue: bench.queue.clone() }
    }

    async fn publish(&self, properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let publishing =
            self.channel.basic_publish("".into(), self.queue.as_str().into(), options, b"body", properties);
        publishing.await.expect("a broker that answers").await.expect("a broker that answers");
    }

    async fn get(&self, queue: &str) -> Delivery {
        let options = BasicGetOptions { no_ack: true };
        for _ in 0..200 {
            let got = self.channel.basic_get(queue.into(), options).await.expect("a broker that answers");
            if let Some(got) = got {
                return got.delivery;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("no message in {queue}");
    }

    async fn end(self) {
        self.connection.close(200, "OK".into()).await.expect("a broker that answers");
    }
}

/// Rules: K-110, K-112.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_another_client_is_read_whole_and_dies_whole() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let other = Other::of(&bench).await;
    // As Celery and Spring AMQP have them.
    let headers = table(vec![
        ("task", long("orders.create")),
        ("__TypeId__", long("com.example.Order")),
        ("retries", AMQPValue::LongInt(0)),
        ("group", AMQPValue::Void),
        ("timelimit", AMQPValue::FieldArray(vec![AMQPValue::Void, AMQPValue::Void].into())),
        ("stamps", AMQPValue::FieldTable(FieldTable::default())),
        ("traceparent", long(PARENT)),
        ("tracestate", long("a=1")),
    ]);
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_app_id("app".into())
        .with_user_id("guest".into())
        .with_timestamp(1_700_000_000)
        .with_headers(headers.clone());
    other.publish(properties.clone()).await;
    let delivery = bench.receiver().receive_within(SOON).await.unwrap();
    let message = delivery.message.clone();
    let trace = TraceContext::of(message.properties()).unwrap().unwrap();
    assert_eq!((trace.to_string().as_str(), trace.state()), (PARENT, Some("a=1")));
    assert_eq!((text(&message, "task"), text(&message, "app_id")), (Some("orders.create"), Some("app")));
    assert_eq!(message.application_properties().get("group"), Some(&PropertyValue::Null));
    let rest = message.pass_through().unwrap();
    assert_eq!((rest.content_encoding.as_deref(), rest.user_id.as_deref()), (Some("utf-8"), Some(&b"guest"[..])));
    assert_eq!(rest.creation_time, Some(Timestamp::from_millis(1_700_000_000_000)));
    let names: Vec<_> = rest.annotations.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["stamps", "timelimit"]);
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();

    let queue = format!("{}/$deadletterqueue", bench.queue);
    let dead = bench.rabbit.receiver(&queue).unwrap().receive_within(SOON).await.unwrap();
    assert_eq!(dead.message.pass_through(), message.pass_through());
    assert_eq!(dead.message.dead_letter_reason(), Some(DeadLetterReason::HandlerPermanent.as_str()));
    drop(dead);
    let raw = other.get(&queue).await.properties;
    for (name, value) in &headers {
        assert_eq!(raw.headers().as_ref().unwrap().inner().get(name.as_str()), Some(value), "{name}");
    }
    assert_eq!((raw.app_id(), raw.content_encoding()), (properties.app_id(), properties.content_encoding()));
    other.end().await;
    bench.end().await;
}

/// Rules: K-111.
/// A program between that knows nothing of this crate has changed the body, and said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_changes_what_the_properties_say() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let other = Other::of(&bench).await;
    let long_id = "\u{8a9e}".repeat(128);
    let sent = Message::builder().content_type("application/msgpack").message_id(long_id.clone());
    let sent = sent.property("traceparent", PARENT).build("body").unwrap();
    bench.rabbit.sender(&bench.queue).unwrap().send(sent).await.unwrap();
    let mut relayed = other.get(&bench.queue).await.properties;
    let mut headers = relayed.headers().clone().unwrap();
    let child = PARENT.replace("00f067aa0ba902b7", "b7ad6b7169203331");
    headers.insert("traceparent".into(), long(&child));
    headers.insert("sb-content-type".into(), long("application/msgpack"));
    relayed = relayed.with_headers(headers).with_content_type("application/json".into());
    other.publish(relayed).await;
    let delivery = bench.receiver().receive_within(SOON).await.unwrap();
    let message = &delivery.message;
    assert_eq!((message.content_type(), message.message_id()), (Some("application/json"), Some(&*long_id)));
    assert_eq!(text(message, "traceparent"), Some(&*child));
    delivery.complete().await.unwrap();
    other.end().await;
    bench.end().await;
}

/// Rules: K-115.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_clients_read_what_is_sent() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let other = Other::of(&bench).await;
    let mut message = Message::builder()
        .content_type("application/json")
        .message_id("m")
        .correlation_id("c")
        .reply_to("r")
        .subject("order.created")
        .property("traceparent", PARENT)
        .property("tracestate", "a=1")
        .property("app_id", "billing")
        .build("{}")
        .unwrap();
    let rest = message.properties_mut().pass_through_mut();
    rest.content_encoding = Some("gzip".into());
    rest.annotations = vec![("timelimit".into(), Value::List(vec![Value::from(5_i32)]))];
    let sender = bench.rabbit.sender(&bench.queue).unwrap();
    sender.send(message.clone()).await.unwrap();
    let raw = other.get(&bench.queue).await.properties;
    let said = [raw.content_type(), raw.content_encoding(), raw.message_id(), raw.correlation_id(), raw.reply_to()];
    let said = said.map(|value| value.as_ref().map(|value| value.as_str().to_owned()).unwrap_or_default());
    assert_eq!(said, ["application/json", "gzip", "m", "c", "r"]);
    let said = [raw.kind(), raw.app_id()].map(|value| value.as_ref().unwrap().as_str().to_owned());
    assert_eq!(said, ["order.created", "billing"]);
    let headers = raw.headers().as_ref().unwrap().inner();
    assert_eq!((headers.get("traceparent"), headers.get("tracestate")), (Some(&long(PARENT)), Some(&long("a=1"))));
    assert_eq!(headers.get("timelimit"), Some(&AMQPValue::FieldArray(vec![AMQPValue::LongInt(5)].into())));
    sender.send(message.clone()).await.unwrap();
    let delivery = bench.receiver().receive_within(SOON).await.unwrap();
    assert_eq!(delivery.message.properties(), message.properties());
    delivery.complete().await.unwrap();
    other.end().await;
    bench.end().await;
}

/// Rules: K-114.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_beyond_the_limits_are_a_dead_letter_that_has_what_fits() {
    let (lines, _guard) = Lines::capture();
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let other = Other::of(&bench).await;
    let stack = "at line\n".repeat(13_000);
    other
        .publish(
            BasicProperties::default()
                .with_headers(table(vec![("x-exception-stacktrace", long(&stack)), ("traceparent", long(PARENT))])),
        )
        .await;
    let queue = format!("{}/$deadletterqueue", bench.queue);
    let dead = {
        let (mut receiver, mut letters) = (bench.receiver(), bench.rabbit.receiver(&queue).unwrap());
        tokio::select! {
            received = receiver.receive() => panic!("{received:?} is no dead letter"),
            dead = letters.receive_within(SOON) => dead.unwrap(),
        }
    };
    assert_eq!(dead.message.dead_letter_reason(), Some("HeaderSizeExceeded"));
    assert!(dead.message.dead_letter_description().unwrap().contains("32767"), "{:?}", dead.message);
    assert_eq!((dead.message.payload(), text(&dead.message, "traceparent")), (Some(&b"body"[..]), Some(PARENT)));
    drop(dead);
    let warned = lines.of("consign::rabbitmq");
    let is_named = |line: &String| line.starts_with("WARN") && line.contains("reason=HeaderSizeExceeded");
    assert!(warned.iter().any(is_named), "{warned:?}");
    let raw = other.get(&queue).await.properties;
    assert_eq!(raw.headers().as_ref().unwrap().inner().get("x-exception-stacktrace"), Some(&long(&stack)));
    other.end().await;
    bench.end().await;
}

/// Rules: K-116.
/// Properties and headers as they were before those of other clients were read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_earlier_versions_are_read_as_they_were_sent() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let other = Other::of(&bench).await;
    let headers = table(vec![
        ("sb-content-type", long("text/plain")),
        ("sb-subject", long("s")),
        ("sb-message-id", long("m")),
        ("sb-session-id", long("session")),
        ("sb-reply-to-session-id", long("answers")),
        ("sb-to", long("t")),
        ("sb-enqueued-time-ms", AMQPValue::LongLongInt(1_700_000_000_123)),
        ("sb-sequence-number", AMQPValue::LongLongInt(7)),
        ("sb-user-id", AMQPValue::ByteArray(b"me"[..].into())),
        ("sb-creation-time-ms", AMQPValue::LongLongInt(5)),
        ("sb-durable", AMQPValue::Boolean(true)),
        ("sb-property-CC", long("elsewhere")),
        ("traceparent", long(PARENT)),
        ("id", long("01010101-0101-0101-0101-010101010101")),
        ("sb-types", AMQPValue::FieldTable(table(vec![("id", long("uuid"))]))),
    ]);
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type("text/plain".into())
        .with_type("s".into())
        .with_message_id("m".into())
        .with_timestamp(1_700_000_000)
        .with_content_encoding("gzip".into())
        .with_priority(3)
        .with_headers(headers);
    let mut expected = Message::builder()
        .content_type("text/plain")
        .subject("s")
        .message_id("m")
        .session_id("session")
        .reply_to_session_id("answers")
        .to("t")
        .property("CC", "elsewhere")
        .property("traceparent", PARENT)
        .property("id", PropertyValue::Uuid([1; 16]))
        .build("body")
        .unwrap();
    let rest = expected.properties_mut().pass_through_mut();
    rest.user_id = Some(Bytes::from_static(b"me"));
    rest.creation_time = Some(Timestamp::from_millis(5));
    rest.durable = Some(true);
    rest.content_encoding = Some("gzip".into());
    rest.priority = Some(3);
    other.publish(properties).await;
    let delivery = bench.receiver().receive_within(SOON).await.unwrap();
    assert_eq!(delivery.message.properties(), expected.properties());
    let received = delivery.message.received().unwrap();
    assert_eq!((received.sequence_number.get(), received.enqueued_time.as_millis()), (7, 1_700_000_000_123));
    delivery.complete().await.unwrap();
    other.end().await;
    bench.end().await;
}

/// Rules: K-112.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_compares_headers_with_the_prefix_of_this_crate_by_any_publisher() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let other = Other::of(&bench).await;
    let topic = support::unique("topic");
    bench.rabbit.create_topic(&topic, TopicSettings::default()).await.unwrap();
    let path = bench.rabbit.create_subscription(&topic, "some", QueueSettings::default()).await.unwrap();
    bench.rabbit.delete_rule(path.as_str(), Rule::default().name()).await.unwrap();
    // `sb-to` is a header of this crate, so the property of that name is never written as it.
    for (rule, properties) in
        [("both", [("sb-color", "red"), ("sb-size", "xl")]), ("own", [("sb-to", "x"), ("a", "b")])]
    {
        let mut filter = CorrelationFilter::builder();
        for (name, value) in properties {
            filter = filter.property(name, value);
        }
        bench.rabbit.create_rule(path.as_str(), &Rule::new(rule, filter.build().unwrap()).unwrap()).await.unwrap();
    }

    let publish = async |headers: Vec<(&str, AMQPValue)>| {
        let properties = BasicProperties::default().with_headers(table(headers));
        let (exchange, options) = (topic.as_str().into(), BasicPublishOptions::default());
        let publishing = other.channel.basic_publish(exchange, "".into(), options, b"other", properties);
        publishing.await.unwrap().await.unwrap();
    };
    publish(vec![("sb-color", long("red")), ("sb-size", long("s"))]).await;
    publish(vec![("sb-color", long("red"))]).await;
    publish(vec![("sb-to", long("x")), ("a", long("b"))]).await;
    publish(vec![("sb-color", long("red")), ("sb-size", long("xl"))]).await;
    let mut own = Message::new("own");
    for (name, value) in [("sb-color", "red"), ("sb-size", "xl"), ("sb-to", "x"), ("a", "b")] {
        own.properties_mut().application_properties_mut().insert(name, value);
    }
    bench.rabbit.sender(&topic).unwrap().send(own).await.unwrap();

    let mut receiver = bench.rabbit.receiver(path.as_str()).unwrap();
    for body in ["other", "own"] {
        let delivery = receiver.receive_within(SOON).await.unwrap();
        assert_eq!(delivery.message.payload().unwrap(), body.as_bytes());
        assert_eq!(
            (text(&delivery.message, "sb-color"), text(&delivery.message, "sb-size")),
            (Some("red"), Some("xl"))
        );
        delivery.complete().await.unwrap();
    }
    // A message that several rules match is copied once.
    receiver.receive_within(Duration::from_millis(500)).await.unwrap_err();
    drop(receiver);
    bench.rabbit.delete(&topic).await.unwrap();
    other.end().await;
    bench.end().await;
}

/// Rules: K-117.
#[tokio::test]
async fn floats_that_are_not_finite_numbers_arrive() {
    let Some(bench) = Bench::new(QueueSettings::default()).await else { return };
    let values: [(&str, PropertyValue); 4] = [
        ("nan", f64::NAN.into()),
        ("infinite", f64::INFINITY.into()),
        ("narrow", f32::NEG_INFINITY.into()),
        ("finite", f64::MAX.into()),
    ];
    let mut message = Message::new("body");
    for (name, value) in values.clone() {
        message.properties_mut().application_properties_mut().insert(name, value);
    }
    bench.rabbit.sender(&bench.queue).unwrap().send(message).await.unwrap();
    let delivery = bench.receiver().receive_within(SOON).await.unwrap();
    for (name, value) in values {
        // A NaN is not equal to itself.
        assert_eq!(
            format!("{:?}", delivery.message.application_properties().get(name).unwrap()),
            format!("{value:?}"),
            "{name}"
        );
    }
    delivery.complete().await.unwrap();
    bench.end().await;
}
