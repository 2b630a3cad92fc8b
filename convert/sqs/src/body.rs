//! Bodies as text.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use consign_core::{
    message::{MessageBody, Value},
    wire::json::{As, Text},
};

use crate::names;

/// The text of a body of no bytes: SQS takes no empty one.
const EMPTY: &str = "-";

/// A body as SQS takes it.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) text: String,
    /// How the text is encoded, if it is not the body itself.
    pub(crate) kind: Option<&'static str>,
    /// The lengths of the data sections, unless there is one.
    pub(crate) sections: Option<String>,
}

/// Returns `None` for a value of a type that this version does not support.
pub(crate) fn write(body: &MessageBody) -> Option<Written> {
    let json = |kind, text| Written { text: names::json(text), kind: Some(kind), sections: None };
    Some(match body {
        MessageBody::Data(data) => {
            let sections = match data.sections() {
                [_] => None,
                all => {
                    let lengths: Vec<_> = all.iter().map(|section| section.len().to_string()).collect();
                    Some(lengths.join(","))
                }
            };
            let (text, kind) = match std::str::from_utf8(data.joined()) {
                Ok("") => (EMPTY.to_owned(), Some("empty")),
                Ok(text) if names::is_text(text) => (text.to_owned(), None),
                _ => (STANDARD.encode(data.joined()), Some("base64")),
            };
            Written { text, kind, sections }
        }
        MessageBody::Value(value) => json("value", serde_json::to_string(&As::<Text, _>::new(&**value)).ok()?),
        MessageBody::Sequence(sections) => {
            let sections: Vec<Vec<_>> =
                sections.iter().map(|values| values.iter().map(As::<Text, _>::new).collect()).collect();
            json("sequence", serde_json::to_string(&sections).ok()?)
        }
    })
}

/// Returns the body, or the name of the attribute that is wrong and what was expected of it.
pub(crate) fn read(
    text: &str,
    kind: Option<&str>,
    sections: Option<&str>,
) -> Result<MessageBody, (&'static str, &'static str)> {
    let expected = (names::BODY, "base64, empty, value or sequence, and a body of that");
    let bytes = match kind {
        None => Bytes::copy_from_slice(text.as_bytes()),
        Some("empty") => Bytes::new(),
        Some("base64") => STANDARD.decode(text).map_err(|_| expected)?.into(),
        Some("value") => {
            let value: As<Text, Value> = serde_json::from_str(text).map_err(|_| expected)?;
            return Ok(value.into_inner().into());
        }
        Some("sequence") => {
            let sections: Vec<Vec<As<Text, Value>>> = serde_json::from_str(text).map_err(|_| expected)?;
            let section = |values: Vec<_>| values.into_iter().map(As::into_inner).collect();
            return Ok(MessageBody::Sequence(sections.into_iter().map(section).collect()));
        }
        Some(_) => return Err(expected),
    };
    let Some(lengths) = sections else { return Ok(bytes.into()) };
    split(lengths, bytes).ok_or((names::SECTIONS, "the lengths of the sections of the body, with commas between"))
}

fn split(lengths: &str, mut bytes: Bytes) -> Option<MessageBody> {
    let mut sections = Vec::new();
    for length in lengths.split(',').filter(|length| !length.is_empty()) {
        let length: usize = length.parse().ok()?;
        if length > bytes.len() {
            return None;
        }
        sections.push(bytes.split_to(length));
    }
    bytes.is_empty().then(|| MessageBody::sections(sections))
}
