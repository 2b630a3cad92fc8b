use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use consign::Message;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldArray, FieldTable, ShortString},
};

use crate::source::Source;

/// Names of headers that the transports read.
const NAMES: [&str; 24] = [
    "Nats-Msg-Id",
    "Nats-Expected-Stream",
    "Content-Type",
    "sb-message-id",
    "sb-correlation-id",
    "sb-session-id",
    "sb-reply-to",
    "sb-subject",
    "sb-to",
    "sb-time-to-live",
    "sb-scheduled",
    "sb-enqueued-time",
    "sb-body",
    "sb-sequence-number",
    "sb-partition-key",
    "x-delivery-count",
    "x-death",
    "x-first-death-queue",
    "x-acquired-count",
    "DeadLetterReason",
    "DeadLetterErrorDescription",
    "traceparent",
    "tracestate",
    "x-opt-partition-key",
];

/// The headers of a message of NATS, and the properties and headers of one of RabbitMQ, that somebody else has sent.
///
/// # Panics
/// A message that was read is another one when it is written and read again.
pub fn headers(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let mut source = Source::new(rest);
    if choice & 1 == 0 { nats(&mut source) } else { rabbitmq(&mut source) }
}

fn name(source: &mut Source<'_>) -> String {
    if source.flag() {
        return NAMES[source.below(NAMES.len())].to_owned();
    }
    text(source)
}

fn text(source: &mut Source<'_>) -> String {
    let length = source.below(40);
    String::from_utf8_lossy(source.bytes(length)).into_owned()
}

fn nats(source: &mut Source<'_>) {
    let mut headers = HeaderMap::new();
    for _ in 0..source.below(12) {
        let (name, value) = (name(source), text(source));
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.append(name, value);
        }
    }
    let body = Bytes::copy_from_slice(source.bytes(usize::MAX));
    match consign_nats::convert::from_nats(Some(&headers), body) {
        Ok(message) => {
            let Ok((headers, body)) = consign_nats::convert::to_nats(&message) else { return };
            let again = consign_nats::convert::from_nats(Some(&headers), body);
            same(&again.unwrap_or_else(|error| panic!("{error:?}")), &message);
        }
        Err(unreadable) => assert!(!format!("{unreadable:?}").is_empty()),
    }
}

fn rabbitmq(source: &mut Source<'_>) {
    let mut table = FieldTable::default();
    for _ in 0..source.below(12) {
        let name = name(source);
        // A short string has at most 255 bytes.
        table.insert(ShortString::from(name), value(source, 0));
    }
    let mut properties = BasicProperties::default().with_headers(table);
    let flags = source.byte();
    let set = |bit: u8| flags & (1 << bit) != 0;
    if set(0) {
        properties = properties.with_content_type(text(source).into());
    }
    if set(1) {
        properties = properties.with_correlation_id(text(source).into());
    }
    if set(2) {
        properties = properties.with_expiration(text(source).into());
    }
    if set(3) {
        properties = properties.with_message_id(text(source).into());
    }
    if set(4) {
        properties = properties.with_timestamp(u64::from(source.number()) << (source.byte() & 31));
    }
    if set(5) {
        properties = properties.with_type(text(source).into()).with_reply_to(text(source).into());
    }
    let body = Bytes::copy_from_slice(source.bytes(usize::MAX));
    match consign_rabbitmq::convert::from_lapin(&properties, body) {
        Ok(message) => {
            let Ok((properties, body)) = consign_rabbitmq::convert::to_lapin(&message) else { return };
            let again = consign_rabbitmq::convert::from_lapin(&properties, body);
            same(&again.unwrap_or_else(|error| panic!("{error:?}")), &message);
        }
        Err(unreadable) => assert!(!format!("{unreadable:?}").is_empty()),
    }
}

fn value(source: &mut Source<'_>, depth: u8) -> AMQPValue {
    match source.below(14) {
        0 => AMQPValue::Boolean(source.flag()),
        1 => AMQPValue::ShortShortInt(source.byte().cast_signed()),
        2 => AMQPValue::ShortInt(i16::from_be_bytes([source.byte(), source.byte()])),
        3 => AMQPValue::LongInt(source.number().cast_signed()),
        4 => AMQPValue::LongLongInt(i64::from(source.number()) << (source.byte() & 63)),
        5 => AMQPValue::Double(f64::from_bits(u64::from(source.number()) << (source.byte() & 63))),
        6 => AMQPValue::Timestamp(u64::from(source.number()) << (source.byte() & 63)),
        7 => AMQPValue::Void,
        8 => {
            let length = source.below(40);
            AMQPValue::ByteArray(source.bytes(length).to_vec().into())
        }
        9 if depth < 4 => {
            let mut array = FieldArray::default();
            (0..source.below(4)).for_each(|_| array.push(value(source, depth + 1)));
            AMQPValue::FieldArray(array)
        }
        10 if depth < 4 => {
            let mut table = FieldTable::default();
            for _ in 0..source.below(4) {
                table.insert(text(source).into(), value(source, depth + 1));
            }
            AMQPValue::FieldTable(table)
        }
        11 => AMQPValue::Float(f32::from_bits(source.number())),
        _ => AMQPValue::LongString(text(source).into()),
    }
}

fn same(one: &Message, other: &Message) {
    assert_eq!(one.body(), other.body());
    let (one, other) = (one.properties(), other.properties());
    assert_eq!((one.message_id(), one.correlation_id()), (other.message_id(), other.correlation_id()));
    assert_eq!((one.session_id(), one.subject()), (other.session_id(), other.subject()));
    assert_eq!((one.content_type(), one.reply_to()), (other.content_type(), other.reply_to()));
}
