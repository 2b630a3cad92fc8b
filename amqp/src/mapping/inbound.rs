use std::{borrow::Cow, time::Duration};

use consign_core::{
    message::{
        LockToken, Message, MessageBody, MessageState, PassThrough, Properties as CoreProperties, PropertyValue,
        Received, SequenceNumber, Value as CoreValue,
    },
    time::Timestamp as Instant,
};

use super::{
    Direction, MappingError, MappingErrorKind, annotation,
    error::Place,
    id::type_annotation,
    outbound::FIELDS,
    value::{from_amqp, property_from_amqp},
};
use crate::{
    codec::Limits,
    message::{
        Annotations, ApplicationProperties, Body, DeliveryAnnotations, EncodedMessage, Header, MessageId, Properties,
        Section, Sections,
    },
    value::{List, Str, Symbol, Timestamp, Uuid, Value},
};

/// A message that was read from AMQP 1.0, and what is not a part of the message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InboundMessage {
    /// The message.
    pub message: Message,
    /// `header.delivery-count`: how many deliveries have failed before.
    pub delivery_count: u32,
    /// Annotations for this receiver only.
    pub delivery_annotations: Annotations,
}

impl InboundMessage {
    /// Converts an encoded message. Texts are copied, the bytes of the body are not.
    ///
    /// # Errors
    /// [`MappingErrorKind::Malformed`] if a section is malformed, and the errors of [`InboundMessage::from_sections`].
    pub fn decode(message: &EncodedMessage, direction: Direction) -> Result<Self, MappingError> {
        let mut sections = Sections::decode(message).map_err(MappingError::malformed)?;
        if direction == Direction::Send && sections.delivery_annotations.is_none() {
            let at_the_end = message.delivery_annotations_at_the_end();
            sections.delivery_annotations = at_the_end.map_err(MappingError::malformed)?;
        }
        Self::from_sections(sections, direction)
    }

    /// Converts decoded sections.
    ///
    /// # Errors
    /// A property breaks a rule of messages, such as an id of more than 128 UTF-16 code units or a time to live of 0; a value
    /// of a type that the field or the property does not have; an application property or an annotation of [`annotation`]
    /// that occurs twice; an annotation with a reserved name. The error names the section and the key.
    pub fn from_sections(sections: Sections, direction: Direction) -> Result<Self, MappingError> {
        let Sections {
            header,
            delivery_annotations,
            message_annotations,
            properties: fields,
            application_properties,
            body,
            footer,
        } = sections;
        let mut properties = CoreProperties::new();
        let header = header.unwrap_or_default();
        header_fields(&header, &mut properties)?;
        let mut known = Known::default();
        let expiry = set_fields(fields.unwrap_or_default(), &mut properties)?;
        annotations(message_annotations.unwrap_or_default().0, direction, &mut properties, &mut known)?;
        application(application_properties.unwrap_or_default(), &mut properties)?;
        for (key, value) in footer.unwrap_or_default().0.0 {
            let value = from_amqp(value, Place::new(Section::Footer, &key), Limits::MAX_DEPTH)?;
            properties.pass_through_mut().footer.push((key.as_str().to_owned().into(), value));
        }
        // An expiry that the sender has computed is by its clock. The broker counts from the enqueued time.
        let of_sender = properties.pass_through().and_then(|rest| rest.creation_time).zip(properties.time_to_live());
        let of_sender = of_sender.map(|(created, ttl)| created.saturating_add(ttl));
        let of_broker = expiry.filter(|_| expiry != of_sender || known.enqueued_time.is_none());
        let received = known.received(&header, direction, of_broker, properties.time_to_live());
        if received.is_none()
            && let Some(expiry) = expiry
        {
            set_annotation(&mut properties, PassThrough::ABSOLUTE_EXPIRY_TIME, expiry.into());
        }
        let delivery_annotations = delivery_annotations.unwrap_or(DeliveryAnnotations(Annotations::default())).0;
        if direction == Direction::Send {
            keep(&delivery_annotations, &body, &mut properties)?;
        }
        let mut message = Message::from_parts(properties, message_body(body)?);
        if let Some(received) = received {
            message = message.with_received(received);
        }
        if let Some(source) = known.dead_letter_source {
            message = message.with_dead_letter_source(&source);
        }
        Ok(Self { message, delivery_count: header.delivery_count, delivery_annotations })
    }

    /// Returns the lock token of the delivery annotation `x-opt-lock-token`.
    ///
    /// # Errors
    /// [`MappingErrorKind::UnsupportedType`] if it is not a UUID.
    pub fn lock_token(&self) -> Result<Option<LockToken>, MappingError> {
        match self.delivery_annotations.get(annotation::LOCK_TOKEN) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Uuid(Uuid(bytes))) => Ok(Some(LockToken::from_bytes(*bytes))),
            Some(other) => Err(wrong(Place::new(Section::DeliveryAnnotations, annotation::LOCK_TOKEN), "uuid", other)),
        }
    }
}

/// What a broker has set.
#[derive(Default)]
struct Known {
    sequence_number: Option<u64>,
    enqueued_sequence_number: u64,
    enqueued_time: Option<Instant>,
    locked_until: Option<Instant>,
    state: MessageState,
    partition_id: Option<i16>,
    dead_letter_source: Option<String>,
}

impl Known {
    fn received(
        &self,
        header: &Header,
        direction: Direction,
        expiry: Option<Instant>,
        time_to_live: Option<Duration>,
    ) -> Option<Received> {
        let count = match direction {
            Direction::Send => return None,
            Direction::Deliver => header.delivery_count.saturating_add(1),
            Direction::Peek => header.delivery_count,
        };
        let enqueued = self.enqueued_time.unwrap_or(Instant::EPOCH);
        let mut received = Received::new(SequenceNumber::new(self.sequence_number?), enqueued, count);
        received.enqueued_sequence_number = SequenceNumber::new(self.enqueued_sequence_number);
        let by_ttl = || self.enqueued_time.zip(time_to_live).map(|(enqueued, ttl)| enqueued.saturating_add(ttl));
        received.expires_at = expiry.or_else(by_ttl).unwrap_or(Instant::MAX);
        received.locked_until = self.locked_until;
        received.state = self.state;
        received.partition_id = self.partition_id;
        Some(received)
    }
}

fn header_fields(header: &Header, properties: &mut CoreProperties) -> Result<(), MappingError> {
    let default = Header::default();
    if header.durable != default.durable {
        properties.pass_through_mut().durable = Some(header.durable);
    }
    if header.priority != default.priority {
        properties.pass_through_mut().priority = Some(header.priority);
    }
    if header.first_acquirer != default.first_acquirer {
        properties.pass_through_mut().first_acquirer = Some(header.first_acquirer);
    }
    if let Some(millis) = header.ttl {
        let ttl = Duration::from_millis(millis.into());
        properties.set_time_to_live(ttl).map_err(|cause| Place::new(Section::Header, "ttl").invalid(cause))?;
    }
    Ok(())
}

fn owned(text: &Str) -> Cow<'static, str> {
    text.as_str().to_owned().into()
}

/// Keeps what a message has no place for, and what the receiver gets. A lock token is of another delivery.
fn keep(sent: &Annotations, body: &Body, properties: &mut CoreProperties) -> Result<(), MappingError> {
    let mut kept = Vec::new();
    for (name, value) in sent.0.iter().filter(|(name, _)| *name != annotation::LOCK_TOKEN) {
        let value = from_amqp(value.clone(), Place::new(Section::DeliveryAnnotations, name), Limits::MAX_DEPTH - 1)?;
        kept.push((name.as_str().into(), value));
    }
    if !kept.is_empty() {
        set_annotation(properties, PassThrough::DELIVERY_ANNOTATIONS, CoreValue::Map(kept));
    }
    if matches!(body, Body::Data(sections) if sections.is_empty()) {
        set_annotation(properties, PassThrough::NO_BODY, CoreValue::Simple(PropertyValue::Null));
    }
    Ok(())
}

fn set_annotation(properties: &mut CoreProperties, name: &'static str, value: CoreValue) {
    properties.pass_through_mut().annotations.push((name.into(), value));
}

/// Sets the properties, and returns `absolute-expiry-time`.
fn set_fields(fields: Properties, properties: &mut CoreProperties) -> Result<Option<Instant>, MappingError> {
    let invalid = |key| move |cause| Place::property(key).invalid(cause);
    if let Some(id) = fields.message_id {
        properties.set_message_id(text(&id)).map_err(invalid("message-id"))?;
        if let Some(of_id) = type_annotation(&id) {
            set_annotation(properties, PassThrough::MESSAGE_ID_TYPE, of_id);
        }
    }
    if let Some(id) = fields.correlation_id {
        properties.set_correlation_id(text(&id));
        if let Some(of_id) = type_annotation(&id) {
            set_annotation(properties, PassThrough::CORRELATION_ID_TYPE, of_id);
        }
    }
    if let Some(user) = fields.user_id {
        properties.pass_through_mut().user_id = Some(user.0);
    }
    if let Some(to) = fields.to {
        properties.set_to(owned(&to));
    }
    if let Some(subject) = fields.subject {
        properties.set_subject(owned(&subject));
    }
    if let Some(reply_to) = fields.reply_to {
        properties.set_reply_to(owned(&reply_to));
    }
    if let Some(content_type) = fields.content_type {
        properties.set_content_type(content_type.as_str().to_owned());
    }
    if let Some(encoding) = fields.content_encoding {
        properties.pass_through_mut().content_encoding = Some(encoding.as_str().to_owned().into());
    }
    if let Some(Timestamp(millis)) = fields.creation_time {
        properties.pass_through_mut().creation_time = Some(Instant::from_millis(millis));
    }
    if let Some(session) = fields.group_id {
        properties.set_session_id(owned(&session)).map_err(invalid("group-id"))?;
    }
    if let Some(sequence) = fields.group_sequence {
        properties.pass_through_mut().group_sequence = Some(sequence);
    }
    if let Some(session) = fields.reply_to_group_id {
        properties.set_reply_to_session_id(owned(&session)).map_err(invalid("reply-to-group-id"))?;
    }
    Ok(fields.absolute_expiry_time.map(|Timestamp(millis)| Instant::from_millis(millis)))
}

fn text(id: &MessageId) -> Cow<'static, str> {
    id.to_string().into()
}

/// Sets the known annotations, and keeps the others. A known one that occurs twice is refused, null is none.
fn annotations(
    annotations: Annotations,
    direction: Direction,
    properties: &mut CoreProperties,
    known: &mut Known,
) -> Result<(), MappingError> {
    let is_received = direction != Direction::Send && annotations.get(annotation::SEQUENCE_NUMBER).is_some();
    let mut seen = Vec::new();
    for (key, value) in annotations.0 {
        let name = key.as_str();
        let place = Place::annotation(name);
        let is_of_broker = annotation::OF_BROKER.contains(&name);
        let is_of_sender =
            [annotation::PARTITION_KEY, annotation::VIA_PARTITION_KEY, annotation::SCHEDULED_ENQUEUE_TIME]
                .contains(&name);
        if FIELDS.contains(&name) {
            return Err(place.error(MappingErrorKind::Reserved));
        }
        if is_of_broker && direction == Direction::Send {
            continue;
        }
        let is_known = is_of_sender || is_of_broker && is_received;
        if !is_known {
            let value = from_amqp(value, place, Limits::MAX_DEPTH)?;
            properties.pass_through_mut().annotations.push((name.to_owned().into(), value));
            continue;
        }
        if seen.contains(&key) {
            return Err(place.error(MappingErrorKind::DuplicateKey));
        }
        if value != Value::Null {
            one(&key, &value, properties, known)?;
        }
        seen.push(key);
    }
    Ok(())
}

/// Sets one known annotation.
fn one(key: &Symbol, value: &Value, properties: &mut CoreProperties, known: &mut Known) -> Result<(), MappingError> {
    let place = Place::annotation(key);
    match key.as_str() {
        annotation::PARTITION_KEY => {
            properties.set_partition_key(key_text(value, place)?).map_err(|cause| place.invalid(cause))?;
        }
        annotation::VIA_PARTITION_KEY => {
            properties.set_transaction_partition_key(key_text(value, place)?).map_err(|cause| place.invalid(cause))?;
        }
        annotation::SCHEDULED_ENQUEUE_TIME => {
            properties.set_scheduled_enqueue_time(instant(value, place)?);
        }
        annotation::SEQUENCE_NUMBER => known.sequence_number = Some(bits(value, place)?),
        annotation::ENQUEUE_SEQUENCE_NUMBER => known.enqueued_sequence_number = bits(value, place)?,
        annotation::ENQUEUED_TIME => known.enqueued_time = Some(instant(value, place)?),
        annotation::LOCKED_UNTIL => known.locked_until = Some(instant(value, place)?),
        annotation::MESSAGE_STATE => {
            known.state = match value.as_integer() {
                Some(0) => MessageState::Active,
                Some(1) => MessageState::Deferred,
                Some(2) => MessageState::Scheduled,
                _ => return Err(wrong(place, "int from 0 to 2", value)),
            };
        }
        annotation::DEADLETTER_SOURCE => known.dead_letter_source = Some(string(value, place)?),
        annotation::PARTITION_ID => {
            let id = value.as_integer().and_then(|id| id.try_into().ok());
            known.partition_id = Some(id.ok_or_else(|| wrong(place, "short", value))?);
        }
        _ => {}
    }
    Ok(())
}

#[cold]
fn wrong(place: Place<'_>, expected: &'static str, found: &Value) -> MappingError {
    place.error(MappingErrorKind::UnsupportedType).expected(expected).found(found.value_type().name())
}

fn string(value: &Value, place: Place<'_>) -> Result<String, MappingError> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(place, "string", value))
}

/// A client of the Azure SDK for Python that sends a received message again writes its texts as bytes.
fn key_text(value: &Value, place: Place<'_>) -> Result<String, MappingError> {
    match value {
        Value::Binary(bytes) => str::from_utf8(&bytes.0).map(str::to_owned).map_err(|_| wrong(place, "string", value)),
        _ => string(value, place),
    }
}

fn instant(value: &Value, place: Place<'_>) -> Result<Instant, MappingError> {
    match value {
        Value::Timestamp(Timestamp(millis)) => Ok(Instant::from_millis(*millis)),
        other => Err(wrong(place, "timestamp", other)),
    }
}

/// The 64 bits of a sequence number.
fn bits(value: &Value, place: Place<'_>) -> Result<u64, MappingError> {
    let number = value.as_integer();
    let signed = number.and_then(|number| i64::try_from(number).ok()).map(i64::cast_unsigned);
    let unsigned = || number.and_then(|number| u64::try_from(number).ok());
    signed.or_else(unsigned).ok_or_else(|| wrong(place, "long", value))
}

fn application(application: ApplicationProperties, properties: &mut CoreProperties) -> Result<(), MappingError> {
    for (name, value) in application.0 {
        let value = property_from_amqp(&name, value)?;
        if properties.application_properties_mut().insert(name.as_str(), value).is_some() {
            let place = Place::new(Section::ApplicationProperties, &name);
            return Err(place.error(MappingErrorKind::DuplicateKey));
        }
    }
    Ok(())
}

fn message_body(body: Body) -> Result<MessageBody, MappingError> {
    let convert = |value| from_amqp(value, Place::BODY, Limits::MAX_DEPTH);
    Ok(match body {
        Body::Data(sections) => MessageBody::sections(sections.into_iter().map(|bytes| bytes.0).collect()),
        Body::Sequence(sections) => {
            let section = |List(values): List| values.into_iter().map(convert).collect::<Result<Vec<_>, _>>();
            MessageBody::Sequence(sections.into_iter().map(section).collect::<Result<_, _>>()?)
        }
        Body::Value(value) => MessageBody::Value(Box::new(convert(value)?)),
    })
}
