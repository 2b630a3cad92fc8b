//! Typed values of filters and parameters, which have the types of XML Schema and of .NET.

use std::{fmt::Write, time::Duration};

use consign_core::{message::PropertyValue, time::Timestamp};

use super::{
    DocumentError, DocumentErrorKind as Kind, duration,
    fields::TextField,
    xml::{Element, namespace},
};

const TICKS: u128 = 10_000_000;

/// Reads entries of keys and values.
pub(super) fn read_all(element: &Element) -> Result<Vec<(String, PropertyValue)>, DocumentError> {
    let entry = |entry: &Element| {
        if entry.name != "KeyValueOfstringanyType" {
            return Err(DocumentError::of(Kind::Unexpected, &entry.name));
        }
        let missing = |name| DocumentError::of(Kind::Missing, name);
        let key = entry.child("Key")?.ok_or_else(|| missing("Key"))?;
        let value = entry.child("Value")?.ok_or_else(|| missing("Value"))?;
        Ok((key.text.clone(), read(value)?))
    };
    element.children.iter().map(entry).collect()
}

/// Writes entries of keys and values.
pub(super) fn write_all(name: &str, values: &[(String, PropertyValue)]) -> Element {
    let mut element = Element::new(name);
    for (key, value) in values {
        let mut entry = Element::new("KeyValueOfstringanyType");
        entry.push(Element::with_text("Key", key));
        entry.push(write(value));
        element.push(entry);
    }
    element
}

fn read(element: &Element) -> Result<PropertyValue, DocumentError> {
    if element.nil {
        return Ok(PropertyValue::Null);
    }
    let invalid = || DocumentError::of(Kind::InvalidValue, &element.name);
    let kind = element.kind.as_deref().ok_or_else(invalid)?;
    let trimmed = element.text.trim();
    macro_rules! number {
        () => {
            trimmed.parse().ok()
        };
    }
    let value = match kind {
        "string" => Some(PropertyValue::String(element.text.clone().into())),
        "boolean" => bool::parse(trimmed).map(PropertyValue::Bool),
        "int" => number!().map(PropertyValue::I32),
        "long" => number!().map(PropertyValue::I64),
        "short" => number!().map(PropertyValue::I16),
        "byte" => number!().map(PropertyValue::I8),
        "unsignedInt" => number!().map(PropertyValue::U32),
        "unsignedLong" => number!().map(PropertyValue::U64),
        "unsignedShort" => number!().map(PropertyValue::U16),
        "unsignedByte" => number!().map(PropertyValue::U8),
        "double" => float(trimmed).map(PropertyValue::F64),
        "float" => trimmed.replace("INF", "inf").parse().ok().map(PropertyValue::F32),
        "dateTime" => Timestamp::parse(trimmed).map(PropertyValue::DateTime),
        "duration" => span(trimmed).map(PropertyValue::TimeSpan),
        "anyURI" => Some(PropertyValue::Uri(trimmed.into())),
        "char" => number!().and_then(char::from_u32).map(PropertyValue::Char),
        "guid" => uuid(trimmed).map(PropertyValue::Uuid),
        _ => None,
    };
    value.ok_or_else(invalid)
}

fn float(text: &str) -> Option<f64> {
    text.replace("INF", "inf").parse().ok()
}

fn write(value: &PropertyValue) -> Element {
    let schema = |kind: &str, text: String| typed("d6p1", namespace::SCHEMA, kind, text);
    match value {
        PropertyValue::Null => Element::new("Value").attribute("i:nil", "true"),
        PropertyValue::String(text) => schema("string", text.to_string()),
        PropertyValue::Bool(value) => schema("boolean", value.to_string()),
        PropertyValue::I32(value) => schema("int", value.to_string()),
        PropertyValue::I64(value) => schema("long", value.to_string()),
        PropertyValue::I16(value) => schema("short", value.to_string()),
        PropertyValue::I8(value) => schema("byte", value.to_string()),
        PropertyValue::U32(value) => schema("unsignedInt", value.to_string()),
        PropertyValue::U64(value) => schema("unsignedLong", value.to_string()),
        PropertyValue::U16(value) => schema("unsignedShort", value.to_string()),
        PropertyValue::U8(value) => schema("unsignedByte", value.to_string()),
        PropertyValue::F64(value) => schema("double", value.to_string().replace("inf", "INF")),
        PropertyValue::F32(value) => schema("float", value.to_string().replace("inf", "INF")),
        PropertyValue::DateTime(value) => schema("dateTime", value.to_string()),
        PropertyValue::TimeSpan(ticks) => schema("duration", write_span(*ticks)),
        PropertyValue::Uri(text) => schema("anyURI", text.to_string()),
        PropertyValue::Char(char) => typed("d6p1", namespace::SERIALIZATION, "char", u32::from(*char).to_string()),
        PropertyValue::Uuid(bytes) => typed("d6p1", namespace::SERIALIZATION, "guid", write_uuid(bytes)),
        // What has no type there.
        PropertyValue::Decimal(bytes) => schema("hexBinary", hexadecimal(bytes)),
        PropertyValue::Bytes(bytes) => schema("hexBinary", hexadecimal(bytes)),
        PropertyValue::DateTimeOffset(ticks) => schema("dateTimeOffset", ticks.to_string()),
    }
}

/// The prefixes are those that clients expect.
fn typed(prefix: &str, namespace: &str, kind: &str, text: String) -> Element {
    Element::with_text("Value", text)
        .attribute("i:type", format!("{prefix}:{kind}"))
        .attribute(&format!("xmlns:{prefix}"), namespace)
}

fn span(text: &str) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let duration = duration::read(text).filter(|duration| *duration != Duration::MAX)?;
    let ticks = i64::try_from(duration.as_nanos() / 100).ok()?;
    Some(sign * ticks)
}

fn write_span(ticks: i64) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    let ticks = u128::from(ticks.unsigned_abs());
    let seconds = u64::try_from(ticks / TICKS).unwrap_or(u64::MAX);
    let nanos = u32::try_from(ticks % TICKS * 100).unwrap_or_default();
    format!("{sign}{}", duration::write(Duration::new(seconds, nanos)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

fn write_uuid(bytes: &[u8; 16]) -> String {
    uuid::Uuid::from_bytes(*bytes).to_string()
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    uuid::Uuid::parse_str(text).ok().map(uuid::Uuid::into_bytes)
}
