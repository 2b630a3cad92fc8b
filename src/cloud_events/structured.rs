//! Structured mode: the JSON event format 1.0.2.

use std::{borrow::Cow, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use consign_codecs::essence_of;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Attribute, CloudEvent, CloudEventError};
use crate::{
    Message,
    message::{Field, InvalidArgument, Problem, limits},
};

/// To the byte what the SDK for JavaScript looks for.
const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";
const BATCH_CONTENT_TYPE: &str = "application/cloudevents-batch+json; charset=utf-8";

/// What the types of all formats begin with.
const MEDIA_TYPE: &str = "application/cloudevents";

pub(super) enum Kind {
    Event,
    Batch,
    /// Either of them, in another format.
    Other,
}

/// The kind that a ContentType names, if it is one of CloudEvents. It is compared without regard to case and
/// parameters: the charset of JSON is UTF-8, whatever is declared.
pub(super) fn kind(content_type: &str) -> Option<Kind> {
    let essence = essence_of(content_type);
    if essence.eq_ignore_ascii_case("application/cloudevents+json") {
        Some(Kind::Event)
    } else if essence.eq_ignore_ascii_case("application/cloudevents-batch+json") {
        Some(Kind::Batch)
    } else if essence.get(..MEDIA_TYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(MEDIA_TYPE)) {
        Some(Kind::Other)
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
        let essence = essence_of(content_type).to_ascii_lowercase();
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

/// The members of an object, in their order, each as it stands there. Of too many, one more than [`MOST`] is kept.
struct Members<'b>(Vec<(Cow<'b, str>, &'b RawValue)>);

/// Most members of an event: the properties that a message in binary mode may have, and those of the ContentType and the data.
const MOST: usize = limits::PROPERTIES + 2;

/// Refuses an event of more members than that.
pub(super) fn check_members(count: usize) -> Result<(), CloudEventError> {
    if count > MOST {
        let limit = limits::PROPERTIES;
        return Err(InvalidArgument::new(Field::Properties, Problem::TooMany { limit }).into());
    }
    Ok(())
}

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
            if members.len() <= MOST {
                members.push((name.into(), value));
            }
        }
        Ok(Members(members))
    }
}

/// Strings, booleans and integers, and null for what is not there.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Null(()),
    Boolean(bool),
    Integer(i64),
    Large(u64),
    String(Box<str>),
}

/// The JSON of a message, without a byte order mark.
fn json_of(message: &Message) -> Result<&[u8], CloudEventError> {
    CloudEventError::check_encoding(message)?;
    Ok(without_mark(message.payload().ok_or(CloudEventError::NotBytes)?))
}

/// Skips a byte order mark.
pub(super) fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json)
}

pub(super) fn read(message: &Message) -> Result<CloudEvent, CloudEventError> {
    read_json(json_of(message)?)
}

/// Reads the event of a message whose ContentType is not that of an event, as Dapr sends it to a consumer without its SDK: a JSON
/// object with `specversion`. Any other message is `None`.
#[cold]
pub(super) fn read_undeclared(message: &Message) -> Option<Result<CloudEvent, CloudEventError>> {
    if !message.content_type().is_none_or(may_be_json) {
        return None;
    }
    let body = match json_of(message) {
        Ok(body) => body,
        Err(CloudEventError::NotBytes) => return None,
        Err(error) => return Some(Err(error)),
    };
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let Members(members) = serde_json::from_slice(body).ok()?;
    members.iter().any(|(name, _)| name == "specversion").then(|| event(members))
}

/// Whether a ContentType is that of JSON, or what clients set if the program sets none.
fn may_be_json(content_type: &str) -> bool {
    let essence = essence_of(content_type);
    ["", "application/json", "text/plain", "application/octet-stream"]
        .iter()
        .any(|known| essence.eq_ignore_ascii_case(known))
}

pub(super) fn read_batch(message: &Message) -> Result<Vec<CloudEvent>, CloudEventError> {
    let Elements(elements) =
        serde_json::from_slice(json_of(message)?).map_err(|error| CloudEventError::json(&error))?;
    elements
}

/// The events of an array, or the error of the first that cannot be read.
struct Elements(Result<Vec<CloudEvent>, CloudEventError>);

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Array)
    }
}

struct Array;

impl<'de> Visitor<'de> for Array {
    type Value = Elements;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Elements, A::Error> {
        let mut events = Ok(Vec::new());
        while let Some(element) = elements.next_element::<&RawValue>()? {
            let Ok(read) = &mut events else { continue };
            let index = read.len();
            match read_json(element.get().as_bytes()) {
                Ok(event) => read.push(event),
                Err(error) => events = Err(CloudEventError::in_batch(index, error)),
            }
        }
        Ok(Elements(events))
    }
}

pub(super) fn read_json(body: &[u8]) -> Result<CloudEvent, CloudEventError> {
    let Members(members) = serde_json::from_slice(body).map_err(|error| CloudEventError::json(&error))?;
    event(members)
}

fn event(mut members: Vec<(Cow<'_, str>, &RawValue)>) -> Result<CloudEvent, CloudEventError> {
    check_members(members.len())?;
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(CloudEventError::twice(&pair[0].0));
    }
    let (mut data, mut base64, mut attributes) = (None, None, Vec::new());
    for (name, value) in members {
        match &*name {
            "data" => data = Some(value),
            // Unlike data, which may be the null of JSON.
            "data_base64" => base64 = Some(value).filter(|value| value.get() != "null"),
            _ => {
                let scalar = serde_json::from_str(value.get()).map_err(|_| CloudEventError::invalid(&name))?;
                let value = match scalar {
                    Scalar::Null(()) => continue,
                    Scalar::Boolean(value) => Attribute::Boolean(value),
                    Scalar::Integer(value) => Attribute::of_integer(value.into()),
                    Scalar::Large(value) => Attribute::of_integer(value.into()),
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
    CloudEvent::from_parts(attributes, data)
}

pub(super) fn write(event: &CloudEvent) -> Result<Message, CloudEventError> {
    Ok(Message::builder().content_type(CONTENT_TYPE).build(json(event))?)
}

pub(super) fn write_batch(events: &[CloudEvent]) -> Result<Message, CloudEventError> {
    let mut array = String::from("[");
    for (index, event) in events.iter().enumerate() {
        event.check_names().map_err(|error| CloudEventError::in_batch(index, error))?;
        if index > 0 {
            array.push(',');
        }
        array.push_str(&json(event));
    }
    array.push(']');
    Ok(Message::builder().content_type(BATCH_CONTENT_TYPE).build(array)?)
}

fn json(event: &CloudEvent) -> String {
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
        // White space around it would be that of the event.
        let raw = text
            .filter(|_| form == Form::Json)
            .filter(|text| serde_json::from_str::<&RawValue>(text).is_ok_and(|value| value.get().len() == text.len()));
        let (member, value) = match (raw, text) {
            (Some(raw), _) => ("data", raw.to_owned()),
            (None, Some(text)) if form == Form::Text => ("data", quoted(text)),
            _ => ("data_base64", quoted(&STANDARD.encode(data))),
        };
        json.extend([",\"", member, "\":", &value]);
    }
    json.push('}');
    json
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
