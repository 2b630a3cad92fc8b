//! Structured mode: the JSON event format 1.0.2.

use std::{borrow::Cow, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use consign_codecs::ContentType;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Attribute, CloudEvent, CloudEventError};
use crate::Message;

const CONTENT_TYPE: &str = "application/cloudevents+json; charset=UTF-8";

pub(super) enum Kind {
    Event,
    Batch,
}

/// What a ContentType says of events, if anything.
pub(super) fn kind(content_type: &str) -> Option<Kind> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/cloudevents+json") {
        Some(Kind::Event)
    } else if essence.eq_ignore_ascii_case("application/cloudevents-batch+json") {
        Some(Kind::Batch)
    } else {
        None
    }
}

/// How data of a type is in JSON, if it can be.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Json,
    Text,
    Base64,
}

impl Form {
    fn of(content_type: Option<&str>) -> Self {
        let Some(content_type) = content_type else { return Self::Json };
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // The format says it of any type whose subtype is json or ends in it.
        if essence.ends_with("/json") || essence.ends_with("+json") {
            Self::Json
        } else if essence.starts_with("text/") || essence.ends_with("/xml") || essence.ends_with("+xml") {
            Self::Text
        } else {
            Self::Base64
        }
    }
}

/// The members of an object, in their order, each as it stands there.
struct Members<'b>(Vec<(Cow<'b, str>, &'b RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, _>()? {
            members.push((name.into(), value));
        }
        Ok(Members(members))
    }
}

/// Strings, booleans and integers of 32 bits, and null for what is not there.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Null(()),
    Boolean(bool),
    Integer(i32),
    String(Box<str>),
}

pub(super) fn read(message: &Message) -> Result<CloudEvent, CloudEventError> {
    let charset = ContentType::parse(message.content_type().unwrap_or_default());
    if charset.parameter("charset").is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
        return Err(CloudEventError::Json);
    }
    let body = message.payload().ok_or(CloudEventError::NotBytes)?;
    let Members(mut members) = serde_json::from_slice(body).map_err(|_| CloudEventError::Json)?;
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(CloudEventError::twice(&pair[0].0));
    }
    let (mut data, mut base64, mut attributes) = (None, None, Vec::new());
    for (name, value) in members {
        match &*name {
            "data" => data = Some(value),
            "data_base64" => base64 = Some(value),
            _ => {
                let scalar = serde_json::from_str(value.get()).map_err(|_| CloudEventError::invalid(&name))?;
                let value = match scalar {
                    Scalar::Null(()) => continue,
                    Scalar::Boolean(value) => Attribute::Boolean(value),
                    Scalar::Integer(value) => Attribute::Integer(value),
                    Scalar::String(value) => Attribute::String(value),
                };
                attributes.push((Box::from(name), value));
            }
        }
    }
    let content_type = attributes.iter().find(|(name, _)| &**name == "datacontenttype");
    let form = Form::of(content_type.and_then(|(_, value)| value.as_str()));
    let text = |value: &RawValue| serde_json::from_str::<String>(value.get()).map_err(|_| CloudEventError::Data);
    let data = match (data, base64) {
        (Some(_), Some(_)) => return Err(CloudEventError::Data),
        (None, None) => None,
        (Some(value), None) if form == Form::Json => Some(Bytes::copy_from_slice(value.get().as_bytes())),
        (Some(value), None) => Some(text(value)?.into()),
        (None, Some(value)) => Some(STANDARD.decode(text(value)?).map_err(|_| CloudEventError::Data)?.into()),
    };
    CloudEvent::from_parts(attributes.into_iter().map(Ok), data)
}

pub(super) fn write(event: &CloudEvent) -> Result<Message, CloudEventError> {
    let mut json = String::from(r#"{"specversion":"1.0""#);
    for (name, value) in event.attributes() {
        let value = match value {
            Attribute::String(text) => quoted(text),
            other => other.to_string(),
        };
        json.extend([",\"", name, "\":", &value]);
    }
    if let Some(data) = event.data() {
        let form = Form::of(event.data_content_type());
        let text = std::str::from_utf8(data).ok();
        let raw = text.filter(|_| form == Form::Json).filter(|text| serde_json::from_str::<&RawValue>(text).is_ok());
        let (member, value) = match (raw, text) {
            (Some(raw), _) => ("data", raw.trim().to_owned()),
            (None, Some(text)) if form == Form::Text => ("data", quoted(text)),
            _ => ("data_base64", quoted(&STANDARD.encode(data))),
        };
        json.extend([",\"", member, "\":", &value]);
    }
    json.push('}');
    Ok(Message::builder().content_type(CONTENT_TYPE).build(json)?)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
