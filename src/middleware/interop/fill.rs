use consign_codecs::essence_of;

use super::InteropError;
use crate::{
    Message, body,
    message::{ApplicationProperties, Properties, TraceContext},
};

/// What another library says of a message. It fills the fields that are empty.
#[derive(Default, PartialEq)]
pub(super) struct Found {
    pub(super) message_id: Option<Box<str>>,
    pub(super) correlation_id: Option<Box<str>>,
    pub(super) content_type: Option<Box<str>>,
    pub(super) subject: Option<Box<str>>,
    pub(super) to: Option<Box<str>>,
}

impl Found {
    /// What a transport has delivered may be beyond the limits of what can be sent, and is not checked here.
    pub(super) fn fill(self, properties: &mut Properties) -> Result<(), InteropError> {
        if let Some(id) = self.message_id.filter(|_| properties.message_id().is_none()) {
            properties.set_message_id(id.into_string())?;
        }
        if let Some(id) = self.correlation_id.filter(|_| properties.correlation_id().is_none()) {
            properties.set_correlation_id(id.into_string());
        }
        if let Some(content_type) = self.content_type.filter(|_| properties.content_type().is_none()) {
            properties.set_content_type(content_type.into_string());
        }
        if let Some(subject) = self.subject.filter(|_| properties.subject().is_none()) {
            properties.set_subject(subject.into_string());
        }
        if let Some(to) = self.to.filter(|_| properties.to().is_none()) {
            properties.set_to(to.into_string());
        }
        Ok(())
    }
}

/// The text of a property, if it is there and not empty.
pub(super) fn text(properties: &ApplicationProperties, name: &'static str) -> Result<Option<Box<str>>, InteropError> {
    let Some(value) = properties.get(name) else { return Ok(None) };
    let text = value.as_str().ok_or(InteropError::NotText(name))?;
    Ok(Some(text).filter(|text| !text.is_empty()).map(Into::into))
}

/// The message without a byte order mark before its body, if that is JSON.
pub(super) fn without_mark(message: Message) -> Message {
    let is_json = message.content_type().is_some_and(|content_type| {
        let essence = essence_of(content_type);
        essence.get(essence.len().saturating_sub(4)..).is_some_and(|end| end.eq_ignore_ascii_case("json"))
    });
    if !is_json || !message.payload().is_some_and(|body| body.starts_with(MARK)) {
        return message;
    }
    match body::bytes(message.body()) {
        Some(body) => message.with_body(body.slice(MARK.len()..)),
        None => message,
    }
}

/// U+FEFF in UTF-8.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes the trace that MassTransit carries to where it is carried on from.
pub(super) fn carry_trace(properties: &mut Properties) {
    let is_there = [TraceContext::TRACEPARENT, TraceContext::DIAGNOSTIC_ID];
    if is_there.into_iter().any(|name| properties.application_properties().get(name).is_some()) {
        return;
    }
    if let Ok(Some(context)) = TraceContext::of(properties) {
        properties.application_properties_mut().insert(TraceContext::TRACEPARENT, context.to_string());
    }
}
