use bytes::Bytes;
use consign_amqp::{
    codec,
    mapping::{Direction, MappingErrorKind, property_from_amqp, property_to_amqp, value_from_amqp, value_to_amqp},
    message::{ApplicationProperties, Section},
    value::{Array, Decimal32, Decimal64, Decimal128, Described, List, Map, Symbol, Timestamp, Uuid, Value, ValueType},
};
use consign_core::{
    message::{Message, PropertyValue, Value as CoreValue},
    time::Timestamp as Instant,
};

use crate::{read, write};

const TICKS: i64 = 621_355_968_000_000_000;

fn described(name: &'static str, value: impl Into<Value>) -> Value {
    Described { descriptor: Symbol::from_static(name).into(), value: value.into() }.into()
}

/// Each type of a property, with the value that it is in AMQP 1.0.
fn every_property() -> Vec<(PropertyValue, Value)> {
    let sixteen = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let mut pairs: Vec<(PropertyValue, Value)> = vec![
        (true.into(), true.into()),
        (200_u8.into(), 200_u8.into()),
        (60_000_u16.into(), 60_000_u16.into()),
        (u32::MAX.into(), u32::MAX.into()),
        (u64::MAX.into(), u64::MAX.into()),
        (i8::MIN.into(), i8::MIN.into()),
        (i16::MIN.into(), i16::MIN.into()),
        (i32::MIN.into(), i32::MIN.into()),
        (i64::MIN.into(), i64::MIN.into()),
        (1.5_f32.into(), 1.5_f32.into()),
        (f64::MIN_POSITIVE.into(), f64::MIN_POSITIVE.into()),
        ('\u{10ffff}'.into(), '\u{10ffff}'.into()),
        ("größe".into(), "größe".into()),
        (Instant::from_millis(-1).into(), Timestamp(-1).into()),
        (Bytes::from_static(b"\0\xff").into(), Value::Binary(b"\0\xff".as_slice().into())),
    ];
    pairs.push((PropertyValue::Decimal(sixteen), Decimal128(sixteen).into()));
    pairs.push((PropertyValue::Uuid(sixteen), Uuid(sixteen).into()));
    pairs.push((PropertyValue::DateTimeOffset(TICKS), described("com.microsoft:datetime-offset", TICKS)));
    pairs.push((PropertyValue::TimeSpan(-7), described("com.microsoft:timespan", -7_i64)));
    pairs.push((PropertyValue::Uri("https://a.b/c".into()), described("com.microsoft:uri", "https://a.b/c")));
    pairs.push((PropertyValue::Null, Value::Null));
    pairs
}

/// Rules: U-01, U-02, U-03, U-04, U-05, U-06, U-07, U-08, U-09, U-12.
#[test]
fn every_property_has_the_same_type_behind_a_broker() {
    for (property, value) in every_property() {
        assert_eq!(property_to_amqp(&property), value);
        assert_eq!(property_from_amqp("p", value.clone()).unwrap(), property);
        // To the broker, and from it.
        let mut message = Message::builder().property("p", property.clone()).build("").unwrap();
        for direction in [Direction::Send, Direction::Deliver] {
            let sections = write(&message, direction);
            assert_eq!(sections.application_properties.as_ref().unwrap().get("p"), Some(&value));
            message = read(&sections, direction).unwrap().message;
            assert_eq!(message.application_properties().get("p"), Some(&property));
        }
        assert_eq!(value_from_amqp(value.clone()).unwrap(), CoreValue::from(property.clone()));
        assert_eq!(value_to_amqp(&property.into()).unwrap(), value);
    }
}

/// Rules: U-05.
#[test]
fn an_instant_with_an_offset_is_encoded_as_service_bus_does() {
    let encoded = codec::encode(&property_to_amqp(&PropertyValue::DateTimeOffset(TICKS))).unwrap();
    let name = "com.microsoft:datetime-offset";
    let expected = [&[0, 0xa3, 29], name.as_bytes(), &[0x81], &TICKS.to_be_bytes()].concat();
    assert_eq!(encoded, expected);
}

/// Rules: U-10.
#[test]
fn a_symbol_is_text() {
    let property = property_from_amqp("p", Symbol::from_static("name").into());
    assert_eq!(property.unwrap(), PropertyValue::from("name"));
}

/// Rules: U-11.
#[test]
fn a_property_that_is_no_simple_value_is_refused_by_its_name() {
    for value in [
        List::default().into(),
        Map::default().into(),
        Array::new(ValueType::Int, Vec::new()).unwrap().into(),
        Decimal32::default().into(),
        Decimal64::default().into(),
        described("other", 7_i64),
        described("com.microsoft:timespan", "text"),
    ] {
        let name = value.value_type().name();
        let mut application = ApplicationProperties::default();
        application.push("price", value);
        let sections =
            consign_amqp::message::Sections { application_properties: Some(application), ..Default::default() };
        let error = read(&sections, Direction::Send).unwrap_err();
        assert_eq!((error.kind(), error.key()), (MappingErrorKind::UnsupportedType, Some("price")), "{name}");
        assert_eq!(
            error.to_string(),
            format!(
                "the type is not supported here: expected simple value, found {name}, at `price` in application-properties"
            )
        );
    }
}

/// Rules: A-05.
#[test]
fn timestamps_from_the_end_of_9999_on_are_never() {
    const LAST: i64 = 253_402_300_799_999;
    for (millis, read) in [(LAST - 1, LAST - 1), (LAST, LAST), (LAST + 1, LAST), (i64::MAX, LAST), (i64::MIN, i64::MIN)]
    {
        let property = property_from_amqp("p", Timestamp(millis).into()).unwrap();
        assert_eq!(property, PropertyValue::DateTime(Instant::from_millis(read)), "{millis}");
        assert_eq!(property_to_amqp(&property), Timestamp(read).into(), "{millis}");
    }
}

#[test]
fn values_without_a_type_in_messages_come_back_as_they_were() {
    let empty = |element| Value::from(Array::new(element, Vec::new()).unwrap());
    let values: Vec<Value> = vec![Uuid([7; 16]).into(), Uuid([8; 16]).into()];
    let descriptors = vec![Symbol::from_static("outer").into(), 7_u64.into()];
    for value in [
        Decimal32([1, 2, 3, 4]).into(),
        Decimal64([1; 8]).into(),
        empty(ValueType::Null),
        empty(ValueType::Int),
        empty(ValueType::Map),
        Array::described(descriptors.clone(), ValueType::Uuid, values).unwrap().into(),
        Array::described(descriptors, ValueType::Uuid, Vec::new()).unwrap().into(),
        described("other", List(vec![described("inner", Value::Null)])),
    ] {
        let converted = value_from_amqp(value.clone()).unwrap();
        assert_eq!(value_to_amqp(&converted).unwrap(), value);
    }
}

/// Rules: U-13.
/// Such a value would be sent as another one, or be an array of several types, which cannot be sent.
#[test]
fn descriptors_of_values_without_a_type_in_messages_are_refused() {
    for name in ["consign:decimal32", "consign:decimal64", "consign:empty-array"] {
        let error = value_from_amqp(described(name, Value::Null)).unwrap_err();
        assert_eq!((error.kind(), error.section()), (MappingErrorKind::Reserved, Some(Section::Body)), "{name}");
        let descriptors = vec![Symbol::try_from(name).unwrap().into()];
        let values = [4, 5].map(|size| Value::Binary(vec![0; size].into())).to_vec();
        let array = Array::described(descriptors, ValueType::Binary, values).unwrap();
        assert_eq!(value_from_amqp(array.into()).unwrap_err().kind(), MappingErrorKind::Reserved, "{name}");
    }
}

#[test]
fn an_array_whose_descriptor_is_not_a_number_can_be_sent() {
    let descriptors = vec![f64::NAN.into()];
    let array = Array::described(descriptors, ValueType::Int, vec![1_i32.into(), 2_i32.into()]).unwrap();
    let converted = value_from_amqp(array.clone().into()).unwrap();
    let sent = value_to_amqp(&converted).unwrap();
    assert_eq!(codec::encode(&sent), codec::encode(&array));
}

#[test]
fn values_that_amqp_does_not_have_are_refused() {
    let mixed = CoreValue::Array(vec![CoreValue::from(1_i32), CoreValue::from("a")]);
    assert_eq!(value_to_amqp(&mixed).unwrap_err().kind(), MappingErrorKind::MixedArray);
    let symbol = CoreValue::Symbol("größe".into());
    assert_eq!(value_to_amqp(&symbol).unwrap_err().kind(), MappingErrorKind::NotAscii);
    let deep = |levels| (0..levels).fold(CoreValue::from(true), |value, _| CoreValue::List(vec![value]));
    assert!(value_to_amqp(&deep(64)).is_ok());
    assert_eq!(value_to_amqp(&deep(65)).unwrap_err().kind(), MappingErrorKind::TooDeep);
    let deep = |levels| (0..levels).fold(Value::from(true), |value, _| List(vec![value]).into());
    assert!(value_from_amqp(deep(64)).is_ok());
    assert_eq!(value_from_amqp(deep(65)).unwrap_err().kind(), MappingErrorKind::TooDeep);
}
