//! Values as text for people.

use std::fmt;

use consign_core::{message::PropertyValue, time::Timestamp};
use serde::Serialize;

use super::hex;

/// A time for people, in UTC.
pub(super) fn time(at: Timestamp) -> String {
    if at == Timestamp::MAX { "never".to_owned() } else { at.to_string() }
}

/// A number of messages, for people and for programs. A dash where they are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Count {
    Counted(usize),
    Unknown(&'static str),
}

impl From<Option<usize>> for Count {
    fn from(count: Option<usize>) -> Self {
        count.map_or(Self::Unknown("–"), Self::Counted)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(count) => count.fmt(f),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

/// Messages in a second. Empty where they are not counted.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => String::new(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// The value of an application property as text.
pub(super) fn value(value: &PropertyValue) -> String {
    match value {
        PropertyValue::String(text) | PropertyValue::Uri(text) => text.to_string(),
        PropertyValue::Bytes(bytes) => hex::digits(&bytes[..bytes.len().min(256)]),
        PropertyValue::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).to_string(),
        PropertyValue::DateTime(at) => at.to_string(),
        PropertyValue::Bool(value) => value.to_string(),
        PropertyValue::Char(value) => value.to_string(),
        PropertyValue::U8(number) => number.to_string(),
        PropertyValue::U16(number) => number.to_string(),
        PropertyValue::U32(number) => number.to_string(),
        PropertyValue::U64(number) => number.to_string(),
        PropertyValue::I8(number) => number.to_string(),
        PropertyValue::I16(number) => number.to_string(),
        PropertyValue::I32(number) => number.to_string(),
        PropertyValue::I64(number) => number.to_string(),
        PropertyValue::F32(number) => number.to_string(),
        PropertyValue::F64(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
