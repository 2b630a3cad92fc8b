//! What a receiver accepts of other senders: AMQP 1.0 permits more than a message can have.

use consign_core::message::{Message, PassThrough, PropertyValue, Value as CoreValue, limits};

use super::{
    Direction, InboundMessage, MappingError,
    error::Place,
    value::{from_amqp, is_property, to_amqp},
};
use crate::{
    codec::Limits,
    message::{ApplicationProperties, MessageId, Properties, Section, Sections},
    value::Str,
};

/// The application property with a `message-id` that is too long for a MessageId. `consign-rabbitmq` has the same name for it.
const LONG_MESSAGE_ID: &str = "message_id";

impl InboundMessage {
    /// Converts decoded sections as a receiver does, which cannot refuse a message to its sender. In contrast to
    /// [`from_sections`](Self::from_sections):
    ///
    /// - an empty `message-id` and a `ttl` of 0 are as if they were absent;
    /// - a `message-id` of more than 128 UTF-16 code units is the application property `message_id`,
    ///   unless there is one of that name;
    /// - application properties that are not a simple value are in the annotation [`PassThrough::APPLICATION_PROPERTIES`], from
    ///   which [`to_sections`](super::to_sections) writes them again.
    ///
    /// # Errors
    /// Those of [`from_sections`](Self::from_sections), for everything else.
    pub fn from_received(mut sections: Sections, direction: Direction) -> Result<Self, MappingError> {
        if let Some(header) = &mut sections.header {
            header.ttl = header.ttl.filter(|millis| *millis > 0);
        }
        let long = sections.properties.as_mut().and_then(id);
        if let Some(id) = long {
            let application = &mut sections.application_properties.get_or_insert_default().0;
            if !application.iter().any(|(name, _)| *name == *LONG_MESSAGE_ID) {
                application.push((LONG_MESSAGE_ID.into(), Str::from(&*id.to_string()).into()));
            }
        }
        let kept = sections.application_properties.as_mut().map_or_else(|| Ok(Vec::new()), values)?;
        let mut inbound = Self::from_sections(sections, direction)?;
        if !kept.is_empty() {
            let annotations = &mut inbound.message.properties_mut().pass_through_mut().annotations;
            annotations.push((PassThrough::APPLICATION_PROPERTIES.into(), CoreValue::Map(kept)));
        }
        Ok(inbound)
    }
}

/// Removes an id that a message cannot have, and returns one that is too long.
fn id(properties: &mut Properties) -> Option<MessageId> {
    match units(properties.message_id.as_ref()?) {
        0 => {
            properties.message_id = None;
            None
        }
        1..=limits::ID => None,
        _ => properties.message_id.take(),
    }
}

/// The length of an id in UTF-16 code units, or in bytes if it is not too long by these.
fn units(id: &MessageId) -> usize {
    match id {
        MessageId::String(text) if text.len() <= limits::ID => text.len(),
        MessageId::String(text) => text.encode_utf16().count(),
        MessageId::Binary(bytes) => bytes.len() * 2,
        MessageId::Ulong(_) | MessageId::Uuid(_) => 1,
    }
}

/// Removes the properties that are not simple values, and returns them.
fn values(section: &mut ApplicationProperties) -> Result<Vec<(CoreValue, CoreValue)>, MappingError> {
    if section.0.iter().all(|(_, value)| is_property(value)) {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    for (name, value) in section.0.extract_if(.., |(_, value)| !is_property(value)) {
        let value = from_amqp(value, Place::new(Section::ApplicationProperties, &name), Limits::MAX_DEPTH - 1)?;
        kept.push((CoreValue::Simple(PropertyValue::String(name.as_str().into())), value));
    }
    Ok(kept)
}

/// The properties of [`PassThrough::APPLICATION_PROPERTIES`], without those of a name that the message has.
pub(super) fn restored(message: &Message, application: &mut ApplicationProperties) -> Result<(), MappingError> {
    let kept = message.pass_through().and_then(|rest| rest.annotation(PassThrough::APPLICATION_PROPERTIES));
    let Some(CoreValue::Map(kept)) = kept else { return Ok(()) };
    for (name, value) in kept {
        let Some(name) = name.as_str() else { continue };
        if application.0.iter().any(|(set, _)| *set == *name) {
            continue;
        }
        let place = Place::new(Section::ApplicationProperties, name);
        let value = to_amqp(value, place, Limits::MAX_DEPTH)?;
        application.0.push((name.into(), value));
    }
    Ok(())
}
