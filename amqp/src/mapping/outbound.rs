use std::{borrow::Cow, time::Duration};

use consign_core::{
    message::{Message, MessageBody, MessageState, PassThrough, PropertyValue, Received, Value as CoreValue},
    time::Timestamp as Instant,
};

use super::{
    Direction, MappingError, MappingErrorKind, annotation,
    error::Place,
    id::typed,
    received::restored,
    value::{property_to_amqp, to_amqp, to_symbol},
};
use crate::{
    codec::Limits,
    message::{
        Annotations, ApplicationProperties, Body, DeliveryAnnotations, Footer, Header, MessageAnnotations, Properties,
        Section, Sections,
    },
    value::{Binary, List, Str, Symbol, Timestamp, Value},
};

/// Annotations that are fields of a section.
pub(super) const FIELDS: [&str; 6] = [
    PassThrough::MESSAGE_ID_TYPE,
    PassThrough::CORRELATION_ID_TYPE,
    PassThrough::ABSOLUTE_EXPIRY_TIME,
    PassThrough::DELIVERY_ANNOTATIONS,
    PassThrough::NO_BODY,
    PassThrough::APPLICATION_PROPERTIES,
];

/// Converts a message into sections. The header is always one of them. A section that would be empty is none.
///
/// A sender also [stamps](stamp_expiry) when the message expires.
///
/// A ContentType or a content encoding is a symbol, which has ASCII characters only. Where a broker delivers the message, each other
/// character is a `?`, as of Azure Service Bus.
///
/// # Errors
/// - [`MappingErrorKind::TtlTooLong`]: a time to live of more than 4,294,967,295 milliseconds, in a message that is sent. One that is
///   delivered has that maximum in its header, besides its `absolute-expiry-time`. [`Duration::MAX`] stands for none.
/// - [`MappingErrorKind::NotAscii`]: the name of an annotation, or a symbol; in a message that is sent, also a ContentType or a content
///   encoding.
/// - [`MappingErrorKind::DuplicateKey`]: an annotation whose name is that of a property, and the property is set too.
/// - [`MappingErrorKind::MixedArray`], [`MappingErrorKind::TooDeep`]: a value that AMQP 1.0, or its decoders, do not have.
pub fn to_sections(message: &Message, direction: Direction) -> Result<Sections, MappingError> {
    let received = message.received().filter(|_| direction != Direction::Send);
    let properties = properties(message, received, direction)?;
    let mut application = ApplicationProperties(
        message.application_properties().iter().map(|(name, value)| (name.into(), property_to_amqp(value))).collect(),
    );
    restored(message, &mut application)?;
    let annotations = annotations(message, received, direction)?;
    let footer = footer(message.pass_through())?;
    Ok(Sections {
        header: Some(header(message, received, direction)?),
        delivery_annotations: of_sender(message).filter(|_| direction != Direction::Send).transpose()?,
        message_annotations: (!annotations.0.is_empty()).then_some(MessageAnnotations(annotations)),
        properties: (properties != Properties::default()).then_some(properties),
        application_properties: (!application.0.is_empty()).then_some(application),
        body: match message.body() {
            MessageBody::Data(data)
                if direction != Direction::Send
                    && has_no_body(message)
                    && data.sections().iter().all(bytes::Bytes::is_empty) =>
            {
                Body::default()
            }
            other => body(other)?,
        },
        footer: (!footer.0.is_empty()).then_some(Footer(footer)),
    })
}

/// Sets `creation-time`, if there is none, and `absolute-expiry-time` of a message that has a time to live, as a sender does at
/// `now`. Other messages are unchanged.
pub fn stamp_expiry(sections: &mut Sections, now: Instant) {
    if let Some(ttl) = sections.header.as_ref().and_then(|header| header.ttl) {
        let expiry = now.saturating_add(Duration::from_millis(ttl.into()));
        let properties = sections.properties.get_or_insert_default();
        properties.creation_time.get_or_insert(Timestamp(now.as_millis()));
        properties.absolute_expiry_time = Some(Timestamp(expiry.as_millis()));
    }
}

fn header(message: &Message, received: Option<&Received>, direction: Direction) -> Result<Header, MappingError> {
    let (rest, default) = (message.pass_through(), Header::default());
    let ttl = match message.time_to_live() {
        None | Some(Duration::MAX) => None,
        Some(ttl) => {
            let millis = u32::try_from(ttl.as_millis());
            // A receiver has `absolute-expiry-time` too.
            let millis = if received.is_some() { Ok(millis.unwrap_or(u32::MAX)) } else { millis };
            Some(millis.map_err(|_| Place::new(Section::Header, "ttl").error(MappingErrorKind::TtlTooLong))?)
        }
    };
    let count = received.map_or(0, |received| received.delivery_count);
    Ok(Header {
        durable: rest.and_then(|rest| rest.durable).unwrap_or(default.durable),
        priority: rest.and_then(|rest| rest.priority).unwrap_or(default.priority),
        ttl,
        first_acquirer: rest.and_then(|rest| rest.first_acquirer).unwrap_or(default.first_acquirer),
        delivery_count: if direction == Direction::Peek { count } else { count.saturating_sub(1) },
    })
}

fn properties(
    message: &Message,
    received: Option<&Received>,
    direction: Direction,
) -> Result<Properties, MappingError> {
    let rest = message.pass_through();
    let symbol = |key, text: Option<&str>| {
        // A receiver cannot refuse the message, and the rest of it is of use.
        let text = text.map(|text| if direction == Direction::Send { text.into() } else { ascii(text) });
        text.map(|text| to_symbol(&text, Place::property(key))).transpose()
    };
    // Without the field, the receiver would compute the instant from the time to live.
    let is_needed =
        |at: &Instant| *at != Instant::MAX || message.time_to_live().is_some_and(|ttl| ttl != Duration::MAX);
    let expires_at = received.map(|received| received.expires_at).filter(is_needed);
    let kept = || match rest?.annotation(PassThrough::ABSOLUTE_EXPIRY_TIME)? {
        CoreValue::Simple(PropertyValue::DateTime(at)) if received.is_none() => Some(*at),
        _ => None,
    };
    let text = |text: Option<&str>| text.map(Str::from);
    Ok(Properties {
        message_id: message.message_id().map(|id| typed(id, rest, PassThrough::MESSAGE_ID_TYPE)),
        user_id: rest.and_then(|rest| rest.user_id.clone()).map(Binary),
        to: text(message.to()),
        subject: text(message.subject()),
        reply_to: text(message.reply_to()),
        correlation_id: message.correlation_id().map(|id| typed(id, rest, PassThrough::CORRELATION_ID_TYPE)),
        content_type: symbol("content-type", message.content_type())?,
        content_encoding: symbol("content-encoding", rest.and_then(|rest| rest.content_encoding.as_deref()))?,
        absolute_expiry_time: expires_at.or_else(kept).map(timestamp),
        creation_time: rest.and_then(|rest| rest.creation_time).map(timestamp),
        group_id: text(message.session_id()),
        group_sequence: rest.and_then(|rest| rest.group_sequence),
        reply_to_group_id: text(message.reply_to_session_id()),
    })
}

fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { text.into() } else { text.replace(|c: char| !c.is_ascii(), "?").into() }
}

fn timestamp(at: Instant) -> Timestamp {
    Timestamp(at.as_millis())
}

fn annotations(
    message: &Message,
    received: Option<&Received>,
    direction: Direction,
) -> Result<Annotations, MappingError> {
    let mut out = Annotations::default();
    let mut push = |name: &'static str, value: Option<Value>| {
        if let Some(value) = value {
            out.push(Symbol::from_static(name), value);
        }
    };
    let text = |text: Option<&str>| text.map(Value::from);
    push(annotation::PARTITION_KEY, text(message.partition_key()));
    push(annotation::VIA_PARTITION_KEY, text(message.transaction_partition_key()));
    push(annotation::SCHEDULED_ENQUEUE_TIME, message.scheduled_enqueue_time().map(|at| timestamp(at).into()));
    if let Some(received) = received {
        push(annotation::ENQUEUED_TIME, Some(timestamp(received.enqueued_time).into()));
        push(annotation::SEQUENCE_NUMBER, Some(received.sequence_number.get().cast_signed().into()));
        let first = received.enqueued_sequence_number.get();
        push(annotation::ENQUEUE_SEQUENCE_NUMBER, (first != 0).then(|| first.cast_signed().into()));
        push(annotation::LOCKED_UNTIL, received.locked_until.map(|at| timestamp(at).into()));
        let state = match received.state {
            MessageState::Active => 0_i32,
            MessageState::Deferred => 1,
            MessageState::Scheduled => 2,
        };
        push(annotation::MESSAGE_STATE, (state != 0 || direction == Direction::Peek).then(|| state.into()));
        push(annotation::PARTITION_ID, received.partition_id.map(Value::from));
    }
    if direction != Direction::Send {
        push(annotation::DEADLETTER_SOURCE, text(message.dead_letter_source()));
    }
    let set = out.0.len();
    for (name, value) in message.pass_through().map_or(&[][..], |rest| &rest.annotations) {
        let place = Place::annotation(name);
        let is_of_broker = annotation::OF_BROKER.contains(&&**name);
        if FIELDS.contains(&&**name) || is_of_broker && direction == Direction::Send {
            continue;
        }
        if out.0[..set].iter().any(|(key, _)| *key == **name) {
            return Err(place.error(MappingErrorKind::DuplicateKey));
        }
        out.push(to_symbol(name, place)?, to_amqp(value, place, Limits::MAX_DEPTH)?);
    }
    Ok(out)
}

/// The delivery annotations of the sender.
fn of_sender(message: &Message) -> Option<Result<DeliveryAnnotations, MappingError>> {
    let kept = message.pass_through()?.annotation(PassThrough::DELIVERY_ANNOTATIONS)?;
    let CoreValue::Map(pairs) = kept else { return None };
    let mut out = Annotations::default();
    for (name, value) in pairs {
        // The names that were read from a sender are texts.
        let Some(name) = name.as_str() else { continue };
        let place = Place::new(Section::DeliveryAnnotations, name);
        let pair = to_symbol(name, place).and_then(|name| Ok((name, to_amqp(value, place, Limits::MAX_DEPTH)?)));
        match pair {
            Ok((name, value)) => out.push(name, value),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(DeliveryAnnotations(out)))
}

fn has_no_body(message: &Message) -> bool {
    message.pass_through().is_some_and(|rest| rest.annotation(PassThrough::NO_BODY).is_some())
}

fn footer(rest: Option<&PassThrough>) -> Result<Annotations, MappingError> {
    let mut out = Annotations::default();
    for (name, value) in rest.map_or(&[][..], |rest| &rest.footer) {
        let place = Place::new(Section::Footer, name);
        out.push(to_symbol(name, place)?, to_amqp(value, place, Limits::MAX_DEPTH)?);
    }
    Ok(out)
}

fn body(body: &MessageBody) -> Result<Body, MappingError> {
    let convert = |value: &CoreValue| to_amqp(value, Place::BODY, Limits::MAX_DEPTH);
    Ok(match body {
        MessageBody::Data(data) => Body::Data(data.sections().iter().cloned().map(Binary).collect()),
        MessageBody::Value(value) => Body::Value(convert(value)?),
        MessageBody::Sequence(sections) => {
            let list = |values: &Vec<CoreValue>| values.iter().map(convert).collect::<Result<Vec<_>, _>>().map(List);
            // A sequence without a section would be a message without a body.
            if sections.is_empty() {
                return Ok(Body::Sequence(vec![List::default()]));
            }
            Body::Sequence(sections.iter().map(list).collect::<Result<_, _>>()?)
        }
    })
}
