//! What becomes of each part of a message between a sender and a receiver.
#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::task::Poll;

use bytes::Bytes;
use consign::{
    Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::ContentType,
    message::{Field, MessageBody, MessageBuilder, Problem, Properties, PropertyValue, Value},
    mime,
    rules::CorrelationFilter,
    time::Timestamp,
    transport::{ReceiverExt, Sender},
};
use tokio_test::task;

/// Sends a message through a queue.
fn through(message: Message) -> Message {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    queue.sender().unwrap().send(message).wait().unwrap();
    let mut receiver = queue.receive_and_delete();
    let Poll::Ready(delivery) = task::spawn(receiver.receive()).poll() else { panic!("the message is there") };
    delivery.unwrap().message
}

/// Sends a message with one property set, and reads that property before and after.
fn kept(
    set: impl Fn(MessageBuilder, String) -> MessageBuilder,
    get: impl for<'m> Fn(&'m Properties) -> Option<&'m str>,
    texts: &[&str],
) {
    assert_eq!(get(through(Message::new("")).properties()), None);
    for &text in texts {
        let message = set(Message::builder(), text.to_owned()).build("").unwrap();
        assert_eq!(get(through(message).properties()), Some(text));
    }
}

const FREE_TEXT: [&str; 4] = ["", "a", "ä 語\0\r\n", "application/json ; charset = UTF-8"];

/// Rules: M-01.
#[test]
fn a_content_type_is_kept_as_it_was_sent() {
    kept(MessageBuilder::content_type, Properties::content_type, &FREE_TEXT);
}

/// Rules: P-144.
#[test]
fn a_mime_is_accepted_wherever_a_content_type_is_set() {
    let json = Message::builder().content_type(mime::APPLICATION_JSON).build("").unwrap();
    assert_eq!(json.content_type(), Some("application/json"));
    let mut properties = Properties::new();
    properties.set_content_type(&mime::TEXT_PLAIN_UTF_8);
    assert_eq!(properties.content_type(), Some("text/plain; charset=utf-8"));
    properties.set_content_type(ContentType::parse("A/B (c)").as_str().to_owned());
    assert_eq!(properties.content_type(), Some("A/B (c)"));

    let filter = CorrelationFilter::builder().content_type(mime::APPLICATION_JSON).build().unwrap();
    assert!(filter.matches(&json));
}

/// Rules: M-02.
#[test]
fn a_correlation_id_is_free_text() {
    kept(MessageBuilder::correlation_id, Properties::correlation_id, &FREE_TEXT);
}

/// Rules: M-08.
#[test]
fn a_subject_is_free_text() {
    kept(MessageBuilder::subject, Properties::subject, &FREE_TEXT);
}

/// Rules: M-13, M-19.
#[test]
fn addresses_are_kept_and_nothing_is_routed_by_them() {
    let addresses = ["replies", "amqps://host.example/replies", "a/$deadletterqueue"];
    kept(MessageBuilder::reply_to, Properties::reply_to, &addresses);
    kept(MessageBuilder::to, Properties::to, &addresses);
}

/// Rules: M-12, M-14, M-17, M-20.
#[test]
fn ids_are_kept_up_to_their_length() {
    let longest = "x".repeat(128);
    let ids = ["", "a", &longest];
    kept(MessageBuilder::partition_key, Properties::partition_key, &ids);
    kept(MessageBuilder::session_id, Properties::session_id, &ids);
    kept(MessageBuilder::reply_to_session_id, Properties::reply_to_session_id, &ids);
    kept(MessageBuilder::transaction_partition_key, Properties::transaction_partition_key, &ids);

    let too_long = || "x".repeat(129);
    for builder in [
        Message::builder().partition_key(too_long()),
        Message::builder().session_id(too_long()),
        Message::builder().reply_to_session_id(too_long()),
        Message::builder().transaction_partition_key(too_long()),
    ] {
        assert_eq!(builder.build("").unwrap_err().problem(), &Problem::TooLong { limit: 128 });
    }
}

/// Rules: M-12.
#[test]
fn a_partition_key_equals_the_session() {
    let message = Message::builder().session_id("s").partition_key("s").build("").unwrap();
    assert_eq!(through(message).partition_key(), Some("s"));
    let error = Message::builder().session_id("s").partition_key("p").build("").unwrap_err();
    assert_eq!((error.field(), error.problem()), (&Field::PartitionKey, &Problem::PartitionKeySessionIdMismatch));
}

/// Rules: M-23, B-01, B-02, B-03, B-04.
#[test]
fn a_body_of_any_kind_is_opaque() {
    let nested = Value::List(vec![Value::from(1_u8), Value::Map(vec![(Value::from("k"), Value::Symbol("v".into()))])]);
    let bodies = [
        MessageBody::empty(),
        MessageBody::from(&b"\xff\xfe\0"[..]),
        MessageBody::sections(vec![Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(b"b")]),
        MessageBody::from(nested.clone()),
        MessageBody::Sequence([vec![nested], vec![]].into()),
    ];
    for body in bodies {
        assert_eq!(through(Message::new(body.clone())).body(), &body);
    }
}

/// One value of each type that a property can have.
fn values() -> Vec<PropertyValue> {
    use PropertyValue as V;
    let mut values = vec![
        V::Decimal([0xAB; 16]),
        V::Uuid([0xCD; 16]),
        V::DateTime(Timestamp::from_millis(1_700_000_000_123)),
        V::DateTimeOffset(638_355_968_001_234_567),
        V::TimeSpan(-1),
        V::Uri("https://host.example/%C3%A4?q#f".into()),
        V::Null,
        V::Bytes(Bytes::from_static(b"\0\xff")),
    ];
    values.extend([V::from(false), V::from(true), V::from('語'), V::from(""), V::from("ä\0")]);
    values.extend([V::from(u8::MAX), V::from(u16::MAX), V::from(u32::MAX), V::from(u64::MAX)]);
    values.extend([V::from(i8::MIN), V::from(i16::MIN), V::from(i32::MIN), V::from(i64::MIN)]);
    values.extend([V::from(f32::MIN_POSITIVE), V::from(-0.0_f64), V::from(f64::INFINITY)]);
    values
}

/// Rules: M-24, U-01, U-02, U-03, U-04, U-05, U-06, U-07, U-08, U-09.
#[test]
fn each_type_is_kept() {
    let values = values();
    let mut message = Message::new("");
    for (at, value) in values.iter().enumerate() {
        message.properties_mut().application_properties_mut().insert(at.to_string(), value.clone());
    }
    let received = through(message);
    assert_eq!(received.application_properties().len(), values.len());
    for (at, value) in values.iter().enumerate() {
        assert_eq!(received.application_properties().get(&at.to_string()), Some(value));
    }
}

/// Rules: M-24.
#[test]
fn keys_are_compared_as_they_are() {
    let message = Message::builder().property("key", 1_u8).property("Key", 2_u8).property("", 3_u8).build("").unwrap();
    let received = through(message);
    let get = |key| received.application_properties().get(key).cloned();
    assert_eq!(
        ["key", "Key", "", "KEY"].map(get),
        [Some(1_u8), Some(2), Some(3), None].map(|it| it.map(PropertyValue::U8))
    );
}

/// Rules: U-04.
#[test]
fn a_date_counts_milliseconds() {
    let value = PropertyValue::from(Timestamp::from_millis(-1));
    let message = Message::builder().property("at", value.clone()).build("").unwrap();
    assert_eq!(through(message).application_properties().get("at"), Some(&value));
}

/// Rules: U-11.
#[test]
fn maps_lists_and_arrays_are_refused() {
    let described = Value::Described(Box::new((Value::Symbol("d".into()), Value::from(1_u8))));
    for (value, name) in [
        (Value::Map(vec![]), "map"),
        (Value::List(vec![]), "list"),
        (Value::Array(vec![]), "array"),
        (described, "described value"),
    ] {
        let error = Properties::new().application_properties_mut().try_insert("k", value).unwrap_err();
        assert_eq!(error.field(), &Field::ApplicationProperty("k".into()));
        assert_eq!(error.problem(), &Problem::UnsupportedType(name));
    }
}
