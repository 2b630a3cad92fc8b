use std::{borrow::Cow, collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::MassTransitLayer;
use crate::message::PropertyValue;

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

/// An envelope: the message in it, and everything else as properties.
pub(super) struct Envelope<'b> {
    pub(super) message: &'b RawValue,
    pub(super) properties: Vec<(Box<str>, PropertyValue)>,
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
        while let Some(name) = map.next_key::<String>()? {
            if seen.contains(&name) {
                return Err(A::Error::custom("a member stands twice"));
            }
            match &*name {
                "message" => message = Some(map.next_value::<&RawValue>()?),
                "messageType" => types = Some(map.next_value::<Vec<Cow<'_, str>>>()?),
                "headers" => {
                    let Entries(headers) = map.next_value()?;
                    properties.extend(headers.into_iter().map(|(name, value)| (name.into(), property(value))));
                }
                "host" => {
                    let Entries(host) = map.next_value()?;
                    let named = host.into_iter().map(|(name, value)| (prefixed("MT-Host-", &name), property(value)));
                    properties.extend(named.filter(|(_, value)| *value != PropertyValue::Null));
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
        let types = types.ok_or_else(|| A::Error::missing_field("messageType"))?;
        properties.push((MassTransitLayer::MESSAGE_TYPE.into(), PropertyValue::String(types.join(";").into())));
        Ok(Envelope { message: message.ok_or_else(|| A::Error::missing_field("message"))?, properties })
    }
}

/// The entries of an object, in their order; none of null.
struct Entries<'b>(Vec<(String, &'b RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: Error>(self) -> Result<Entries<'de>, E> {
        Ok(Entries(Vec::new()))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entries<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
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
