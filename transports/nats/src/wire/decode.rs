//! Messages from headers and a payload.

use std::borrow::Cow;

use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use consign_core::{
    Message,
    message::{MessageBody, PassThrough, Properties, Value},
    settlement::{DeadLetter, DeadLetterReason},
    time::Timestamp,
    wire::{
        self,
        json::{As, Text},
    },
};
use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    name, plain,
    text::{unescape, untoken},
};
use crate::reply;

/// Why the headers of a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// This header of this transport has a value that it does not write.
    Header(String),
    /// The headers are larger than the properties of a message may be.
    TooLarge,
    /// The subject is that of this session, and the message is of another one.
    Session(String),
}

impl Malformed {
    /// Returns the reason and the description of its dead letter.
    pub(crate) fn why(&self) -> DeadLetter {
        match self {
            Self::Header(name) => {
                let reason = DeadLetterReason::Application("MalformedHeader".into());
                DeadLetter::new(reason, format!("the header {name:.256} cannot be read"))
            }
            Self::TooLarge => DeadLetter::header_size_exceeded(),
            Self::Session(id) => {
                let why = format!("the subject is that of the session {id:?}, and the message is of another one");
                wrong_session_subject(why)
            }
        }
    }
}

/// Returns the dead letter for a message at the subject of no session, or not at that of its own.
pub(crate) fn wrong_session_subject(why: String) -> DeadLetter {
    DeadLetter::new(DeadLetterReason::Application("WrongSessionSubject".into()), why)
}

/// Returns the message of headers and a payload. Headers of other clients override `Sb-` headers.
pub(crate) fn decode(headers: Option<&HeaderMap>, payload: Bytes) -> Result<Message, Malformed> {
    let (message, malformed) = decode_readable(headers, payload);
    malformed.map_or(Ok(message), Err)
}

/// Returns what can be read of a message. Headers of this transport that cannot are application properties of it, unchanged and
/// under their names; the error names the first of them.
pub(crate) fn decode_readable(headers: Option<&HeaderMap>, payload: Bytes) -> (Message, Option<Malformed>) {
    let Some(headers) = headers.filter(|headers| !headers.is_empty()) else {
        return (Message::new(payload), None);
    };
    let mut properties = Properties::new();
    let mut refused = Vec::new();
    for (name, values) in headers.iter() {
        let name: &str = name.as_ref();
        if !name::is_own(name) {
            continue;
        }
        let read = values.last().and_then(|value| set(&mut properties, name, &unescape(value.as_str())?));
        if read.is_none() {
            refused.push(name);
        }
    }
    note(headers, &mut properties);
    plain::read(headers, &mut properties);
    let body = body(headers, payload.clone()).unwrap_or_else(|name| {
        refused.push(name);
        payload.into()
    });
    // The headers have no order.
    refused.sort_unstable();
    for name in &refused {
        let values: Vec<&str> = headers.get_all(*name).map(HeaderValue::as_str).collect();
        properties.application_properties_mut().insert(*name, values.join(", "));
    }
    let malformed = refused.first().map(|name| Malformed::Header((*name).to_owned()));
    (Message::from_parts(properties, body), malformed)
}

/// Marks the id of a copy that this transport has made, if it has made the id too.
fn note(headers: &HeaderMap, to: &mut Properties) {
    if headers.get(name::MESSAGE_ID_STAMPED).is_some()
        && let Some(id) = to.message_id().map(str::to_owned)
    {
        // It was taken a moment ago.
        let _ = to.stamp_message_id(id);
    }
}

/// Sets the property of one header. `None` if it cannot be read; a header that is not about a property sets nothing.
fn set(to: &mut Properties, name: &str, text: &str) -> Option<()> {
    let owned = || text.to_owned();
    match name {
        "Sb-Content-Type" => drop(to.set_content_type(owned())),
        "Sb-Correlation-Id" => drop(to.set_correlation_id(owned())),
        "Sb-Message-Id" => drop(to.set_message_id(owned()).ok()?),
        "Sb-Subject" => drop(to.set_subject(owned())),
        "Sb-Reply-To" => drop(to.set_reply_to(reply::path(text).unwrap_or_else(owned))),
        "Sb-Session-Id" => drop(to.set_session_id(owned()).ok()?),
        "Sb-Reply-To-Session-Id" => drop(to.set_reply_to_session_id(owned()).ok()?),
        "Sb-Partition-Key" => drop(to.set_partition_key(owned()).ok()?),
        "Sb-Transaction-Partition-Key" => drop(to.set_transaction_partition_key(owned()).ok()?),
        "Sb-To" => drop(to.set_to(owned())),
        "Sb-Pass-Through" => *to.pass_through_mut() = pass_through(text)?,
        _ => {
            if let Some(key) = name.strip_prefix(name::PROPERTY) {
                to.application_properties_mut().insert(untoken(key)?, wire::text::read(text).ok()?);
            }
        }
    }
    Some(())
}

/// Returns the body, or the name of the header that does not describe the payload.
fn body(headers: &HeaderMap, payload: Bytes) -> Result<MessageBody, &'static str> {
    const SECTIONS: &str = "Sb-Sections";
    const BODY: &str = "Sb-Body";
    if let Some(lengths) = headers.get(name::SECTIONS) {
        return sections(lengths.as_str(), payload).ok_or(SECTIONS);
    }
    let Some(kind) = headers.get(name::BODY) else { return Ok(payload.into()) };
    let body = match kind.as_str() {
        "value" => serde_json::from_slice::<As<Text, Value>>(&payload).ok().map(|value| value.into_inner().into()),
        "sequence" => {
            let sections: Option<Vec<Vec<As<Text, Value>>>> = serde_json::from_slice(&payload).ok();
            let section = |values: Vec<_>| values.into_iter().map(As::into_inner).collect();
            sections.map(|sections| MessageBody::Sequence(sections.into_iter().map(section).collect()))
        }
        _ => None,
    };
    body.ok_or(BODY)
}

fn sections(lengths: &str, mut payload: Bytes) -> Option<MessageBody> {
    let mut sections = Vec::new();
    for length in lengths.split(',').filter(|length| !length.is_empty()) {
        let length: usize = length.parse().ok()?;
        if length > payload.len() {
            return None;
        }
        sections.push(payload.split_to(length));
    }
    payload.is_empty().then(|| MessageBody::sections(sections))
}

fn pass_through(text: &str) -> Option<PassThrough> {
    let json: Json = serde_json::from_str(text).ok()?;
    let pairs = |json: &Json| {
        let pairs = Vec::<(String, As<Text, Value>)>::deserialize(json).ok()?;
        Some(pairs.into_iter().map(|(key, value)| (Cow::Owned(key), value.into_inner())).collect::<Vec<_>>())
    };
    let mut rest = PassThrough::default();
    rest.user_id = json["user_id"].as_str().map(wire::from_hex).map_or(Some(None), |id| id.map(Some))?.map(Bytes::from);
    rest.content_encoding = json["content_encoding"].as_str().map(|text| text.to_owned().into());
    rest.group_sequence = json["group_sequence"].as_u64().and_then(|number| u32::try_from(number).ok());
    rest.creation_time = json["creation_time"].as_i64().map(Timestamp::from_millis);
    rest.durable = json["durable"].as_bool();
    rest.priority = json["priority"].as_u64().and_then(|number| u8::try_from(number).ok());
    rest.first_acquirer = json["first_acquirer"].as_bool();
    rest.force_persistence = json["force_persistence"].as_bool().unwrap_or_default();
    rest.annotations = pairs(&json["annotations"])?;
    rest.footer = pairs(&json["footer"])?;
    Some(rest)
}
