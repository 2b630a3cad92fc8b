//! Binary mode: the bindings of AMQP (1.0.3), NATS and Kafka, and that of RabbitMQ by Knative.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;

use super::{
    Attribute, CloudEvent, CloudEventError, Prefix,
    attribute::{instant_of_millis, instant_of_ticks},
    prefix::Family,
    structured,
};
use crate::{Message, body, message::PropertyValue};

/// Reads an event of binary mode, and one in structured mode that no property declares.
pub(super) fn read(message: &Message) -> Result<CloudEvent, CloudEventError> {
    let named = || {
        let properties = message.application_properties().iter();
        properties.filter_map(|(property, value)| Some((Family::split(property)?, value)))
    };
    // Other properties may begin with a prefix by chance.
    let mut counts = [false; Family::COUNT];
    let mut most = 0;
    for ((family, name), _) in named() {
        most += 1;
        counts[family as usize] |= name == "specversion";
    }
    if !counts.contains(&true) {
        let other = if most == 0 { CloudEventError::NotAnEvent } else { CloudEventError::Version };
        return structured::read_undeclared(message).unwrap_or(Err(other));
    }
    CloudEventError::check_encoding(message)?;
    let data = body::bytes(message.body()).ok_or(CloudEventError::NotBytes)?;
    let content_type = message.content_type();
    let mut declared = None;
    let mut attributes = Vec::with_capacity(most + 1);
    for ((family, name), value) in named() {
        if !counts[family as usize] || *value == PropertyValue::Null {
            continue;
        }
        let value = attribute(family, &name, value).ok_or_else(|| CloudEventError::invalid(&name))?;
        if name == "datacontenttype" {
            let text = value.to_string();
            if declared.replace(value).is_some_and(|before| before.to_string() != text) {
                return Err(CloudEventError::twice(&name));
            }
        } else {
            attributes.push((name.into(), value));
        }
    }
    // The ContentType is its place, and NATS has none.
    match (content_type, declared) {
        (Some(text), Some(declared)) if declared.as_str() != Some(text) => {
            return Err(CloudEventError::invalid("datacontenttype"));
        }
        (Some(text), _) => attributes.push(("datacontenttype".into(), text.into())),
        (None, Some(declared)) => attributes.push(("datacontenttype".into(), declared)),
        (None, None) => {}
    }
    let has_type = attributes.last().is_some_and(|(name, _): &(Box<str>, _)| &**name == "datacontenttype");
    // A body without bytes and a type is no data. With a type it may be either.
    let data = (!data.is_empty() || has_type).then_some(data);
    CloudEvent::from_parts(attributes, data)
}

fn attribute(family: Family, name: &str, value: &PropertyValue) -> Option<Attribute> {
    let integer: i128 = match value {
        PropertyValue::Bool(value) => return Some(Attribute::Boolean(*value)),
        PropertyValue::String(text) | PropertyValue::Uri(text) => return Some(Attribute::String(text.clone())),
        PropertyValue::DateTime(instant) => return Some(Attribute::String(instant.to_string().into())),
        PropertyValue::DateTimeOffset(ticks) => return Some(Attribute::String(instant_of_ticks(*ticks)?.into())),
        // Headers of Kafka are the bytes of text.
        PropertyValue::Bytes(bytes) if family == Family::Kafka => {
            return Some(Attribute::String(std::str::from_utf8(bytes).ok()?.into()));
        }
        PropertyValue::Bytes(bytes) => return Some(Attribute::String(STANDARD.encode(bytes).into())),
        PropertyValue::I8(value) => (*value).into(),
        PropertyValue::I16(value) => (*value).into(),
        PropertyValue::I32(value) => (*value).into(),
        PropertyValue::I64(value) => (*value).into(),
        PropertyValue::U8(value) => (*value).into(),
        PropertyValue::U16(value) => (*value).into(),
        PropertyValue::U32(value) => (*value).into(),
        PropertyValue::U64(value) => (*value).into(),
        _ => return None,
    };
    if name == "time" {
        return Some(Attribute::String(instant_of_millis(integer.try_into().ok()?)?.into()));
    }
    Some(Attribute::of_integer(integer))
}

pub(super) fn write(event: &CloudEvent, prefix: Prefix) -> Result<Message, CloudEventError> {
    let prefix_text = prefix.as_str();
    let mut message = Message::builder().property(format!("{prefix_text}specversion"), "1.0");
    for (name, value) in event.attributes() {
        if name == "datacontenttype" {
            message = message.content_type(value.to_string());
            continue;
        }
        let value = match value {
            Attribute::Boolean(value) if !prefix.is_text() => PropertyValue::from(*value),
            Attribute::Integer(value) if !prefix.is_text() => PropertyValue::from(*value),
            value => PropertyValue::from(value.to_string()),
        };
        message = message.property(format!("{prefix_text}{name}"), value);
    }
    // A message always has a body: that of an event without data is empty.
    Ok(message.build(event.data_bytes().map_or_else(Bytes::new, Bytes::clone))?)
}
