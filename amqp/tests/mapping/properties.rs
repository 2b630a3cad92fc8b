use std::time::Duration;

use bytes::Bytes;
use consign_amqp::{
    codec,
    mapping::{Direction, annotation, stamp_expiry},
    message::{
        Annotations, Body, Data, DeliveryAnnotations, Header, MessageAnnotations, MessageId, Properties, Sections,
    },
    value::{List, Symbol, Timestamp, Uuid, Value},
};
use consign_core::{
    message::{LockToken, Message, MessageBody, MessageState, Received, SequenceNumber, Value as CoreValue},
    time::Timestamp as Instant,
};

use crate::{read, write};

fn annotated(pairs: &[(&'static str, Value)]) -> Sections {
    let mut annotations = Annotations::default();
    for (name, value) in pairs {
        annotations.push(Symbol::from_static(name), value.clone());
    }
    Sections { message_annotations: Some(MessageAnnotations(annotations)), ..Sections::default() }
}

/// Rules: A-03.
#[test]
fn an_id_keeps_its_type_and_is_compared_as_text() {
    for (id, text) in [
        (MessageId::Ulong(u64::MAX), "18446744073709551615"),
        (MessageId::Uuid(Uuid([0xab; 16])), "abababab-abab-abab-abab-abababababab"),
        (MessageId::Binary(b"\0\xab\xff".as_slice().into()), "00ABFF"),
        (MessageId::String("17".into()), "17"),
        (MessageId::String("ABABABAB-abab-abab-abab-abababababab".into()), "ABABABAB-abab-abab-abab-abababababab"),
    ] {
        let properties =
            Properties { message_id: Some(id.clone()), correlation_id: Some(id.clone()), ..Properties::default() };
        let sections = Sections { properties: Some(properties.clone()), ..Sections::default() };
        let message = read(&sections, Direction::Send).unwrap().message;
        assert_eq!((message.message_id(), message.correlation_id()), (Some(text), Some(text)));
        let delivered = write(&message, Direction::Deliver);
        assert_eq!(delivered.properties, Some(properties));
        assert_eq!(delivered.message_annotations, None, "the type is no annotation on the wire");
    }
}

/// Rules: A-03.
#[test]
fn an_id_that_was_changed_since_is_a_string_unless_it_has_the_form_of_its_type() {
    let properties = Properties { message_id: Some(MessageId::Ulong(7)), ..Properties::default() };
    let sections = Sections { properties: Some(properties), ..Sections::default() };
    let mut message = read(&sections, Direction::Send).unwrap().message;
    for (text, id) in [
        ("8", MessageId::Ulong(8)),
        ("08", MessageId::String("08".into())),
        ("+8", MessageId::String("+8".into())),
        ("18446744073709551616", MessageId::String("18446744073709551616".into())),
        ("new", MessageId::String("new".into())),
    ] {
        message.properties_mut().set_message_id(text).unwrap();
        assert_eq!(write(&message, Direction::Send).properties.unwrap().message_id, Some(id));
    }
}

/// Rules: R-11.
#[test]
fn a_reply_has_the_correlation_id_in_the_type_of_the_request() {
    let properties = Properties { message_id: Some(MessageId::Uuid(Uuid([3; 16]))), ..Properties::default() };
    let sections = Sections { properties: Some(properties), ..Sections::default() };
    let request = read(&sections, Direction::Deliver).unwrap().message;
    let mut reply = Message::new("");
    assert!(reply.properties_mut().correlate_with_message_id(request.properties()));
    let reply = write(&reply, Direction::Send).properties.unwrap();
    assert_eq!(reply.correlation_id, Some(MessageId::Uuid(Uuid([3; 16]))));
}

/// Rules: A-06.
#[test]
fn a_delivery_counts_itself_and_a_peek_does_not() {
    let mut sections = annotated(&[(annotation::SEQUENCE_NUMBER, 5_i64.into())]);
    sections.header = Some(Header { delivery_count: 3, ..Header::default() });
    for (direction, count) in [(Direction::Deliver, 4), (Direction::Peek, 3)] {
        let inbound = read(&sections, direction).unwrap();
        assert_eq!((inbound.message.received().unwrap().delivery_count, inbound.delivery_count), (count, 3));
        assert_eq!(write(&inbound.message, direction).header.unwrap().delivery_count, 3);
    }
    assert_eq!(write(&Message::new(""), Direction::Send).header.unwrap().delivery_count, 0);
}

/// Rules: A-37.
#[test]
fn a_header_is_always_written() {
    assert_eq!(write(&Message::new(""), Direction::Send).header, Some(Header::default()));
}

/// Attacks: 53.
#[test]
fn what_a_broker_sets_is_read_from_a_delivery_and_not_from_a_send() {
    let at = |millis| Value::from(Timestamp(millis));
    let mut sections = annotated(&[
        (annotation::PARTITION_KEY, "key".into()),
        (annotation::VIA_PARTITION_KEY, "via".into()),
        (annotation::SCHEDULED_ENQUEUE_TIME, at(500)),
        (annotation::ENQUEUED_TIME, at(1_000)),
        (annotation::SEQUENCE_NUMBER, (-1_i64).into()),
        (annotation::ENQUEUE_SEQUENCE_NUMBER, 7_i64.into()),
        (annotation::LOCKED_UNTIL, at(2_000)),
        (annotation::MESSAGE_STATE, 1_i32.into()),
        (annotation::PARTITION_ID, 3_i16.into()),
        (annotation::DEADLETTER_SOURCE, "orders".into()),
        ("x-own", 1_i32.into()),
    ]);
    sections.header = Some(Header { ttl: Some(5_000), ..Header::default() });
    let message = read(&sections, Direction::Deliver).unwrap().message;
    let mut received = Received::new(SequenceNumber::new(u64::MAX), Instant::from_millis(1_000), 1);
    received.enqueued_sequence_number = SequenceNumber::new(7);
    received.expires_at = Instant::from_millis(6_000);
    received.locked_until = Some(Instant::from_millis(2_000));
    received.state = MessageState::Deferred;
    received.partition_id = Some(3);
    assert_eq!(message.received(), Some(&received));
    assert_eq!((message.partition_key(), message.transaction_partition_key()), (Some("key"), Some("via")));
    assert_eq!(message.scheduled_enqueue_time(), Some(Instant::from_millis(500)));
    assert_eq!(message.dead_letter_source(), Some("orders"));
    assert_eq!(message.pass_through().unwrap().annotations, [("x-own".into(), CoreValue::from(1_i32))]);
    let again = write(&message, Direction::Deliver);
    assert_eq!(again.message_annotations, sections.message_annotations);

    let sent = write(&message, Direction::Send).message_annotations.unwrap().0;
    let names: Vec<_> = sent.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [annotation::PARTITION_KEY, annotation::VIA_PARTITION_KEY, annotation::SCHEDULED_ENQUEUE_TIME, "x-own"]
    );
    sections.body = Body::Data(vec!["".as_bytes().into()]);
    let message = read(&sections, Direction::Send).unwrap().message;
    assert_eq!((message.received(), message.dead_letter_source()), (None, None));
    assert_eq!(message.pass_through().unwrap().annotations.len(), 1);
}

#[test]
fn a_delivery_of_another_broker_keeps_its_annotations() {
    let pairs = [(annotation::ENQUEUED_TIME, Timestamp(1).into()), ("x-jms-type", Value::from(0_i8))];
    let sections = annotated(&pairs);
    let message = read(&sections, Direction::Deliver).unwrap().message;
    assert_eq!(message.received(), None);
    assert_eq!(write(&message, Direction::Deliver).message_annotations, sections.message_annotations);
}

#[test]
fn any_integer_type_is_read_where_service_bus_has_an_integer() {
    let sections = annotated(&[
        (annotation::SEQUENCE_NUMBER, u64::MAX.into()),
        (annotation::MESSAGE_STATE, 2_u8.into()),
        (annotation::PARTITION_ID, 1_i64.into()),
        (annotation::LOCKED_UNTIL, Value::Null),
    ]);
    let message = read(&sections, Direction::Peek).unwrap().message;
    let received = message.received().unwrap();
    assert_eq!(received.sequence_number, SequenceNumber::new(u64::MAX));
    assert_eq!((received.state, received.partition_id), (MessageState::Scheduled, Some(1)));
    assert_eq!(received.locked_until, None);
}

/// Rules: A-15.
#[test]
fn a_sender_stamps_when_a_message_with_a_time_to_live_expires() {
    let now = Instant::from_millis(1_000);
    let message = Message::builder().time_to_live(Duration::from_millis(u32::MAX.into())).build("").unwrap();
    let mut sections = write(&message, Direction::Send);
    stamp_expiry(&mut sections, now);
    assert_eq!(sections.header.as_ref().unwrap().ttl, Some(u32::MAX));
    let properties = sections.properties.unwrap();
    assert_eq!(properties.creation_time, Some(Timestamp(1_000)));
    assert_eq!(properties.absolute_expiry_time, Some(Timestamp(1_000 + i64::from(u32::MAX))));

    let mut sections = write(&message, Direction::Send);
    stamp_expiry(&mut sections, Instant::MAX);
    assert_eq!(sections.properties.unwrap().absolute_expiry_time, Some(Timestamp(253_402_300_799_999)));

    let mut without = write(&Message::new(""), Direction::Send);
    stamp_expiry(&mut without, now);
    assert_eq!(without.properties, None);
}

/// Rules: A-16.
#[test]
fn a_broker_reads_the_ttl_and_returns_the_expiry_time_that_the_sender_set() {
    let properties = Properties { absolute_expiry_time: Some(Timestamp(9_000)), ..Properties::default() };
    let sections = Sections { properties: Some(properties.clone()), ..Sections::default() };
    let message = read(&sections, Direction::Send).unwrap().message;
    assert_eq!(message.time_to_live(), None);
    assert_eq!(write(&message, Direction::Send).properties, Some(properties));
    // What the broker itself sets is written in its place.
    let mut received = Received::new(SequenceNumber::new(1), Instant::from_millis(1), 1);
    received.expires_at = Instant::from_millis(2);
    let delivered = write(&message.with_received(received), Direction::Deliver);
    assert_eq!(delivered.properties.unwrap().absolute_expiry_time, Some(Timestamp(2)));
}

/// Rules: A-05.
/// A receiver without the field computes the expiry from the time to live.
#[test]
fn a_received_message_that_never_expires_keeps_that_beside_a_time_to_live() {
    let mut sections =
        annotated(&[(annotation::SEQUENCE_NUMBER, 1_i64.into()), (annotation::ENQUEUED_TIME, Timestamp(1_000).into())]);
    sections.header = Some(Header { ttl: Some(60_000), ..Header::default() });
    sections.properties = Some(Properties { absolute_expiry_time: Some(Timestamp(i64::MAX)), ..Properties::default() });
    let message = read(&sections, Direction::Deliver).unwrap().message;
    assert_eq!(message.received().unwrap().expires_at, Instant::MAX);
    let again = read(&write(&message, Direction::Deliver), Direction::Deliver).unwrap().message;
    assert_eq!(again.received().unwrap().expires_at, Instant::MAX);
}

/// Rules: A-17.
#[test]
fn a_time_to_live_without_an_end_is_left_out() {
    let message = Message::builder().time_to_live(Duration::MAX).build("").unwrap();
    assert_eq!(write(&message, Direction::Send).header.unwrap().ttl, None);
}

/// Rules: B-01, B-02, B-03, B-04, B-06.
#[test]
fn a_body_keeps_its_kind_and_its_sections() {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let list = List(vec![1_i32.into(), Symbol::from_static("two").into()]);
    for (body, message) in [
        (Body::Data(vec!["a".as_bytes().into()]), MessageBody::from(bytes("a"))),
        (
            Body::Data(vec!["a".as_bytes().into(), "".as_bytes().into()]),
            MessageBody::sections(vec![bytes("a"), bytes("")]),
        ),
        (Body::Value(7_u32.into()), CoreValue::from(7_u32).into()),
        (
            Body::Sequence(vec![list, List::default()]),
            MessageBody::Sequence([vec![CoreValue::from(1_i32), CoreValue::Symbol("two".into())], Vec::new()].into()),
        ),
    ] {
        let sections = Sections { body: body.clone(), ..Sections::default() };
        let read = read(&sections, Direction::Send).unwrap().message;
        assert_eq!(read.body(), &message);
        assert_eq!(write(&read, Direction::Send).body, body);
    }
    let none = read(&Sections::default(), Direction::Send).unwrap().message;
    assert_eq!(none.body(), &MessageBody::empty());
    assert_eq!(write(&none, Direction::Deliver).body, Body::default());
    assert_eq!(write(&none, Direction::Send).body, Body::Data(vec!["".as_bytes().into()]));
}

#[test]
fn the_bytes_of_a_body_are_not_copied() {
    let sections = Sections { body: Body::Data(vec![vec![7; 1_000].into()]), ..Sections::default() };
    let encoded = codec::encode(&sections).unwrap();
    let message = consign_amqp::message::EncodedMessage::split(encoded.clone()).unwrap();
    let inbound = consign_amqp::mapping::InboundMessage::decode(&message, Direction::Send).unwrap();
    assert!(encoded.as_ptr_range().contains(&inbound.message.payload().unwrap().as_ptr()));
}

/// Rules: A-13.
#[test]
fn delivery_annotations_of_a_sender_are_delivered_without_its_lock_token() {
    let mut annotations = Annotations::default();
    annotations.push(Symbol::from_static("x-other"), 1_i32);
    let kept = DeliveryAnnotations(annotations.clone());
    annotations.push(Symbol::from_static(annotation::LOCK_TOKEN), Uuid([9; 16]));
    let data = Data("a".as_bytes().into());
    let at_the_end = [codec::encode(&data).unwrap(), codec::encode(&DeliveryAnnotations(annotations.clone())).unwrap()];
    let at_the_end = consign_amqp::message::EncodedMessage::split(at_the_end.concat().into()).unwrap();
    let at_the_end = consign_amqp::mapping::InboundMessage::decode(&at_the_end, Direction::Send).unwrap();
    let sections = Sections { delivery_annotations: Some(DeliveryAnnotations(annotations)), ..Sections::default() };
    for message in [read(&sections, Direction::Send).unwrap().message, at_the_end.message] {
        let delivered = write(&message, Direction::Deliver);
        assert_eq!(delivered.delivery_annotations, Some(kept.clone()));
        assert_eq!(delivered.message_annotations, None);
        assert_eq!(write(&message, Direction::Send).delivery_annotations, None);
    }
}

#[test]
fn delivery_annotations_are_returned_beside_the_message() {
    let mut annotations = Annotations::default();
    annotations.push(Symbol::from_static(annotation::LOCK_TOKEN), Uuid([9; 16]));
    annotations.push(Symbol::from_static("x-other"), 1_i32);
    let sections =
        Sections { delivery_annotations: Some(DeliveryAnnotations(annotations.clone())), ..Sections::default() };
    let inbound = read(&sections, Direction::Deliver).unwrap();
    assert_eq!(inbound.lock_token().unwrap(), Some(LockToken::from_bytes([9; 16])));
    assert_eq!(inbound.delivery_annotations, annotations);
}
