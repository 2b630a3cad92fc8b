//! Messages with every property, every kind of value and every kind of body. Golden files have them, so they stay as they are:
//! what a later version adds is a sample of its own, behind the others.

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Message,
    message::{MessageBody, PropertyValue, Value, limits},
    time::Timestamp,
};

/// All sixteen bytes of a decimal or a UUID.
const SIXTEEN: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x7f, 0x80, 0xff];

/// A time that has passed.
const PASSED: Timestamp = Timestamp::from_millis(1_600_000_000_001);

/// Returns the samples that every transport takes. Each has an id of its own.
///
/// # Panics
///
/// Never: they are valid.
#[must_use]
pub fn all() -> Vec<Message> {
    let mut all = vec![every_property(), every_simple_property(), odd_keys(), long_texts()];
    all.extend(bodies().into_iter().enumerate().map(|(nth, body)| with_id(&format!("body {nth:02}"), body)));
    all
}

/// Returns the samples with a time to live, and with a scheduled time that has passed.
///
/// # Panics
///
/// Never: they are valid.
#[must_use]
pub fn timed() -> Vec<Message> {
    let mut lives = with_id("time to live", "a");
    // The longest of RabbitMQ's timers.
    let valid = lives.properties_mut().set_time_to_live(Duration::from_millis(u32::MAX.into())).is_ok();
    assert!(valid, "a time to live");
    let mut scheduled = with_id("scheduled before", "b");
    scheduled.properties_mut().set_scheduled_enqueue_time(PASSED);
    vec![lives, scheduled]
}

/// Returns a sample without a `MessageId`.
#[must_use]
pub fn without_id() -> Message {
    Message::new("without an id")
}

fn with_id(id: &str, body: impl Into<MessageBody>) -> Message {
    Message::builder().message_id(id.to_owned()).build(body).expect("a valid id")
}

fn every_property() -> Message {
    let mut message = Message::builder()
        .content_type("application/json; charset=\"utf-8\"")
        .message_id("every property")
        .correlation_id("c é €")
        .subject("s/1")
        .reply_to("replies/In")
        .to("t")
        .session_id("p")
        .reply_to_session_id("r é")
        .partition_key("p")
        .transaction_partition_key("p")
        .build(vec![0, 0xff, 0x80])
        .expect("a valid message");
    let rest = message.properties_mut().pass_through_mut();
    rest.user_id = Some(Bytes::from_static(&[0, 0xff]));
    rest.content_encoding = Some("gzip".into());
    rest.group_sequence = Some(u32::MAX);
    rest.creation_time = Some(Timestamp::MAX);
    (rest.durable, rest.priority, rest.first_acquirer) = (Some(false), Some(9), Some(true));
    rest.force_persistence = true;
    let values = every_value().into_iter().enumerate();
    rest.annotations = values.map(|(nth, value)| (format!("x-opt-{nth}").into(), value)).collect();
    rest.footer = vec![("f é".into(), Value::from(1)), ("".into(), Value::Symbol("s".into()))];
    message
}

fn every_simple_property() -> Message {
    let mut message = with_id("every simple property", "");
    for (nth, value) in every_simple_value().into_iter().enumerate() {
        message.properties_mut().application_properties_mut().insert(format!("key {nth:02}"), value);
    }
    message
}

/// Keys that mean something to a server or to the headers of other clients, and texts that headers cannot hold.
fn odd_keys() -> Message {
    let mut message = with_id(" odd\tkeys %", "");
    message.properties_mut().set_subject(" \u{1}%20 ").set_correlation_id("").set_to("\u{a0}");
    let application = message.properties_mut().application_properties_mut();
    for key in ["Sb-To", "sb-to", "CC", "x-death", "Nats-Msg-Id", "a.b*c>", "ключ", " k ", "a:b\r\n", "%", "=", "\\\""]
    {
        application.insert(key, key);
    }
    application.insert("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    application.insert("ce-subject", "50% é");
    application.insert("ce-number", 5);
    application.insert("Content-Type", "not/the-property");
    message
}

/// Texts that are longer than a short string of AMQP 0-9-1.
fn long_texts() -> Message {
    let long = |from: &str| from.repeat(300);
    let mut message = with_id(&"€".repeat(limits::ID), "");
    let properties = message.properties_mut();
    properties.set_content_type(long("c")).set_correlation_id(long("i")).set_subject(long("é"));
    properties.set_reply_to(long("r")).set_to(long("t"));
    properties.application_properties_mut().insert("long", long("🦀"));
    properties.pass_through_mut().content_encoding = Some(long("e").into());
    message
}

/// Every type of a simple value, with the extremes of its numbers.
#[must_use]
pub fn every_simple_value() -> Vec<PropertyValue> {
    let mut values = vec![PropertyValue::Null, true.into(), false.into()];
    values.extend([u8::MIN.into(), u8::MAX.into(), 0x80_u16.into(), u16::MAX.into()]);
    values.extend([0_u32.into(), u32::MAX.into(), 0_u64.into(), (1_u64 << 63).into(), u64::MAX.into()]);
    values.extend([i8::MIN.into(), i8::MAX.into(), i16::MIN.into(), i16::MAX.into()]);
    values.extend([i32::MIN.into(), i32::MAX.into(), 0_i64.into(), i64::MIN.into(), i64::MAX.into()]);
    // The canonical NaN: a text has no other.
    values.extend(
        [0x7fc0_0000, 0x7f80_0000, 0xff80_0000, 0x8000_0000, 1, 0x7f7f_ffff, 0x3dcc_cccd]
            .map(|bits: u32| f32::from_bits(bits).into()),
    );
    values.extend(
        [0x7ff8 << 48, 0x7ff0 << 48, 0xfff0 << 48, 1 << 63, 1, 0x7fef_ffff_ffff_ffff, 0x3fd3_3333_3333_3334]
            .map(|bits: u64| f64::from_bits(bits).into()),
    );
    values.extend(['\0', 'é', '\u{10ffff}', '%', ' '].map(Into::into));
    values.extend(["", "a \"text\" of\n\\ \u{0}\u{7f}€ 🦀 characters ", "i32:5", "0x10", "null"].map(Into::into));
    values.extend([PropertyValue::Decimal(SIXTEEN), PropertyValue::Uuid(SIXTEEN), PropertyValue::Uuid([0; 16])]);
    values.extend([-1, 0, 1_700_000_000_123, i64::MIN, i64::MAX].map(|millis| Timestamp::from_millis(millis).into()));
    values.extend([638_000_000_000_000_001, i64::MIN, i64::MAX].map(PropertyValue::DateTimeOffset));
    values.extend([-1, i64::MIN, i64::MAX].map(PropertyValue::TimeSpan));
    values.extend(["amqp://host/é?a=b%20c", ""].map(|text| PropertyValue::Uri(text.into())));
    values.extend([&b"\0\x80\xff"[..], b""].map(|bytes| Bytes::from_static(bytes).into()));
    values
}

/// Every kind of value that is not simple, and values in it.
#[must_use]
pub fn every_value() -> Vec<Value> {
    let simple: Vec<Value> = every_simple_value().into_iter().map(Value::Simple).collect();
    let named = |text: &str| Value::Symbol(text.into());
    vec![
        named("a:symbol é"),
        Value::List(simple.clone()),
        Value::List(vec![]),
        Value::Map(simple.iter().map(|value| (value.clone(), named(""))).collect()),
        Value::Map(vec![(Value::from("k"), Value::Map(vec![])), (Value::from("k"), Value::List(vec![]))]),
        Value::Array(vec![1.into(), i32::MIN.into()]),
        Value::Array(vec![]),
        Value::Described(Box::new((named("d"), Value::List(simple)))),
        Value::Described(Box::new((Value::from(1_u64), Value::Described(Box::new((2_u64.into(), 3_u64.into())))))),
    ]
}

/// As many levels as a value may have, of each kind.
fn deep() -> Value {
    (1..limits::VALUE_LEVELS).fold(Value::from("deep"), |inner, level| match level % 4 {
        0 => Value::List(vec![inner]),
        1 => Value::Array(vec![inner]),
        2 => Value::Map(vec![(Value::from("k"), inner)]),
        _ => Value::Described(Box::new((Value::Symbol("d".into()), inner))),
    })
}

fn bodies() -> Vec<MessageBody> {
    let mut bodies = vec![
        MessageBody::empty(),
        MessageBody::from("text é"),
        MessageBody::from(vec![0, 0xff]),
        MessageBody::sections(vec![Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(&[0xff])]),
        MessageBody::sections(vec![Bytes::new(), Bytes::new()]),
        MessageBody::Sequence([vec![], every_value()].into()),
        MessageBody::Sequence([vec![Value::from(1)]].into()),
        MessageBody::from(deep()),
    ];
    bodies.extend(every_value().into_iter().map(MessageBody::from));
    bodies.extend(every_simple_value().into_iter().map(|value| MessageBody::from(Value::Simple(value))));
    bodies
}
