use std::fmt;

use bytes::Bytes;
use consign_amqp::{
    codec::{Decode, DecodeError, Decoder},
    mapping::{Direction, InboundMessage, MappingError},
    message::{Annotations, Body, DeliveryAnnotations, EncodedMessage, Header, MessageAnnotations, Section, Sections},
    value::{Symbol, Value},
};
use consign_core::{
    Message,
    message::MessageBody,
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
};

use super::names;

/// What is beside a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// The number that the sender or the broker gave the message, 0 without one.
    pub(crate) number: u64,
    /// When it was sent, if that is known.
    pub(crate) enqueued: Option<Timestamp>,
    /// The failed deliveries that this transport has counted.
    pub(crate) failed: u32,
    /// The failed deliveries that the broker has counted.
    pub(crate) failed_at_broker: u32,
    pub(crate) is_stamped: bool,
}

/// Why a message cannot be decoded. It names no value.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Malformed(DecodeError),
    Refused(MappingError),
}

impl From<DecodeError> for Unreadable {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl From<MappingError> for Unreadable {
    fn from(error: MappingError) -> Self {
        Self::Refused(error)
    }
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

/// Decodes a message. One that cannot be decoded is a message whose body is the encoded bytes, so that nothing of it is lost.
pub(crate) fn read(encoded: Bytes) -> (Message, Facts, Option<Unreadable>) {
    match decode(encoded.clone()) {
        Ok((message, facts)) => (message, facts, None),
        Err(error) => {
            let facts = facts_alone(&encoded);
            (Message::new(MessageBody::from(encoded)), facts, Some(error))
        }
    }
}

/// Returns an encoded message without its header and annotations, which may differ between deliveries.
pub(crate) fn unchanged(encoded: &Bytes) -> Bytes {
    if let Ok(split) = EncodedMessage::split(encoded.clone()) {
        return split.from_section(Section::Properties);
    }
    let encoded = behind::<Header>(encoded.clone());
    behind::<MessageAnnotations>(behind::<DeliveryAnnotations>(encoded))
}

/// Returns what follows a section, if the bytes begin with it.
fn behind<T: Decode>(encoded: Bytes) -> Bytes {
    let mut decoder = Decoder::new(&encoded);
    match decoder.decode::<T>() {
        Ok(_) => encoded.slice(decoder.offset()..),
        Err(_) => encoded,
    }
}

/// Reads what is beside a message that cannot be decoded, as far as it can be: its deliveries are counted too.
fn facts_alone(encoded: &Bytes) -> Facts {
    let mut own = Own::default();
    if let Ok(message_annotations) =
        EncodedMessage::split(encoded.clone()).and_then(|split| split.message_annotations())
    {
        own.take(&mut Sections { message_annotations, ..Sections::default() });
    }
    let header = Decoder::new(encoded).decode::<Header>();
    Facts { failed_at_broker: header.map_or(0, |header| header.delivery_count), ..own.facts }
}

fn decode(encoded: Bytes) -> Result<(Message, Facts), Unreadable> {
    let mut sections = Sections::decode(&EncodedMessage::split(encoded)?)?;
    let mut own = Own::default();
    own.take(&mut sections);
    if own.is_wrapped
        && let Body::Data(data) = &sections.body
        && let [inner] = &data[..]
    {
        let header = sections.header;
        sections = Sections::decode(&EncodedMessage::split(inner.0.clone())?)?;
        sections.header = header;
    }
    let header = sections.header.get_or_insert_default();
    let facts = Facts { failed_at_broker: header.delivery_count, ..own.facts };
    // They describe this delivery, not what its sender has set.
    header.durable = false;
    header.first_acquirer = false;
    header.delivery_count = 0;
    header.ttl = header.ttl.or(own.time_to_live);
    let mut message = InboundMessage::from_received(sections, Direction::Deliver)?.message;
    if own.facts.is_stamped
        && let Some(id) = message.message_id().map(str::to_owned)
    {
        // The id was accepted when the message was decoded.
        let _ = message.properties_mut().stamp_message_id(id);
    }
    let mut facts = facts;
    if let Some(received) = message.received() {
        facts.number = if facts.number == 0 { received.sequence_number.get() } else { facts.number };
        facts.enqueued = facts.enqueued.or(Some(received.enqueued_time).filter(|at| *at != Timestamp::EPOCH));
    }
    let created = message.pass_through().and_then(|rest| rest.creation_time);
    facts.enqueued = facts.enqueued.or(created);
    Ok((message, facts))
}

/// The annotations of this transport.
#[derive(Default)]
struct Own {
    facts: Facts,
    is_wrapped: bool,
    /// That of a dead letter, in milliseconds.
    time_to_live: Option<u32>,
}

impl Own {
    /// Takes them out of the message. Another program may have written one of another type, which is ignored.
    fn take(&mut self, sections: &mut Sections) {
        let Some(section) = &mut sections.message_annotations else { return };
        let annotations = &mut section.0;
        self.facts.number = integer(annotations, &names::NUMBER).map_or(0, i64::cast_unsigned);
        self.facts.failed = integer(annotations, &names::FAILED).and_then(|count| count.try_into().ok()).unwrap_or(0);
        self.facts.is_stamped = annotations.get(&names::STAMPED) == Some(&Value::Boolean(true));
        self.is_wrapped = annotations.get(&names::WRAPPED) == Some(&Value::Boolean(true));
        self.facts.enqueued = match annotations.get(&names::ENQUEUED) {
            Some(Value::Timestamp(at)) => Some(Timestamp::from_millis(at.0)),
            _ => None,
        };
        self.time_to_live = integer(annotations, &names::TIME_TO_LIVE).and_then(|millis| millis.try_into().ok());
        let own = [names::NUMBER, names::ENQUEUED, names::FAILED, names::TIME_TO_LIVE, names::STAMPED, names::WRAPPED];
        annotations.0.retain(|(name, _)| !own.contains(name));
    }
}

fn integer(annotations: &Annotations, name: &Symbol) -> Option<i64> {
    annotations.get(name)?.as_integer()?.try_into().ok()
}
