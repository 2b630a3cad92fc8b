use bytes::Bytes;
use consign_core::{
    Message,
    message::{MessageBody, Properties, PropertyValue, Value},
    time::Timestamp,
};

use super::*;

fn round_trip(message: &Message) -> Message {
    let Written { properties, body } = write(message).unwrap();
    read(&properties, body.to_vec()).unwrap()
}

/// Rules: U-12.
#[test]
fn every_property_type_comes_back_as_it_was() {
    let mut properties = Properties::new();
    let values = [
        PropertyValue::Null,
        PropertyValue::Bool(true),
        PropertyValue::U8(u8::MAX),
        PropertyValue::U16(u16::MAX),
        PropertyValue::U32(u32::MAX),
        PropertyValue::U64(u64::MAX),
        PropertyValue::I8(i8::MIN),
        PropertyValue::I16(i16::MIN),
        PropertyValue::I32(i32::MIN),
        PropertyValue::I64(i64::MIN),
        PropertyValue::F32(f32::NEG_INFINITY),
        PropertyValue::F64(0.1 + 0.2),
        PropertyValue::Char('\0'),
        PropertyValue::String("a\0b \u{1f980} \"\\".into()),
        PropertyValue::Decimal([7; 16]),
        PropertyValue::Uuid([9; 16]),
        PropertyValue::DateTime(Timestamp::from_millis(-1)),
        PropertyValue::DateTimeOffset(621_355_968_000_000_000),
        PropertyValue::TimeSpan(-1),
        PropertyValue::Uri("urn:a".into()),
        PropertyValue::Bytes(Bytes::from_static(b"\0\xff")),
    ];
    for (index, value) in values.into_iter().enumerate() {
        properties.application_properties_mut().insert(format!("k{index}"), value);
    }
    let message = Message::from_parts(properties, MessageBody::empty());
    assert_eq!(round_trip(&message).properties(), message.properties());
}

/// Rules: M-01.
/// All of M-01 to M-25.
#[test]
fn every_property_comes_back() {
    let mut properties = Properties::new();
    properties.set_content_type("text/plain").set_correlation_id("c").set_subject("s").set_reply_to("r").set_to("t");
    properties.set_message_id("m").unwrap().set_session_id("").unwrap().set_partition_key("").unwrap();
    properties.set_reply_to_session_id("rs").unwrap().set_transaction_partition_key("tp").unwrap();
    properties.set_time_to_live(std::time::Duration::MAX.min(std::time::Duration::from_millis(u64::MAX))).unwrap();
    properties.set_scheduled_enqueue_time(Timestamp::MAX);
    let rest = properties.pass_through_mut();
    rest.user_id = Some(Bytes::from_static(b"\0u"));
    rest.priority = Some(4);
    rest.force_persistence = true;
    rest.annotations = vec![("x-a".into(), Value::Map(vec![(Value::Symbol("k".into()), Value::from(1_u8))]))];
    rest.footer = vec![("f".into(), Value::Described(Box::new((Value::from(1_u64), Value::List(vec![])))))];
    let message = Message::from_parts(properties, MessageBody::empty());
    assert_eq!(round_trip(&message).properties(), message.properties());
}

/// Rules: B-01.
/// All of B-01 to B-03.
#[test]
fn every_kind_of_body_comes_back() {
    for body in [
        MessageBody::empty(),
        MessageBody::from("abc"),
        MessageBody::sections(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"\0")]),
        MessageBody::from(Value::Array(vec![Value::from(1_i32), Value::from(2_i32)])),
        MessageBody::Sequence([vec![Value::from("a")], vec![]].into()),
    ] {
        let message = Message::new(body);
        assert_eq!(round_trip(&message).body(), message.body());
    }
}

#[test]
fn a_value_that_could_not_be_read_again_is_not_written() {
    let nested = |levels: usize| (1..levels).fold(Value::from(1), |inner, _| Value::List(vec![inner]));
    let fits = Message::new(nested(limits::VALUE_LEVELS));
    assert_eq!(round_trip(&fits).body(), fits.body());
    assert_eq!(write(&Message::new(nested(limits::VALUE_LEVELS + 1))).unwrap_err(), Unwritable::TooDeep);
    let mut pairs = Message::new("");
    pairs.properties_mut().pass_through_mut().footer = vec![("f".into(), nested(limits::VALUE_LEVELS))];
    assert_eq!(round_trip(&pairs).properties(), pairs.properties());
}

#[test]
fn rows_that_no_version_has_written_are_an_error() {
    for (properties, body) in [
        ("", &b""[..]),
        ("{\"message_id\":\"\"}", b""),
        ("{\"application\":{\"k\":{\"bytes\":\"0\"}}}", b""),
        ("{\"application\":{\"k\":{\"uuid\":\"00\"}}}", b""),
        ("{\"body\":{\"sections\":[2]}}", b"a"),
        ("{\"body\":\"value\"}", b"{"),
        // Types of a later version.
        ("{\"application\":{\"k\":{\"interval\":1}}}", b""),
        ("{\"body\":\"table\"}", b"{}"),
        ("{\"body\":\"value\"}", b"{\"simple\":{\"interval\":1}}"),
        ("{\"body\":\"value\"}", b"{\"set\":[]}"),
    ] {
        assert!(read(properties, body.to_vec()).is_err(), "{properties}");
    }
}
