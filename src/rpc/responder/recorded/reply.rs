use std::fmt;

use crate::{
    Message,
    message::{MessageBody, Properties, TraceContext},
};

/// A reply that was sent: the body, its ContentType, and the texts of a fault. All else is made anew for whom it is
/// sent to again.
#[derive(Clone)]
pub struct RecordedReply {
    content_type: Option<Box<str>>,
    properties: Vec<(Box<str>, Box<str>)>,
    body: MessageBody,
}

/// The first byte of what [`RecordedReply::to_bytes`] makes.
const FORMAT: u8 = 1;

impl RecordedReply {
    /// Of a reply as a responder makes it: the body is bytes, the properties are texts.
    pub(super) fn of(reply: &Message) -> Self {
        let properties = reply.application_properties().iter();
        // A trace goes on from its own request.
        let properties = properties.filter(|(name, _)| !TraceContext::PROPERTIES.contains(name));
        Self {
            content_type: reply.content_type().map(Box::from),
            properties: properties.filter_map(|(name, value)| Some((name.into(), value.as_str()?.into()))).collect(),
            body: reply.body().clone(),
        }
    }

    /// The reply again, with these properties besides its own.
    pub(in crate::rpc::responder) fn into_message(self, mut properties: Properties) -> Message {
        if let Some(content_type) = self.content_type {
            properties.set_content_type(String::from(content_type));
        }
        for (name, value) in self.properties {
            properties.application_properties_mut().insert(String::from(name), String::from(value));
        }
        Message::from_parts(properties, self.body)
    }

    /// Returns how many bytes it has, the ContentType and the texts of a fault included.
    #[must_use]
    pub fn size(&self) -> usize {
        let texts = self.properties.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.body.size() + self.content_type.as_ref().map_or(0, |text| text.len()) + texts
    }

    /// Returns the encoded reply for a persistent store, readable by this version and by later
    /// ones.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size() + 64);
        bytes.push(FORMAT);
        write_text(&mut bytes, self.content_type.as_deref().unwrap_or_default());
        write_length(&mut bytes, self.properties.len());
        for (name, value) in &self.properties {
            write_text(&mut bytes, name);
            write_text(&mut bytes, value);
        }
        bytes.extend_from_slice(self.body.codec_view().unwrap_or_default());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) made. `None` if it did not make this.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&format, mut rest) = bytes.split_first()?;
        if format != FORMAT {
            return None;
        }
        let content_type = read_text(&mut rest)?;
        let mut properties = Vec::new();
        for _ in 0..read_length(&mut rest)? {
            properties.push((read_text(&mut rest)?.into(), read_text(&mut rest)?.into()));
        }
        let content_type = Some(content_type).filter(|text| !text.is_empty()).map(Box::from);
        Some(Self { content_type, properties, body: MessageBody::from(rest.to_vec()) })
    }
}

/// The longest text of a reply is far shorter than 4 GiB.
fn write_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

fn write_text(bytes: &mut Vec<u8>, text: &str) {
    write_length(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u32::from_le_bytes(*length)).ok()
}

fn read_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = read_length(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// Shows how much there is, never what.
impl fmt::Debug for RecordedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedReply")
            .field("content_type", &self.content_type)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Fault;

    fn same(one: &RecordedReply, other: &RecordedReply) -> bool {
        let message = |reply: &RecordedReply| {
            let message = reply.clone().into_message(Properties::new());
            (message.properties().clone(), message.payload().map(<[u8]>::to_vec))
        };
        message(one) == message(other)
    }

    /// Rules: W-17.
    #[test]
    fn a_reply_is_the_same_after_it_was_bytes() {
        let mut fault = Message::new("");
        Fault::application("Zero").with_detail("dé").write(fault.properties_mut());
        let json = Message::builder().content_type("application/json").property("traceparent", "00").build("{}");
        for reply in [fault, json.unwrap(), Message::new(vec![0xff; 3]), Message::new("")] {
            let recorded = RecordedReply::of(&reply);
            let bytes = recorded.to_bytes();
            assert!(same(&recorded, &RecordedReply::from_bytes(&bytes).unwrap()));
        }
    }

    /// Rules: W-17.
    #[test]
    fn bytes_of_anything_else_are_no_reply() {
        let mut fault = Message::new("");
        Fault::application("Zero").with_detail("detail").write(fault.properties_mut());
        let bytes = RecordedReply::of(&fault).to_bytes();
        for end in 0..bytes.len() {
            assert!(RecordedReply::from_bytes(&bytes[..end]).is_none(), "cut after {end}");
        }
        for at in 0..bytes.len() {
            for byte in 0..=u8::MAX {
                let mut other = bytes.clone();
                other[at] = byte;
                // It may be another reply; it is no panic and no huge allocation.
                let _ = RecordedReply::from_bytes(&other);
            }
        }
        assert!(RecordedReply::from_bytes(&[&[2], &bytes[1..]].concat()).is_none(), "a later format");
    }
}
