use super::InteropError;
use crate::message::{ApplicationProperties, Properties};

/// What another library says of a message. It fills the fields that are empty.
#[derive(Default, PartialEq)]
pub(super) struct Found {
    pub(super) message_id: Option<Box<str>>,
    pub(super) correlation_id: Option<Box<str>>,
    pub(super) content_type: Option<Box<str>>,
    pub(super) subject: Option<Box<str>>,
}

impl Found {
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
        Ok(properties.check()?)
    }
}

/// The text of a property, if it is there and not empty.
pub(super) fn text(properties: &ApplicationProperties, name: &'static str) -> Result<Option<Box<str>>, InteropError> {
    let Some(value) = properties.get(name) else { return Ok(None) };
    let text = value.as_str().ok_or(InteropError::NotText(name))?;
    Ok(Some(text).filter(|text| !text.is_empty()).map(Into::into))
}
