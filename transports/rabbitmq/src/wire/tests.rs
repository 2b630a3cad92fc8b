use std::time::Duration;

use bytes::Bytes;
use consign_core::{
    Message,
    message::{Properties, PropertyValue, Value},
    time::Timestamp,
    transport::ErrorKind,
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use super::*;

pub(super) fn stamp() -> Stamp {
    let enqueued = Timestamp::from_millis(1_700_000_000_123);
    Stamp {
        number: Some(7),
        enqueued: Some(enqueued),
        failed: 0,
        time_to_live: None,
        mirrored: false,
        delayed_to: None,
        expiration: Expiration::TimeToLive,
    }
}

fn there_and_back(message: &Message) -> (Message, Facts) {
    let written = write(message, &stamp()).unwrap();
    read(&written.properties, written.payload, |malformed| panic!("{malformed:?}"))
}

#[test]
fn everything_that_a_sender_says_comes_back() {
    let mut message = Message::builder()
        .content_type("text/plain")
        .correlation_id("c")
        .message_id("m")
        .subject("s")
        .reply_to("r")
        .session_id("session")
        .reply_to_session_id("reply")
        .to("t")
        .time_to_live(Duration::from_millis(2_500))
        .scheduled_enqueue_time(Timestamp::from_millis(5))
        .build("body")
        .unwrap();
    let rest = message.properties_mut().pass_through_mut();
    rest.user_id = Some(Bytes::from_static(b"user"));
    rest.content_encoding = Some("gzip".into());
    rest.group_sequence = Some(u32::MAX);
    rest.creation_time = Some(Timestamp::from_millis(9));
    rest.durable = Some(true);
    rest.priority = Some(3);
    rest.force_persistence = true;
    rest.annotations = vec![("x-opt".into(), Value::List(vec![Value::from(1_i32)]))];
    rest.footer = vec![("f".into(), Value::from("v"))];
    let (back, facts) = there_and_back(&message);
    assert!(back.properties() == message.properties() && back.body() == message.body(), "{:?}", back.properties());
    let expires_at = Some(Timestamp::from_millis(1_700_000_002_623));
    let enqueued = stamp().enqueued.unwrap();
    assert_eq!(facts, Facts { number: 7, enqueued, is_stamped: true, failed: 0, expires_at, ..Facts::default() });
}

#[test]
fn text_too_long_for_its_property_is_a_header() {
    let long = "語".repeat(128);
    let message = Message::builder().message_id(long.clone()).subject(long.clone()).correlation_id(long.clone());
    let (back, _) = there_and_back(&message.reply_to(long.clone()).content_type(long.clone()).build("").unwrap());
    for text in [back.message_id(), back.subject(), back.correlation_id(), back.reply_to(), back.content_type()] {
        assert_eq!(text, Some(&*long));
    }
}

/// `CC` would send a copy elsewhere, and `x-delivery-count` is the broker's.
#[test]
fn an_application_property_means_nothing_to_the_broker() {
    let mut message = Message::new("");
    for name in ["CC", "BCC", "x-death", "x-delivery-count", "sb-session-id", "sb-property-x", "x-mine"] {
        message.properties_mut().application_properties_mut().insert(name, PropertyValue::Uuid([1; 16]));
    }
    let written = write(&message, &stamp()).unwrap();
    let headers = written.properties.headers().clone().unwrap();
    for name in ["CC", "BCC", "x-death", "x-delivery-count", "sb-session-id"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert_eq!(*there_and_back(&message).0.application_properties(), *message.application_properties());
}

/// Attacks: 51.
#[test]
fn a_name_that_no_header_can_have_is_refused() {
    let mut properties = Properties::new();
    properties.application_properties_mut().insert("n".repeat(256), true);
    let error = write(&Message::from_parts(properties, "".into()), &stamp()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Serialization);
}

#[test]
fn a_filter_sees_what_has_a_place_of_its_own() {
    let message = Message::builder().subject("s").message_id("m").build("").unwrap();
    let written = write(&message, &Stamp { mirrored: true, ..stamp() }).unwrap();
    let headers = written.properties.headers().clone().unwrap();
    for (name, value) in [(names::SUBJECT, "s"), (names::MESSAGE_ID, "m")] {
        assert_eq!(headers.inner().get(name), Some(&AMQPValue::LongString(value.into())));
    }
}

/// Headers of any type in any place, as anyone may publish them.
#[test]
fn nothing_that_is_published_is_too_bad_to_be_read() {
    let values = || {
        [
            AMQPValue::Void,
            AMQPValue::LongLongInt(-1),
            AMQPValue::LongLongInt(u32::MAX.into()),
            AMQPValue::LongLongInt(i64::MAX),
            AMQPValue::LongString(vec![0xff, 0xfe].into()),
            AMQPValue::ByteArray(vec![0xff; 3].into()),
            AMQPValue::FieldTable(FieldTable::default()),
            AMQPValue::FieldArray(vec![AMQPValue::Void].into()),
            AMQPValue::Timestamp(u64::MAX),
        ]
    };
    let all = [
        names::BODY,
        names::TYPES,
        names::TIME_TO_LIVE,
        names::ENQUEUED_TIME,
        names::SEQUENCE_NUMBER,
        names::FAILED_DELIVERIES,
        names::SESSION_ID,
        names::ANNOTATIONS,
        names::GROUP_SEQUENCE,
        "x-death",
        "foreign",
    ];
    for name in all {
        for value in values() {
            let mut headers = FieldTable::default();
            headers.insert(name.into(), value);
            let raw = BasicProperties::default().with_headers(headers).with_expiration("soon".into());
            let (message, facts) = read(&raw, Bytes::from_static(b"payload"), drop);
            assert_eq!(message.payload(), Some(&b"payload"[..]));
            assert!(facts.failed.checked_add(1).is_some());
        }
    }
}

/// Rules: K-119.
#[test]
fn parts_that_cannot_be_decoded_are_left_out_and_reported() {
    let cut = AMQPValue::ByteArray([0xd1, 0, 0, 0, 9][..].into());
    let cases = [
        (names::BODY, AMQPValue::LongString("amqp-1.0".into()), "at byte 0"),
        (names::ANNOTATIONS, cut.clone(), "at byte 1"),
        (names::FOOTER, cut, "at byte 1"),
        (names::FOOTER, AMQPValue::LongLongInt(1), "the header is not a byte array"),
    ];
    for (name, value, cause) in cases {
        let mut headers = FieldTable::default();
        headers.insert(name.into(), value);
        let raw = BasicProperties::default().with_headers(headers).with_type("s".into());
        let mut reported = Vec::new();
        let (message, _) = read(&raw, Bytes::from_static(b"payload"), |malformed| reported.push(malformed));
        assert_eq!((message.subject(), message.payload()), (Some("s"), Some(&b"payload"[..])));
        assert!(message.pass_through().is_none_or(|rest| rest.annotations.is_empty() && rest.footer.is_empty()));
        let [malformed] = &*reported else { panic!("{reported:?}") };
        assert_eq!(malformed.part, name);
        assert!(malformed.cause.to_string().contains(cause), "{}", malformed.cause);
    }
}

/// Rules: K-119.
#[test]
fn headers_of_another_type_are_left_out_and_reported() {
    let number = AMQPValue::LongLongInt;
    let text = |text: &str| AMQPValue::LongString(text.into());
    let cases = [
        (names::TIME_TO_LIVE, text("soon"), "the header is not a number of milliseconds"),
        (names::TIME_TO_LIVE, number(-1), "the header is not a number of milliseconds"),
        (names::ENQUEUED_TIME, text("now"), "the header is not a time"),
        (names::SEQUENCE_NUMBER, text("7"), "the header is not an integer"),
        (names::FAILED_DELIVERIES, text("7"), "the header is not a count"),
        (names::FAILED_DELIVERIES, number(-7), "the header is not a count"),
        (names::FAILED_DELIVERIES, number(1 << 32), "the header is not a count"),
        (names::MESSAGE_ID_STAMPED, text("true"), "the header is not a boolean"),
        (names::TYPES, text("u8"), "the header is not a table"),
        (names::BODY, AMQPValue::Boolean(true), "the header is not a known encoding"),
        (names::BODY, text("base64"), "the header is not a known encoding"),
    ];
    for (name, value, cause) in cases {
        let mut headers = FieldTable::default();
        headers.insert(name.into(), value);
        headers.insert("tenant".into(), number(7));
        let raw = BasicProperties::default()
            .with_headers(headers)
            .with_message_id("order-1".into())
            .with_expiration("5000".into())
            .with_timestamp(1_700_000_000);
        let mut reported = Vec::new();
        let (message, facts) = read(&raw, Bytes::from_static(b"payload"), |malformed| reported.push(malformed));
        let [malformed] = &*reported else { panic!("{name}: {reported:?}") };
        assert_eq!((malformed.part, &*malformed.cause.to_string()), (name, cause));
        assert_eq!((message.payload(), message.message_id()), (Some(&b"payload"[..]), Some("order-1")));
        assert_eq!(message.application_properties().get("tenant"), Some(&PropertyValue::I64(7)));
        assert!(!message.is_message_id_stamped());
        assert_eq!(message.time_to_live(), Some(Duration::from_secs(5)));
        assert_eq!((facts.number, facts.failed, facts.is_stamped), (0, 0, false));
        assert_eq!(facts.enqueued, Timestamp::from_millis(1_700_000_000_000));
    }
}

/// Rules: K-122.
#[test]
fn a_made_id_takes_the_place_of_headers() {
    let at = Timestamp::from_millis(1_700_000_000_123);
    let number = (1_700_000_000_123_u64 << 20) + 5;
    let fresh = Stamp { number: Some(number), enqueued: Some(at), ..stamp() };
    let headers = |message: &Message, stamp: &Stamp| {
        let written = write(message, stamp).unwrap();
        let names = written.properties.headers().iter().flat_map(|headers| headers.inner().keys());
        let names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
        let (read, facts) = read(&written.properties, written.payload, |malformed| panic!("{malformed:?}"));
        (names, read, facts)
    };
    let (names, made, facts) = headers(&Message::new("x"), &fresh);
    assert!(names.is_empty(), "{names:?}");
    assert!(made.is_message_id_stamped() && made.message_id().is_some());
    assert_eq!((facts.number, facts.enqueued, facts.is_stamped), (number, at, true));

    let own = Message::builder().message_id("own").build("x").unwrap();
    let (names, own, facts) = headers(&own, &fresh);
    assert_eq!(names, [names::SEQUENCE_NUMBER]);
    assert!(!own.is_message_id_stamped());
    assert_eq!((facts.number, facts.enqueued, facts.is_stamped), (number, at, true));

    let later = Timestamp::from_millis(1_700_000_000_124);
    for (other, time, expected) in [
        (number, later, vec![names::ENQUEUED_TIME]),
        (number + 1, at, vec![names::SEQUENCE_NUMBER]),
        (7, later, vec![names::ENQUEUED_TIME, names::SEQUENCE_NUMBER]),
    ] {
        let (names, again, facts) = headers(&made, &Stamp { number: Some(other), enqueued: Some(time), ..stamp() });
        assert_eq!(names, expected);
        assert_eq!((again.message_id(), again.is_message_id_stamped()), (made.message_id(), true));
        assert_eq!((facts.number, facts.enqueued, facts.is_stamped), (other, time, true));
    }
    // Another client sends it again.
    let (names, again, facts) = headers(&made, &Stamp::of_other(Expiration::Never));
    assert_eq!((names, facts.number, facts.is_stamped), (vec![names::SEQUENCE_NUMBER.to_owned()], 0, false));
    assert!(again.is_message_id_stamped());
    // A sender may have set an id of that form.
    let id = made.message_id().unwrap().to_owned();
    let copied = Message::builder().message_id(id.clone()).build("x").unwrap();
    let (_, copied, facts) = headers(&copied, &Stamp { number: Some(number + 1), ..fresh });
    assert_eq!((copied.message_id(), copied.is_message_id_stamped()), (Some(&*id), false));
    assert_eq!(facts.number, number + 1);
}
