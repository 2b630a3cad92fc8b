use std::{error::Error as _, time::Duration};

use consign_amqp::{
    codec,
    mapping::{self, Direction, InboundMessage, MappingErrorKind, annotation},
    message::{
        Annotations, ApplicationProperties, EncodedMessage, Footer, Header, MessageAnnotations, Properties, Section,
        Sections,
    },
    value::{Symbol, Value},
};
use consign_core::message::{Message, PassThrough, Value as CoreValue};

use crate::read;

type Refused = (MappingErrorKind, Option<Section>, Option<String>);

fn refused(sections: &Sections) -> Refused {
    let error = read(sections, Direction::Deliver).unwrap_err();
    (error.kind(), error.section(), error.key().map(str::to_owned))
}

fn at(kind: MappingErrorKind, section: Section, key: &str) -> Refused {
    (kind, Some(section), Some(key.to_owned()))
}

fn annotated(pairs: &[(&'static str, Value)]) -> Sections {
    let pairs = pairs.iter().map(|(name, value)| (Symbol::from_static(name), value.clone()));
    Sections { message_annotations: Some(MessageAnnotations(Annotations(pairs.collect()))), ..Sections::default() }
}

#[test]
fn a_property_that_breaks_a_rule_is_named() {
    let fields = |properties| Sections { properties: Some(properties), ..Sections::default() };
    let long = || Some("x".repeat(129).as_str().into());
    let invalid = MappingErrorKind::InvalidArgument;
    for (sections, key) in [
        (fields(Properties { message_id: Some("".into()), ..Properties::default() }), "message-id"),
        (fields(Properties { group_id: long(), ..Properties::default() }), "group-id"),
        (fields(Properties { reply_to_group_id: long(), ..Properties::default() }), "reply-to-group-id"),
    ] {
        assert_eq!(refused(&sections), at(invalid, Section::Properties, key));
        assert!(read(&sections, Direction::Send).unwrap_err().source().is_some());
    }
    let header = Sections { header: Some(Header { ttl: Some(0), ..Header::default() }), ..Sections::default() };
    assert_eq!(refused(&header), at(invalid, Section::Header, "ttl"));
    let long = annotated(&[(annotation::PARTITION_KEY, "x".repeat(129).into())]);
    assert_eq!(refused(&long), at(invalid, Section::MessageAnnotations, annotation::PARTITION_KEY));
}

#[test]
fn an_annotation_of_another_type_is_named() {
    let number = (annotation::SEQUENCE_NUMBER, Value::from(1_i64));
    for (name, value) in [
        (annotation::PARTITION_KEY, Value::from(7_i32)),
        (annotation::SCHEDULED_ENQUEUE_TIME, 7_i64.into()),
        (annotation::ENQUEUED_TIME, "now".into()),
        (annotation::MESSAGE_STATE, 3_i32.into()),
        (annotation::PARTITION_ID, 70_000_i32.into()),
    ] {
        let sections = annotated(&[number.clone(), (name, value)]);
        assert_eq!(refused(&sections), at(MappingErrorKind::UnsupportedType, Section::MessageAnnotations, name));
    }
    let sections = annotated(&[(annotation::SEQUENCE_NUMBER, "one".into())]);
    assert_eq!(
        read(&sections, Direction::Deliver).unwrap_err().to_string(),
        "the type is not supported here: expected long, found string, at `x-opt-sequence-number` in message-annotations"
    );
}

#[test]
fn keys_that_occur_twice_and_reserved_names_are_refused() {
    let key = (annotation::PARTITION_KEY, Value::from("key"));
    let twice = annotated(&[key.clone(), key]);
    assert_eq!(
        refused(&twice),
        at(MappingErrorKind::DuplicateKey, Section::MessageAnnotations, annotation::PARTITION_KEY)
    );
    let mut application = ApplicationProperties::default();
    application.push("a\n", 1_i32);
    application.push("a\n", 2_i32);
    let twice = Sections { application_properties: Some(application), ..Sections::default() };
    assert_eq!(refused(&twice), at(MappingErrorKind::DuplicateKey, Section::ApplicationProperties, "a\\n"));
    for name in [
        PassThrough::MESSAGE_ID_TYPE,
        PassThrough::CORRELATION_ID_TYPE,
        PassThrough::ABSOLUTE_EXPIRY_TIME,
        PassThrough::DELIVERY_ANNOTATIONS,
        PassThrough::NO_BODY,
        PassThrough::APPLICATION_PROPERTIES,
    ] {
        let reserved = annotated(&[(name, Value::Null)]);
        assert_eq!(refused(&reserved), at(MappingErrorKind::Reserved, Section::MessageAnnotations, name));
    }
}

/// Rules: A-17.
#[test]
fn a_time_to_live_beyond_32_bits_of_milliseconds_is_refused() {
    let message = |millis| Message::builder().time_to_live(Duration::from_millis(millis)).build("").unwrap();
    let longest = u64::from(u32::MAX);
    let sections = mapping::to_sections(&message(longest), Direction::Send).unwrap();
    assert_eq!(sections.header.unwrap().ttl, Some(u32::MAX));
    let error = mapping::to_sections(&message(longest + 1), Direction::Send).unwrap_err();
    assert_eq!((error.kind(), error.section()), (MappingErrorKind::TtlTooLong, Some(Section::Header)));
    assert_eq!(error.to_string(), "the time to live is over 4294967295 milliseconds, at `ttl` in header");
}

#[test]
fn texts_that_cannot_be_symbols_are_refused_by_their_place() {
    let not_ascii = MappingErrorKind::NotAscii;
    let mut annotation = Message::new("");
    annotation.properties_mut().pass_through_mut().annotations.push(("größe".into(), true.into()));
    let mut footer = Message::new("");
    footer.properties_mut().pass_through_mut().footer.push(("größe".into(), true.into()));
    let mut encoding = Message::new("");
    encoding.properties_mut().pass_through_mut().content_encoding = Some("größe".into());
    for (message, section, key) in [
        (Message::builder().content_type("text/größe").build("").unwrap(), Section::Properties, "content-type"),
        (encoding, Section::Properties, "content-encoding"),
        (annotation, Section::MessageAnnotations, "größe"),
        (footer, Section::Footer, "größe"),
    ] {
        let error = mapping::to_sections(&message, Direction::Send).unwrap_err();
        assert_eq!((error.kind(), error.section(), error.key()), (not_ascii, Some(section), Some(key)));
    }
    let body = Message::new(CoreValue::Symbol("größe".into()));
    let error = mapping::to_sections(&body, Direction::Send).unwrap_err();
    assert_eq!((error.section(), error.key()), (Some(Section::Body), None));
}

/// Rules: A-77.
#[test]
fn a_content_type_that_is_not_ascii_is_delivered_with_question_marks() {
    let mut message = Message::builder().content_type("text/plain; a=\"größe\"").build("").unwrap();
    message.properties_mut().pass_through_mut().content_encoding = Some("größe".into());
    for direction in [Direction::Deliver, Direction::Peek] {
        let properties = mapping::to_sections(&message, direction).unwrap().properties.unwrap();
        assert_eq!(properties.content_type.as_ref().map(Symbol::as_str), Some("text/plain; a=\"gr??e\""));
        assert_eq!(properties.content_encoding.as_ref().map(Symbol::as_str), Some("gr??e"));
    }
}

#[test]
fn an_annotation_that_is_a_property_too_is_refused() {
    let mut message = Message::builder().partition_key("one").build("").unwrap();
    let other = (annotation::PARTITION_KEY.into(), CoreValue::from("other"));
    message.properties_mut().pass_through_mut().annotations.push(other);
    let error = mapping::to_sections(&message, Direction::Send).unwrap_err();
    assert_eq!((error.kind(), error.key()), (MappingErrorKind::DuplicateKey, Some(annotation::PARTITION_KEY)));
}

#[test]
fn a_malformed_section_is_reported_with_its_field() {
    // A ulong in place of the list's first field, `durable`.
    let bytes = bytes::Bytes::from_static(&[0, 0x53, 0x70, 0xc0, 2, 1, 0x44]);
    let error = InboundMessage::decode(&EncodedMessage::split(bytes).unwrap(), Direction::Send).unwrap_err();
    assert_eq!((error.kind(), error.section()), (MappingErrorKind::Malformed, None));
    assert!(error.to_string().contains("`Header.durable`"), "{error}");
}

#[test]
fn errors_show_no_value() {
    let mut sections = annotated(&[("x-own", Value::Null)]);
    sections.footer = Some(Footer::default());
    sections.properties =
        Some(Properties { message_id: Some("canary".repeat(30).as_str().into()), ..Properties::default() });
    let error = read(&sections, Direction::Send).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    assert!(codec::encode(&sections).is_ok());
}
