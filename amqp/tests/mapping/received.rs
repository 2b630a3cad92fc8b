//! What a receiver accepts of other senders.

use consign_amqp::{
    mapping::{self, Direction, InboundMessage, MappingErrorKind},
    message::{ApplicationProperties, Header, MessageId, Properties, Sections},
    value::{Array, Decimal32, Decimal64, Described, List, Map, Symbol, Value, ValueType},
};
use consign_core::message::{PassThrough, PropertyValue, Value as CoreValue};

fn received(sections: &Sections) -> InboundMessage {
    InboundMessage::from_received(sections.clone(), Direction::Deliver).unwrap()
}

fn with_properties(pairs: Vec<(&str, Value)>) -> Sections {
    let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Sections { application_properties: Some(ApplicationProperties(pairs)), ..Sections::default() }
}

fn with_id(id: MessageId) -> Sections {
    Sections { properties: Some(Properties { message_id: Some(id), ..Properties::default() }), ..Sections::default() }
}

/// Rules: U-14.
#[test]
fn properties_that_are_no_simple_values_are_kept_and_written_again() {
    let described = Described { descriptor: Symbol::from_static("other").into(), value: 7_i64.into() };
    let values: Vec<Value> = vec![
        List(vec![1_i32.into(), "two".into()]).into(),
        Map::default().into(),
        Array::new(ValueType::Int, Vec::new()).unwrap().into(),
        Array::new(ValueType::Long, vec![1_i64.into()]).unwrap().into(),
        Decimal32([1, 2, 3, 4]).into(),
        Decimal64([1, 2, 3, 4, 5, 6, 7, 8]).into(),
        described.into(),
    ];
    for value in values {
        let sections = with_properties(vec![("größe", value.clone()), ("tenant", 7_i32.into())]);
        let message = received(&sections).message;
        assert_eq!(message.application_properties().get("tenant"), Some(&PropertyValue::I32(7)));
        assert_eq!(message.application_properties().len(), 1);
        let kept = message.pass_through().unwrap().annotation(PassThrough::APPLICATION_PROPERTIES);
        let Some(CoreValue::Map(kept)) = kept else { panic!("{kept:?}") };
        assert_eq!((kept.len(), &kept[0].0), (1, &CoreValue::from("größe")));
        for direction in [Direction::Send, Direction::Deliver, Direction::Peek] {
            let written = mapping::to_sections(&message, direction).unwrap();
            let mut pairs = written.application_properties.unwrap().0;
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            assert_eq!(pairs, [("größe".into(), value.clone()), ("tenant".into(), 7_i32.into())]);
            assert_eq!(written.message_annotations, None);
        }
        // A broker refuses it to its sender.
        let refused = InboundMessage::from_sections(sections, Direction::Send).unwrap_err();
        assert_eq!((refused.kind(), refused.key()), (MappingErrorKind::UnsupportedType, Some("größe")));
    }
    // A property of the name that was set since counts.
    let mut message = received(&with_properties(vec![("list", List::default().into())])).message;
    message.properties_mut().application_properties_mut().insert("list", 1_i32);
    let written = mapping::to_sections(&message, Direction::Send).unwrap().application_properties.unwrap();
    assert_eq!(written.0, [("list".into(), 1_i32.into())]);
}

/// Rules: U-14.
#[test]
fn fields_that_are_as_if_they_were_absent() {
    let mut sections = with_id("".into());
    sections.header = Some(Header { ttl: Some(0), ..Header::default() });
    let message = received(&sections).message;
    assert_eq!((message.message_id(), message.time_to_live()), (None, None));
    assert!(message.application_properties().is_empty());
    let empty = MessageId::Binary(Vec::new().into());
    assert_eq!(received(&with_id(empty)).message.message_id(), None);
    for id in ["7".into(), MessageId::Ulong(7), MessageId::String("x".repeat(128).as_str().into())] {
        let expected = id.to_string();
        assert_eq!(received(&with_id(id)).message.message_id(), Some(&*expected));
    }
}

/// Rules: U-14.
#[test]
fn an_id_that_is_too_long_is_a_property() {
    for id in [MessageId::String("x".repeat(129).as_str().into()), MessageId::Binary(vec![7; 65].into())] {
        let expected = id.to_string();
        let mut sections = with_id(id);
        let message = received(&sections).message;
        let property = message.application_properties().get("message_id").and_then(PropertyValue::as_str);
        assert_eq!((message.message_id(), property), (None, Some(&*expected)));
        sections.application_properties = with_properties(vec![("message_id", 7_i32.into())]).application_properties;
        let message = received(&sections).message;
        assert_eq!(message.application_properties().get("message_id"), Some(&PropertyValue::I32(7)));
    }
    // 128 code units of more bytes.
    let id = MessageId::String("ß".repeat(128).as_str().into());
    assert!(received(&with_id(id)).message.message_id().is_some());
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let deep = (0..64).fold(Value::Null, |value, _| List(vec![value]).into());
    for (sections, kind) in [
        (with_properties(vec![("deep", deep)]), MappingErrorKind::TooDeep),
        (with_properties(vec![("a", 1_i32.into()), ("a", 2_i32.into())]), MappingErrorKind::DuplicateKey),
    ] {
        let error = InboundMessage::from_received(sections, Direction::Deliver).unwrap_err();
        assert_eq!(error.kind(), kind);
    }
}
