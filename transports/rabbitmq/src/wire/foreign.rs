//! Tests of messages of other clients, and of messages that they read.

use bytes::Bytes;
use consign_core::{
    Message,
    message::{Properties, PropertyValue, TraceContext, Value},
    time::Timestamp,
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, DecimalValue, FieldTable},
};

use super::{tests::stamp, *};

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

fn decoded(properties: &BasicProperties) -> (Message, Facts) {
    read(properties, Bytes::from_static(b"body"), |malformed| panic!("{malformed:?}"))
}

fn text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.application_properties().get(name).and_then(PropertyValue::as_str)
}

/// Rules: K-110.
#[test]
fn the_properties_of_amqp_are_read() {
    let raw = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_message_id("m".into())
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_type("t".into())
        .with_app_id("app".into())
        .with_user_id("guest".into())
        .with_priority(3)
        .with_timestamp(1_700_000_000)
        .with_expiration("60000".into());
    let (message, facts) = decoded(&raw);
    assert_eq!((message.content_type(), message.message_id()), (Some("application/json"), Some("m")));
    assert_eq!((message.correlation_id(), message.reply_to(), message.subject()), (Some("c"), Some("r"), Some("t")));
    assert_eq!(message.time_to_live(), Some(std::time::Duration::from_secs(60)));
    assert_eq!(text(&message, "app_id"), Some("app"));
    let rest = message.pass_through().unwrap();
    assert_eq!((rest.content_encoding.as_deref(), rest.priority), (Some("utf-8"), Some(3)));
    assert_eq!(rest.user_id.as_deref(), Some(&b"guest"[..]));
    let at = Timestamp::from_millis(1_700_000_000_000);
    assert_eq!((rest.creation_time, facts.enqueued, facts.is_stamped), (Some(at), at, false));
    // A copy has the same.
    let copy = again(&message, &stamp(), &raw, Bytes::from_static(b"body")).unwrap();
    assert_eq!(copy.properties.app_id(), raw.app_id());
    assert_eq!(decoded(&copy.properties).0.properties(), message.properties());
}

/// Rules: K-110.
/// `Date.now()` of JavaScript is in milliseconds.
#[test]
fn a_timestamp_in_milliseconds_is_read_as_such_and_stays_on_a_copy() {
    for (raw, millis) in [
        (1_700_000_000, 1_700_000_000_000),
        (1_700_000_000_123, 1_700_000_000_123),
        (100_000_000_000, 100_000_000_000_000),
        (100_000_000_001, 100_000_000_001),
        (u64::MAX, i64::MAX),
    ] {
        let raw = BasicProperties::default().with_timestamp(raw);
        let (message, facts) = decoded(&raw);
        let at = Timestamp::from_millis(millis);
        assert_eq!((message.pass_through().unwrap().creation_time, facts.enqueued), (Some(at), at));
        let later = Stamp { enqueued: Some(Timestamp::from_millis(1_800_000_000_000)), ..stamp() };
        let copy = again(&message, &later, &raw, Bytes::new()).unwrap();
        assert_eq!(copy.properties.timestamp(), raw.timestamp());
        let (copied, facts) = decoded(&copy.properties);
        assert_eq!(copied.pass_through().unwrap().creation_time, Some(at));
        assert_eq!((Some(facts.enqueued), facts.is_stamped), (later.enqueued, true));
    }
}

/// Rules: K-111.
#[test]
fn a_property_of_amqp_wins_over_the_header_but_for_the_message_id() {
    let headers = table(vec![
        ("sb-content-type", long("text/plain")),
        ("sb-correlation-id", long("old")),
        ("sb-subject", long("old")),
        ("sb-reply-to", long("old")),
        ("sb-message-id", long("ours")),
        ("sb-content-encoding", long("gzip")),
        ("sb-user-id", AMQPValue::ByteArray(b"claimed"[..].into())),
    ]);
    let raw = BasicProperties::default()
        .with_headers(headers.clone())
        .with_content_type("application/json".into())
        .with_correlation_id("c".into())
        .with_type("t".into())
        .with_reply_to("r".into())
        .with_message_id("random".into())
        .with_content_encoding("zstd".into())
        .with_user_id("guest".into());
    let (message, _) = decoded(&raw);
    assert_eq!((message.content_type(), message.message_id()), (Some("application/json"), Some("ours")));
    assert_eq!((message.correlation_id(), message.subject(), message.reply_to()), (Some("c"), Some("t"), Some("r")));
    let rest = message.pass_through().unwrap();
    assert_eq!((rest.content_encoding.as_deref(), rest.user_id.as_deref()), (Some("zstd"), Some(&b"guest"[..])));
    let (message, _) = decoded(&BasicProperties::default().with_headers(headers));
    assert_eq!((message.content_type(), message.subject()), (Some("text/plain"), Some("old")));
}

/// Rules: K-112.
#[test]
fn every_type_of_header_is_read_and_stays_on_a_copy() {
    let nested = table(vec![("k", AMQPValue::FieldArray(vec![AMQPValue::Void].into()))]);
    let headers = table(vec![
        ("__TypeId__", long("com.example.Order")),
        ("void", AMQPValue::Void),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: (-1_250_i32).cast_unsigned() })),
        ("time", AMQPValue::Timestamp(1_700_000_000)),
        ("latin", AMQPValue::LongString(vec![0xe9].into())),
        ("traceparent", AMQPValue::ByteArray(PARENT.as_bytes().into())),
        ("timelimit", AMQPValue::FieldArray(vec![AMQPValue::Void, AMQPValue::LongInt(5)].into())),
        ("stamps", AMQPValue::FieldTable(nested)),
        ("empty", AMQPValue::FieldTable(FieldTable::default())),
    ]);
    let raw = BasicProperties::default().with_headers(headers.clone()).with_message_id("m".into());
    let (message, facts) = decoded(&raw);
    assert!(!facts.exceeds_limits);
    assert_eq!(text(&message, "__TypeId__"), Some("com.example.Order"));
    assert_eq!(message.application_properties().get("void"), Some(&PropertyValue::Null));
    // -1250 by a hundred: the sign, an exponent of -2 on 6,176, and the coefficient.
    let mut decimal = [0; 16];
    (decimal[0], decimal[1], decimal[14], decimal[15]) = (0xb0, 0x3c, 0x04, 0xe2);
    assert_eq!(message.application_properties().get("decimal"), Some(&PropertyValue::Decimal(decimal)));
    let at = Timestamp::from_millis(1_700_000_000_000);
    assert_eq!(message.application_properties().get("time"), Some(&PropertyValue::DateTime(at)));
    assert_eq!(message.application_properties().get("latin"), Some(&PropertyValue::Bytes(Bytes::from_static(b"\xe9"))));
    assert_eq!(TraceContext::of(message.properties()).unwrap().unwrap().to_string(), PARENT);
    let list = Value::List(vec![Value::from(PropertyValue::Null), Value::from(5_i32)]);
    let inner = Value::List(vec![Value::from(PropertyValue::Null)]);
    let map = Value::Map(vec![(Value::from("k"), inner)]);
    let annotations = [("empty".into(), Value::Map(vec![])), ("stamps".into(), map), ("timelimit".into(), list)];
    assert_eq!(message.pass_through().unwrap().annotations, annotations);

    let copy = again(&message, &stamp(), &raw, Bytes::new()).unwrap();
    let written = copy.properties.headers().as_ref().unwrap();
    for (name, value) in &headers {
        assert_eq!(written.inner().get(name.as_str()), Some(value), "{name}");
    }
    assert_eq!(decoded(&copy.properties).0.properties(), message.properties());
    // A new message has arrays and tables in both forms.
    let sent = write(&message, &stamp()).unwrap();
    let written = sent.properties.headers().as_ref().unwrap();
    for name in ["timelimit", "stamps", "empty"] {
        assert_eq!(written.inner().get(name), headers.inner().get(name), "{name}");
    }
    assert_eq!(decoded(&sent.properties).0.properties(), message.properties());
}

/// Rules: K-112.
#[test]
fn a_changed_header_takes_the_place_of_its_annotation() {
    let mut message = Message::builder().message_id("m").build("").unwrap();
    let typed = Value::List(vec![Value::from(PropertyValue::Uuid([1; 16]))]);
    let plain = Value::List(vec![Value::from(1_i32)]);
    message.properties_mut().pass_through_mut().annotations =
        vec![("z".into(), plain), ("y".into(), typed.clone()), ("a".into(), typed)];
    let written = write(&message, &stamp()).unwrap();
    assert_eq!(decoded(&written.properties).0.properties(), message.properties());
    let copy = again(&message, &stamp(), &written.properties, Bytes::new()).unwrap();
    assert_eq!(decoded(&copy.properties).0.properties(), message.properties());
    let mut headers = written.properties.headers().clone().unwrap();
    headers.insert("a".into(), AMQPValue::FieldArray(vec![AMQPValue::LongInt(2)].into()));
    let (changed, _) = decoded(&written.properties.with_headers(headers));
    assert_eq!(changed.pass_through().unwrap().annotations[2], ("a".into(), Value::List(vec![Value::from(2_i32)])));
}

/// Rules: K-113.
#[test]
fn headers_that_cannot_be_properties_are_not_refused() {
    let mut deep = AMQPValue::Void;
    for _ in 0..200 {
        deep = AMQPValue::FieldArray(vec![deep].into());
    }
    let raw = BasicProperties::default()
        .with_message_id("x".repeat(200).as_str().into())
        .with_headers(table(vec![("deep", deep), ("a", long("1"))]));
    let (message, facts) = decoded(&raw);
    assert_eq!((message.message_id(), text(&message, "a")), (None, Some("1")));
    assert_eq!(text(&message, "message_id"), Some(&*"x".repeat(200)));
    assert!(message.pass_through().is_none() && !facts.exceeds_limits);
    let copy = again(&message, &stamp(), &raw, Bytes::new()).unwrap();
    assert!(copy.properties.headers().as_ref().unwrap().contains_key("deep"));
    let (empty, _) = decoded(&BasicProperties::default().with_message_id("".into()));
    assert_eq!((empty.message_id(), empty.application_properties().len()), (None, 0));
}

/// Rules: K-114.
#[test]
fn headers_beyond_the_limits_stay_on_a_copy_with_a_reason() {
    let large = "x".repeat(60_000);
    let raw = BasicProperties::default().with_headers(table(vec![
        ("x-exception-stacktrace", long(&large)),
        ("x-other", long(&large)),
        ("x-third", long(&large)),
        ("traceparent", long(PARENT)),
    ]));
    let (mut message, facts) = decoded(&raw);
    assert!(facts.exceeds_limits);
    assert_eq!((message.application_properties().len(), text(&message, "traceparent")), (1, Some(PARENT)));
    message.properties_mut().application_properties_mut().insert(Properties::DEAD_LETTER_REASON, "HeaderSizeExceeded");
    let copy = again(&message, &stamp(), &raw, Bytes::new()).unwrap();
    let headers = copy.properties.headers().clone().unwrap();
    // A third one would be more than a frame.
    assert_eq!(
        ["x-exception-stacktrace", "x-other", "x-third"].map(|name| headers.contains_key(name)),
        [false, true, true]
    );
    let (dead, facts) = decoded(&copy.properties);
    assert!(facts.exceeds_limits);
    assert_eq!((dead.dead_letter_reason(), text(&dead, "traceparent")), (Some("HeaderSizeExceeded"), Some(PARENT)));
}

/// Rules: K-112.
#[test]
fn a_header_with_the_prefix_of_this_crate_is_read_and_stays_on_copies() {
    let nested = AMQPValue::FieldTable(table(vec![("id", AMQPValue::LongInt(7))]));
    let headers = table(vec![("sb-tenant", long("x")), ("sb-shard", AMQPValue::LongInt(3)), ("sb-owner", nested)]);
    let raw = BasicProperties::default().with_headers(headers.clone());
    let (mut message, _) = decoded(&raw);
    assert_eq!(text(&message, "sb-tenant"), Some("x"));
    assert_eq!(message.application_properties().get("sb-shard"), Some(&PropertyValue::I32(3)));
    assert_eq!(message.pass_through().unwrap().annotations[0].0, "sb-owner");

    let copied = |message: &Message| {
        let copy = again(message, &stamp(), &raw, Bytes::from_static(b"body")).unwrap().properties;
        assert_eq!(decoded(&copy).0.application_properties(), message.application_properties());
        copy.headers().clone().unwrap()
    };
    let copy = copied(&message);
    for (name, value) in headers.inner() {
        assert_eq!(copy.inner().get(name), Some(value), "{name}");
        assert!(!copy.contains_key(&format!("sb-property-{name}")), "{name} is written once");
    }
    message.properties_mut().application_properties_mut().insert("sb-tenant", "changed");
    let copy = copied(&message);
    assert_eq!(copy.inner().get("sb-property-sb-tenant"), Some(&long("changed")));
    assert!(!copy.contains_key("sb-tenant"), "a settlement has changed it");
}

/// Rules: K-110, K-111.
/// Some clients set each property, and leave those empty that the program did not set.
#[test]
fn an_empty_property_of_amqp_is_absent() {
    let empty = BasicProperties::default()
        .with_content_type("".into())
        .with_message_id("".into())
        .with_reply_to("".into())
        .with_type("".into());
    let (message, _) = decoded(&empty);
    assert_eq!(message.properties(), &Properties::new());

    // A CorrelationId may be empty. Earlier versions wrote that as the property.
    let (message, _) = decoded(&BasicProperties::default().with_correlation_id("".into()));
    assert_eq!(message.correlation_id(), Some(""));

    let headers = ["sb-content-type", "sb-reply-to", "sb-subject"];
    let headers = table(headers.map(|name| (name, long("ours"))).to_vec());
    let (message, _) = decoded(&empty.with_headers(headers));
    assert_eq!([message.content_type(), message.reply_to(), message.subject()], [Some("ours"); 3]);

    // Those of a sender of this crate are received.
    let sent = Message::builder().content_type("").correlation_id("").reply_to("").subject("").build("").unwrap();
    let written = write(&sent, &Stamp::of_other(Expiration::Never)).unwrap();
    assert_eq!(decoded(&written.properties).0.properties(), sent.properties());
}

/// Rules: K-112.
#[test]
fn only_names_that_this_crate_escapes_are_read_without_the_prefix() {
    let headers = table(vec![
        ("foo", long("own")),
        ("sb-property-foo", long("of another")),
        ("sb-property-CC", long("elsewhere")),
        ("sb-property-sb-property-x", long("x")),
    ]);
    let raw = BasicProperties::default().with_headers(headers.clone());
    let (message, _) = decoded(&raw);
    for (name, value) in
        [("foo", "own"), ("sb-property-foo", "of another"), ("CC", "elsewhere"), ("sb-property-x", "x")]
    {
        assert_eq!(text(&message, name), Some(value), "{name}");
    }
    let copy = again(&message, &stamp(), &raw, Bytes::new()).unwrap().properties;
    let written = copy.headers().clone().unwrap();
    for (name, value) in headers.inner() {
        assert_eq!(written.inner().get(name), Some(value), "{name}");
    }
    assert_eq!(decoded(&copy).0.application_properties(), message.application_properties());
}
