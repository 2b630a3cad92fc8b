//! Messages as they are encoded.

use std::fmt;

use bytes::Bytes;
use consign_amqp::{
    codec::DecodeError,
    mapping::{self, Direction, InboundMessage, MappingError, annotation},
    message::{Annotations, Body, EncodedMessage, Header, MessageAnnotations, Sections},
    value::{Map, Symbol, Timestamp as WireTimestamp, Value},
};
use consign_core::{
    Message,
    message::{MessageBody, Received, random_id::random_uuid_text},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::SendError,
};

use crate::error::Failure;

/// The annotation of a message whose MessageId was made by this transport: a boolean.
const STAMPED: Symbol = Symbol::from_static("x-opt-consign-message-id-stamped");

/// Encodes a message that is sent at `now`.
fn write(message: &Message, now: Timestamp) -> Result<Bytes, Failure> {
    let mut sections = mapping::to_sections(message, Direction::Send)?;
    mapping::stamp_expiry(&mut sections, now);
    if message.is_message_id_stamped() {
        sections.message_annotations.get_or_insert_default().0.push(STAMPED, true);
    }
    Ok(sections.to_bytes()?)
}

/// Checks a message, removes what only a broker sets, and encodes it.
pub(crate) fn prepare(mut message: Message, now: Timestamp) -> Result<Bytes, SendError> {
    clean(&mut message)?;
    Ok(write(&message, now)?)
}

fn clean(message: &mut Message) -> Result<(), SendError> {
    DeadLetter::remove_from(message);
    message.check()?;
    if message.message_id().is_none() {
        message.properties_mut().stamp_message_id(random_uuid_text())?;
    }
    Ok(())
}

/// The entry of a message in a request to schedule it.
pub(crate) fn scheduled(mut message: Message, at: Timestamp, now: Timestamp) -> Result<Map, SendError> {
    message.properties_mut().set_scheduled_enqueue_time(at);
    clean(&mut message)?;
    let mut entry = Map::default();
    if let Some(id) = message.message_id() {
        entry.push("message-id", id);
    }
    if let Some(session) = message.session_id() {
        entry.push("session-id", session);
    }
    if let Some(key) = message.partition_key() {
        entry.push("partition-key", key);
    }
    if let Some(key) = message.transaction_partition_key() {
        entry.push("via-partition-key", key);
    }
    entry.push("message", Value::Binary(write(&message, now)?.into()));
    Ok(entry)
}

/// Properties to replace or add, as a settlement has them.
pub(crate) fn changes(changes: &Changes) -> Map {
    let permitted = changes.clone().into_permitted();
    permitted.iter().map(|(name, value)| (key(name), mapping::property_to_amqp(value))).collect()
}

/// The key of a property: a symbol if it can be one.
pub(crate) fn key(name: &str) -> Value {
    Symbol::try_from(name).map_or_else(|_| name.into(), Into::into)
}

/// Why a message cannot be decoded. It names no value.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Malformed(DecodeError),
    Refused(MappingError),
}

impl Unreadable {
    /// Returns the dead letter of the message.
    pub(crate) fn why(&self) -> DeadLetter {
        let reason = DeadLetterReason::Application("MalformedMessage".into());
        DeadLetter::new(reason, format!("the message cannot be decoded: {self}"))
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

/// A message, and why it has its encoded bytes as the body, if it has.
pub(crate) type Read = (Message, Option<Unreadable>);

/// Decodes a message. One that cannot be decoded is a message whose body is the encoded bytes, so that nothing of it is lost.
pub(crate) fn read(encoded: Bytes, direction: Direction) -> Read {
    match decode(encoded.clone(), direction) {
        Ok(message) => (message, None),
        Err(error) => {
            let received = received(encoded.clone(), direction);
            let message = Message::new(MessageBody::from(encoded));
            let message = match received {
                Some(received) => message.with_received(received),
                None => message,
            };
            (message, Some(error))
        }
    }
}

/// What a broker sets.
const OF_BROKER: [&str; 6] = [
    annotation::SEQUENCE_NUMBER,
    annotation::ENQUEUE_SEQUENCE_NUMBER,
    annotation::ENQUEUED_TIME,
    annotation::LOCKED_UNTIL,
    annotation::MESSAGE_STATE,
    annotation::PARTITION_ID,
];

/// Reads what the broker has set on a message that cannot be decoded: without its number it can be neither listed nor peeked past.
fn received(encoded: Bytes, direction: Direction) -> Option<Received> {
    let split = EncodedMessage::split(encoded).ok()?;
    let MessageAnnotations(Annotations(mut annotations)) = split.message_annotations().ok()??;
    annotations.retain(|(name, _)| OF_BROKER.contains(&name.as_str()));
    let header = split.header().ok().flatten().unwrap_or_default();
    let sections = Sections {
        header: Some(Header {
            delivery_count: header.delivery_count,
            ttl: header.ttl.filter(|millis| *millis > 0),
            ..Header::default()
        }),
        message_annotations: Some(MessageAnnotations(Annotations(annotations))),
        body: Body::Value(Value::Null),
        ..Sections::default()
    };
    InboundMessage::from_sections(sections, direction).ok()?.message.received().copied()
}

fn decode(encoded: Bytes, direction: Direction) -> Result<Message, Unreadable> {
    let split = EncodedMessage::split(encoded).map_err(Unreadable::Malformed)?;
    let mut sections = Sections::decode(&split).map_err(Unreadable::Malformed)?;
    let mut is_stamped = false;
    if let Some(annotations) = &mut sections.message_annotations {
        is_stamped = annotations.0.get(&STAMPED) == Some(&Value::Boolean(true));
        annotations.0.0.retain(|(name, _)| *name != STAMPED);
    }
    let mut message = InboundMessage::from_received(sections, direction).map_err(Unreadable::Refused)?.message;
    if is_stamped && let Some(id) = message.message_id().map(str::to_owned) {
        // The id was accepted when the message was decoded.
        let _ = message.properties_mut().stamp_message_id(id);
    }
    Ok(message)
}

/// The Unix epoch in ticks of .NET, and the ticks of a millisecond.
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const TICKS: i64 = 10_000;

/// Reads an instant: ticks of .NET in an integer, or a timestamp.
pub(crate) fn instant(value: &Value) -> Option<Timestamp> {
    if let Value::Timestamp(WireTimestamp(millis)) = value {
        return Some(Timestamp::from_millis(*millis));
    }
    let ticks = i64::try_from(value.as_integer()?).ok()?;
    Some(Timestamp::from_millis(ticks.saturating_sub(EPOCH_TICKS) / TICKS))
}

/// A message as a broker delivers it, with a session that is too long.
#[cfg(test)]
pub(crate) fn unreadable() -> Bytes {
    use consign_amqp::message::Properties;

    let mut annotations = Annotations::default();
    annotations.push(Symbol::from_static(annotation::SEQUENCE_NUMBER), 7_i64);
    annotations.push(Symbol::from_static(annotation::ENQUEUED_TIME), WireTimestamp(5_000));
    annotations.push(Symbol::from_static(annotation::LOCKED_UNTIL), WireTimestamp(6_000));
    let sections = Sections {
        header: Some(Header { delivery_count: 2, ttl: Some(10_000), ..Header::default() }),
        message_annotations: Some(MessageAnnotations(annotations)),
        properties: Some(Properties { group_id: Some("x".repeat(129).as_str().into()), ..Properties::default() }),
        ..Sections::default()
    };
    sections.to_bytes().expect("sections that can be encoded")
}

#[cfg(test)]
mod tests {
    use consign_core::message::PropertyValue;

    use super::*;

    /// Rules: G-52.
    #[test]
    fn an_instant_is_ticks_or_a_timestamp() {
        let at = Timestamp::from_millis(1_700_000_000_123);
        assert_eq!(instant(&Value::Long(638_355_968_001_230_000)), Some(at));
        assert_eq!(instant(&Value::Timestamp(WireTimestamp(1_700_000_000_123))), Some(at));
        assert_eq!(instant(&"soon".into()), None);
    }

    #[test]
    fn what_is_not_a_message_is_delivered_as_bytes() {
        let (message, error) = read(Bytes::from_static(b"no message"), Direction::Deliver);
        assert!(error.is_some());
        assert_eq!(message.payload(), Some(&b"no message"[..]));
    }

    /// Rules: K-314.
    #[test]
    fn what_the_broker_has_set_is_read_without_the_message() {
        let encoded = unreadable();
        let (message, error) = read(encoded.clone(), Direction::Deliver);
        assert!(matches!(error, Some(Unreadable::Refused(_))), "{error:?}");
        assert_eq!(message.payload(), Some(&encoded[..]));
        let received = message.received().unwrap();
        assert_eq!((received.sequence_number.get(), received.delivery_count), (7, 3));
        assert_eq!(received.enqueued_time, Timestamp::from_millis(5_000));
        assert_eq!(received.locked_until, Some(Timestamp::from_millis(6_000)));
        assert_eq!(received.expires_at, Timestamp::from_millis(15_000));
        // A later section is malformed.
        let malformed = [&encoded[..], b"\x00\x53\x75\x45"].concat();
        let (message, error) = read(malformed.into(), Direction::Peek);
        assert!(matches!(error, Some(Unreadable::Malformed(_))), "{error:?}");
        assert_eq!(
            message.received().map(|received| (received.sequence_number.get(), received.delivery_count)),
            Some((7, 2))
        );
    }

    #[test]
    fn an_id_that_the_transport_made_is_marked() {
        let now = Timestamp::from_millis(5);
        let (made, _) = read(prepare(Message::new("a"), now).unwrap(), Direction::Send);
        assert!(made.message_id().is_some() && made.is_message_id_stamped());
        assert!(made.pass_through().is_none_or(|rest| rest.annotations.is_empty()));
        let (again, _) = read(prepare(made.clone(), now).unwrap(), Direction::Send);
        assert_eq!((again.message_id(), again.is_message_id_stamped()), (made.message_id(), true));
        let own = Message::builder().message_id("mine").build("a").unwrap();
        let (own, _) = read(prepare(own, now).unwrap(), Direction::Send);
        assert_eq!((own.message_id(), own.is_message_id_stamped()), (Some("mine"), false));
        let entry = scheduled(Message::new("a"), now, now).unwrap();
        assert!(entry.get("message-id").is_some());
    }

    #[test]
    fn a_settlement_cannot_set_the_reason_of_a_dead_letter() {
        let mut properties = consign_core::message::ApplicationProperties::new();
        properties.insert("tries", PropertyValue::from(2_i32));
        properties.insert(DeadLetter::REASON, PropertyValue::from("why"));
        properties.insert("größe", PropertyValue::from(1_i32));
        let map = changes(&properties.into());
        assert_eq!((map.len(), map.get("tries")), (2, Some(&Value::Int(2))));
        // A symbol is ASCII.
        assert!(map.0.iter().any(|(key, _)| *key == Value::from("größe")));
    }
}
