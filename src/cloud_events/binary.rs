//! Binary mode: the AMQP protocol binding 1.0.2, 3.1.

use bytes::Bytes;

use super::{Attribute, CloudEvent, CloudEventError};
use crate::{
    Message,
    message::{Body, PropertyValue},
};

/// Written, for selectors of JMS do not allow the other one.
const WRITTEN: &str = "cloudEvents_";
const READ: &str = "cloudEvents:";

pub(super) fn read(message: &Message) -> Result<CloudEvent, CloudEventError> {
    let properties = || message.application().iter();
    let [written, read] = [WRITTEN, READ].map(|prefix| properties().any(|(name, _)| name.starts_with(prefix)));
    let prefix = match (written, read) {
        (true, false) => WRITTEN,
        (false, true) => READ,
        (false, false) => return Err(CloudEventError::NotAnEvent),
        (true, true) => return Err(CloudEventError::twice("cloudEvents")),
    };
    let Body::Data(data) = message.body() else { return Err(CloudEventError::NotBytes) };
    let named = properties().filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, value)));
    let attributes = named.map(|(name, value)| {
        // It has a place of its own.
        if name == "datacontenttype" {
            return Err(CloudEventError::invalid(name));
        }
        let value = attribute(value).ok_or_else(|| CloudEventError::invalid(name))?;
        Ok((name.into(), value))
    });
    let content_type = message.content_type().map(|text| Ok(("datacontenttype".into(), text.into())));
    let data = data.joined().clone();
    // A body without bytes and a type is no data.
    let data = (!data.is_empty() || content_type.is_some()).then_some(data);
    CloudEvent::from_parts(attributes.chain(content_type), data)
}

fn attribute(value: &PropertyValue) -> Option<Attribute> {
    Some(match value {
        PropertyValue::Bool(value) => Attribute::Boolean(*value),
        PropertyValue::I8(value) => Attribute::Integer((*value).into()),
        PropertyValue::I16(value) => Attribute::Integer((*value).into()),
        PropertyValue::I32(value) => Attribute::Integer(*value),
        PropertyValue::I64(value) => Attribute::Integer((*value).try_into().ok()?),
        PropertyValue::U8(value) => Attribute::Integer((*value).into()),
        PropertyValue::U16(value) => Attribute::Integer((*value).into()),
        PropertyValue::String(text) | PropertyValue::Uri(text) => Attribute::String(text.clone()),
        PropertyValue::DateTime(instant) => Attribute::String(instant.to_string().into()),
        _ => return None,
    })
}

pub(super) fn write(event: &CloudEvent) -> Result<Message, CloudEventError> {
    let mut message = Message::builder().property(format!("{WRITTEN}specversion"), "1.0");
    for (name, value) in event.attributes() {
        if name == "datacontenttype" {
            message = message.content_type(value.to_string());
            continue;
        }
        let value = match value {
            Attribute::Boolean(value) => PropertyValue::from(*value),
            Attribute::Integer(value) => PropertyValue::from(*value),
            Attribute::String(text) => PropertyValue::from(text.to_string()),
        };
        message = message.property(format!("{WRITTEN}{name}"), value);
    }
    // A message always has a body: that of an event without data is empty.
    Ok(message.build(event.data_bytes().map_or_else(Bytes::new, Bytes::clone))?)
}
