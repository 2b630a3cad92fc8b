use std::{borrow::Cow, collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::MassTransitLayer;
use crate::message::{PropertyValue, limits};

/// Members whose value is text, and the application properties that they become: the transport headers of MassTransit
/// where it has one.
const TEXTS: [(&str, &str); 11] = [
    ("messageId", MassTransitLayer::MESSAGE_ID),
    ("requestId", MassTransitLayer::REQUEST_ID),
    ("correlationId", MassTransitLayer::CORRELATION_ID),
    ("conversationId", "ConversationId"),
    ("initiatorId", "MT-InitiatorId"),
    ("sourceAddress", "MT-Source-Address"),
    ("destinationAddress", MassTransitLayer::DESTINATION_ADDRESS),
    ("responseAddress", "MT-Response-Address"),
    ("faultAddress", "MT-Fault-Address"),
    ("expirationTime", MassTransitLayer::EXPIRATION_TIME),
    ("sentTime", MassTransitLayer::SENT_TIME),
];

const NO_TYPE: &str = "no member `messageType`";
const NO_MESSAGE: &str = "no member `message`";
const TWICE: &str = "a member occurs twice";

/// What an envelope lacks or has twice, by the error of its deserialization. The other texts of serde may quote the body.
pub(super) fn detail(error: &serde_json::Error) -> Option<&'static str> {
    let text = error.to_string();
    [NO_TYPE, NO_MESSAGE, TWICE].into_iter().find(|detail| text.starts_with(detail))
}

/// An envelope: the message in it, and everything else as properties. If a name occurs more than once, the first counts:
/// headers are the last.
pub(super) struct Envelope<'b> {
    pub(super) message: &'b RawValue,
    pub(super) properties: Vec<(Box<str>, PropertyValue)>,
    /// Whether it has more members, or entries of one, than a message may have properties. The others are not kept.
    pub(super) is_over: bool,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let mut seen = BTreeSet::new();
        let (mut message, mut types, mut properties) = (None, None, Vec::new());
        let (mut headers, mut is_over) = (Entries::default(), false);
        while let Some(mut name) = map.next_key::<String>()? {
            // MassTransit reads the names in any case; serializers with the names of C# write `Message`.
            if let Some(first) = name.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            if seen.contains(&name) {
                return Err(A::Error::custom(TWICE));
            }
            if seen.len() > limits::PROPERTIES && !["message", "messageType"].contains(&&*name) {
                is_over = true;
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match &*name {
                "message" => message = Some(map.next_value::<&RawValue>()?),
                "messageType" => types = Some(map.next_value::<Types>()?),
                "headers" => headers = map.next_value()?,
                "host" => {
                    let host: Entries = map.next_value()?;
                    is_over |= host.is_over;
                    properties.extend(host.kept.into_iter().map(|(name, value)| (prefixed("MT-Host-", &name), value)));
                }
                other => {
                    if let Some((_, property)) = TEXTS.into_iter().find(|(member, _)| *member == other) {
                        let text = map.next_value::<Option<Box<str>>>()?;
                        properties.extend(text.map(|text| (property.into(), PropertyValue::String(text))));
                    } else {
                        let value = property(map.next_value()?);
                        if value != PropertyValue::Null {
                            properties.push((prefixed("MT-", other), value));
                        }
                    }
                }
            }
            seen.insert(name);
        }
        let Types(types) = types.ok_or_else(|| A::Error::custom(NO_TYPE))?;
        properties.push((MassTransitLayer::MESSAGE_TYPE.into(), PropertyValue::String(types.into())));
        properties.extend(headers.kept.into_iter().map(|(name, value)| (name.into(), value)));
        is_over |= headers.is_over;
        Ok(Envelope { message: message.ok_or_else(|| A::Error::custom(NO_MESSAGE))?, properties, is_over })
    }
}

/// Names of types, with `;` between them.
struct Types(String);

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Types;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the names of types")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Types, A::Error> {
        let mut types = names.next_element::<String>()?.unwrap_or_else(String::new);
        while let Some(name) = names.next_element::<Cow<'_, str>>()? {
            types.push(';');
            types.push_str(&name);
        }
        Ok(Types(types))
    }
}

/// The entries of an object, in their order, without those of null.
#[derive(Default)]
struct Entries {
    kept: Vec<(String, PropertyValue)>,
    /// Whether there are more than a message may have properties. The others are not kept.
    is_over: bool,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: Error>(self) -> Result<Entries, E> {
        Ok(Entries::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entries, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Entries::default();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if value.get() == "null" {
                continue;
            }
            if entries.kept.len() == limits::PROPERTIES {
                entries.is_over = true;
            } else {
                entries.kept.push((name, property(value)));
            }
        }
        Ok(entries)
    }
}

/// The name of a member as that of a header: `machineName` is `MT-Host-MachineName`.
fn prefixed(prefix: &str, member: &str) -> Box<str> {
    let mut name = String::from(prefix);
    let mut chars = member.chars();
    name.extend(chars.next().map(|first| first.to_ascii_uppercase()));
    name.push_str(chars.as_str());
    name.into()
}

/// A value as a property: a scalar as it is, anything else as JSON.
fn property(value: &RawValue) -> PropertyValue {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Scalar {
        Null(()),
        Bool(bool),
        Integer(i64),
        Large(u64),
        Float(f64),
        String(Box<str>),
    }

    // What is deep is not a scalar, and is not looked into.
    if value.get().starts_with(['{', '[']) {
        return PropertyValue::String(value.get().into());
    }
    match serde_json::from_str(value.get()) {
        Ok(Scalar::Null(())) => PropertyValue::Null,
        Ok(Scalar::Bool(value)) => PropertyValue::Bool(value),
        Ok(Scalar::Integer(value)) => PropertyValue::I64(value),
        Ok(Scalar::Large(value)) => PropertyValue::U64(value),
        Ok(Scalar::Float(value)) => PropertyValue::F64(value),
        Ok(Scalar::String(value)) => PropertyValue::String(value),
        Err(_) => PropertyValue::String(value.get().into()),
    }
}
