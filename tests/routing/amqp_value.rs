//! Bodies that are AMQP values, as arguments of a handler.

use consign::{
    Message, MessageExt,
    amqp_value::to_body,
    codecs::{Chosen, Codecs, Decoded, Json, OneOf, Protobuf, Reading, Text},
    message::{MessageBody, PropertyValue, Value},
    routing::{Body, State},
    settlement::{DeadLetter, DeadLetterReason, Disposition},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::support::{Order, Seen, codecs, dead, handle, note, taken};

async fn order(State(seen): State<Seen>, Body(order): Body<Order>) {
    note(&seen, format!("{} {}", order.id, order.sku));
}

fn map(pairs: Vec<(&str, Value)>) -> Value {
    Value::Map(pairs.into_iter().map(|(name, value)| (Value::from(name), value)).collect())
}

/// Rules: P-67.
#[tokio::test]
async fn a_map_a_list_and_a_sequence_are_decoded_as_a_struct() {
    let seen = Seen::default();
    let symbol = |name: &str| Value::Symbol(name.into());
    for body in [
        MessageBody::from(map(vec![("id", 7_u8.into()), ("sku", "nail".into()), ("more", Value::List(vec![]))])),
        Value::Map(vec![(symbol("sku"), symbol("nail")), (symbol("id"), 7_i64.into())]).into(),
        Value::List(vec![7_u32.into(), "nail".into()]).into(),
        Value::Described(Box::new((symbol("order"), Value::List(vec![7_u32.into(), "nail".into()])))).into(),
        MessageBody::Sequence([vec![7_u32.into()], vec![], vec!["nail".into()]].into()),
        to_body(&Order { id: 7, sku: "nail".into() }).unwrap(),
    ] {
        // A declared ContentType does not choose the codec.
        for message in [
            Message::new(body.clone()),
            Message::builder().content_type("application/json").build(body.clone()).unwrap(),
            Message::builder().content_type("image/png").build(body).unwrap(),
        ] {
            assert_eq!(handle(codecs(), &seen, order, message).await, Disposition::Complete);
            assert_eq!(taken(&seen), ["7 nail"]);
        }
    }
}

/// Rules: P-67.
#[test]
fn each_simple_value_is_decoded_as_its_type() {
    fn read<'m, T: Deserialize<'m>>(message: &'m Message) -> T {
        message.decode(&codecs()).unwrap()
    }
    let uuid = Message::new(Value::Simple(PropertyValue::Uuid([0xab; 16])));
    assert_eq!(read::<String>(&uuid), "abababab-abab-abab-abab-abababababab");
    assert_eq!(read::<[u8; 16]>(&uuid), [0xab; 16]);
    assert!(read::<bool>(&Message::new(Value::from(true))));
    assert_eq!(read::<u64>(&Message::new(Value::from(7_i8))), 7);
    assert_eq!(read::<f64>(&Message::new(Value::from(1.5_f32))).to_bits(), 1.5_f64.to_bits());
    assert_eq!(read::<char>(&Message::new(Value::from('ß'))), 'ß');
    let at = Timestamp::from_millis(1_700_000_000_500);
    assert_eq!(read::<Timestamp>(&Message::new(Value::from(at))), at);
    let ticks = 621_355_968_000_000_000 + 1_700_000_000_500 * 10_000;
    assert_eq!(read::<Timestamp>(&Message::new(Value::Simple(PropertyValue::DateTimeOffset(ticks)))), at);
    assert_eq!(read::<&str>(&Message::new(Value::Symbol("name".into()))), "name");
}

/// Rules: P-65, P-66, P-68.
#[test]
fn a_binary_a_string_and_null_are_bytes_for_the_codecs() {
    let json = Message::builder().content_type("application/json").build(Value::from("[1]")).unwrap();
    assert_eq!(json.decode_traced::<Vec<u8>, _>(&codecs()).unwrap().by, "json");
    let binary = Value::from(bytes::Bytes::from_static(b"\x91\x01"));
    let binary = Message::builder().content_type("application/msgpack").build(binary).unwrap();
    assert_eq!(binary.decode_traced::<Vec<u8>, _>(&codecs()).unwrap().by, "msgpack");
    let null = Message::new(Value::from(PropertyValue::Null));
    assert_eq!(null.decode::<Option<Order>, _>(&codecs()).unwrap(), None);
    assert!(null.decode::<Order, _>(&codecs()).is_err());
}

/// Rules: P-66, P-15.
#[test]
fn a_string_without_a_content_type_is_text_for_a_set_that_reads_text() {
    let with_text = Codecs::builder().with(Json::default()).with(Text).build().unwrap();
    for message in [
        Message::new(Value::from("[1]")),
        Message::builder().content_type("").build(Value::from("[1]")).unwrap(),
        Message::builder().content_type(" ").build(Value::from("[1]")).unwrap(),
    ] {
        assert_eq!(message.decode_traced::<String, _>(&with_text).unwrap().by, "text");
        // Without a codec for text it is the default codec's.
        let decoded = message.decode_traced::<Vec<u8>, _>(&codecs()).unwrap();
        assert_eq!((decoded.by, decoded.chosen), ("json", Chosen::Default));
    }
}

/// Rules: P-67, P-44.
#[tokio::test]
async fn a_value_of_another_type_is_a_dead_letter_that_names_the_path() {
    #[derive(Deserialize)]
    struct Orders {
        #[serde(rename = "orders")]
        _orders: Vec<Order>,
    }
    let seen = Seen::default();
    let orders = |Body(_): Body<Orders>, State(seen): State<Seen>| async move { note(&seen, "called") };
    let item = |id: Value| map(vec![("id", id), ("sku", "canary".into())]);
    let body = map(vec![("orders", Value::List(vec![item(1_u8.into()), item("canary".into())]))]);
    let Disposition::DeadLetter(dead_letter) = handle(codecs(), &seen, orders, Message::new(body)).await else {
        panic!("a dead letter")
    };
    assert_eq!(dead_letter.reason, DeadLetterReason::DeserializationFailed);
    assert_eq!(
        dead_letter.description,
        "amqp-value: the value is not of the expected type: expected u64, found text at `orders[1].id`"
    );
    assert!(!format!("{dead_letter:?}").contains("canary"));
    let changes = format!("{:?}", dead_letter.changes);
    assert!(changes.contains(DeadLetter::TRAIL), "{changes}");
    assert!(taken(&seen).is_empty(), "the handler is not called");

    let deep = (0..100).fold(Value::from(1), |value, _| Value::List(vec![value]));
    let (reason, _) = dead(handle(codecs(), &seen, order, Message::new(Value::List(vec![deep.clone()]))).await);
    assert_eq!(reason, DeadLetterReason::DeserializationFailed, "the type refuses before the limit");
    let ignored = |Body(_): Body<serde_json::Value>, State(seen): State<Seen>| async move { note(&seen, "called") };
    let (reason, _) = dead(handle(codecs(), &seen, ignored, Message::new(deep)).await);
    assert_eq!(reason, DeadLetterReason::LimitExceeded);
}

/// Rules: P-67.
#[test]
fn the_record_and_the_observer_name_the_codec() {
    let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&log);
    let codecs = Codecs::builder()
        .with(Json::default())
        .allow(["application/json"])
        .observe(move |reading: &Reading<'_>| seen.lock().unwrap().push((reading.codec, reading.outcome())))
        .build()
        .unwrap();
    let value = Message::new(Value::from(7_u8));
    let decoded: Decoded<u8> = value.decode_traced(&codecs).unwrap();
    assert_eq!((decoded.value, decoded.by, decoded.chosen), (7, "amqp-value", Chosen::Exact));
    let failure = value.decode::<String, _>(&codecs).unwrap_err();
    assert_eq!(failure.failure().unwrap().trail().to_string(), "amqp-value;exact;Type;;;a string;integer");
    let declared = Message::builder().content_type("image/png").build(Value::from(7_u8)).unwrap();
    let refused = declared.decode::<u8, _>(&codecs).unwrap_err();
    assert_eq!(refused.reason(), DeadLetterReason::ContentTypeNotAllowed);
    assert_eq!(
        *log.lock().unwrap(),
        [(Some("amqp-value"), "ok"), (Some("amqp-value"), "DeserializationFailed"), (None, "ContentTypeNotAllowed")]
    );
}

/// Rules: P-67.
#[test]
fn types_with_a_format_of_their_own_refuse_a_value_and_one_of_several_types_reads_it() {
    let message = Message::new(map(vec![("id", 7_u8.into()), ("sku", "nail".into())]));
    let refused = message.decode::<Protobuf<()>, _>(&codecs()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "amqp-value: the value is not of the expected type: the type has a format of its own, and the body is not bytes"
    );
    let read: OneOf<(Vec<u8>, Order)> = message.decode(&codecs()).unwrap();
    assert_eq!(read.refused.len(), 1);
    assert!(matches!(read.value, consign::codecs::Of2::Second(Order { id: 7, .. })));
}

/// Rules: P-69.
#[test]
fn a_body_that_is_written_as_a_value_is_read_as_it_was() {
    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Everything {
        numbers: (u8, i16, u32, i64, f32),
        text: String,
        nested: Vec<Option<Order>>,
        at: Timestamp,
    }
    let value = Everything {
        numbers: (1, -2, 3, -4, 0.5),
        text: "größe".into(),
        nested: vec![None, Some(Order { id: 7, sku: "nail".into() })],
        at: Timestamp::from_millis(5),
    };
    let message = Message::new(to_body(&value).unwrap());
    assert_eq!(message.content_type(), None);
    let MessageBody::Value(body) = message.body() else { panic!("a value") };
    let Value::Map(pairs) = &**body else { panic!("a map") };
    let numbers = [1_u8.into(), (-2_i16).into(), 3_u32.into(), (-4_i64).into(), 0.5_f32.into()];
    assert_eq!(pairs[0], ("numbers".into(), Value::List(numbers.into())));
    assert_eq!(message.decode::<Everything, _>(&codecs()).unwrap(), value);
    assert!(to_body(&u128::MAX).is_err());
}
