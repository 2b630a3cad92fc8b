//! What is different in a copy.

use bytes::Bytes;
use consign_core::message::{ApplicationProperties, MessageBody, Properties, PropertyValue, Value};

use crate::page::body::{FORMATS, codecs};

/// What is different in a copy.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Edit {
    /// The ContentType that the body is written in anew.
    pub(in super::super) transcode: Option<String>,
    pub(in super::super) content_type: Option<String>,
    pub(in super::super) subject: Option<String>,
    pub(in super::super) body: Option<Bytes>,
    /// All application properties.
    pub(in super::super) application_properties: Option<ApplicationProperties>,
}

impl Edit {
    pub(super) fn apply(&self, properties: &mut Properties, body: &mut MessageBody) -> Result<(), String> {
        if let Some(content_type) = &self.content_type {
            properties.set_content_type(content_type.clone());
        }
        if let Some(subject) = &self.subject {
            properties.set_subject(subject.clone());
        }
        if let Some(application) = &self.application_properties {
            *properties.application_properties_mut() = application.clone();
        }
        if let Some(bytes) = &self.body
            && body.codec_view() != Some(bytes)
        {
            *body = of_the_kind(body, bytes.clone());
        }
        if let Some(to) = &self.transcode {
            let bytes = body.codec_view().ok_or("the body is an AMQP value")?;
            let codecs = codecs!().map_err(|error| error.to_string())?;
            let encoded = codecs.transcode(properties.content_type(), bytes, to).map_err(|error| error.to_string())?;
            properties.set_content_type(encoded.content_type);
            *body = encoded.body.into();
        }
        Ok(())
    }

    /// Whether the format is one that bodies can be written in.
    pub(in super::super) fn is_format(format: &str) -> bool {
        FORMATS.contains(&format)
    }
}

/// Other bytes in a body of the same kind: a receiver of strings takes no data. Data if the kind cannot have these bytes.
fn of_the_kind(body: &MessageBody, bytes: Bytes) -> MessageBody {
    match body {
        MessageBody::Value(value) => match (&**value, std::str::from_utf8(&bytes)) {
            (Value::Simple(PropertyValue::String(_)), Ok(text)) => Value::Simple(text.into()).into(),
            (Value::Simple(PropertyValue::Bytes(_)), _) => Value::Simple(bytes.into()).into(),
            _ => bytes.into(),
        },
        _ => bytes.into(),
    }
}
