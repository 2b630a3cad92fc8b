use bytes::Bytes;
use consign_core::{
    message::{PropertyValue, Value},
    time::Timestamp,
};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};

use super::{Unreadable, Unwritable};

/// Levels of a value that are written. Reading stops at 128 levels of JSON, of which each of these takes up to three.
pub(super) const MAX_DEPTH: usize = 32;

/// The value of an application property.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Simple {
    Null,
    Bool(bool),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    /// Bits.
    F32(u32),
    /// Bits.
    F64(u64),
    Char(char),
    String(Box<str>),
    Decimal(String),
    Uuid(String),
    DateTime(i64),
    DateTimeOffset(i64),
    TimeSpan(i64),
    Uri(Box<str>),
    Bytes(String),
}

/// A value of a body or an annotation.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Any {
    Simple(Simple),
    Symbol(Box<str>),
    List(Vec<Any>),
    Map(Vec<(Any, Any)>),
    Array(Vec<Any>),
    Described(Box<(Any, Any)>),
}

pub(super) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

pub(super) fn from_hex(text: &str) -> Result<Vec<u8>, Unreadable> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| Unreadable::Hexadecimal)
}

fn sixteen(text: &str) -> Result<[u8; 16], Unreadable> {
    from_hex(text)?.try_into().map_err(|_| Unreadable::Hexadecimal)
}

impl Simple {
    pub(super) fn of(value: &PropertyValue) -> Result<Self, Unwritable> {
        Ok(match value {
            PropertyValue::Null => Self::Null,
            PropertyValue::Bool(value) => Self::Bool(*value),
            PropertyValue::U8(value) => Self::U8(*value),
            PropertyValue::U16(value) => Self::U16(*value),
            PropertyValue::U32(value) => Self::U32(*value),
            PropertyValue::U64(value) => Self::U64(*value),
            PropertyValue::I8(value) => Self::I8(*value),
            PropertyValue::I16(value) => Self::I16(*value),
            PropertyValue::I32(value) => Self::I32(*value),
            PropertyValue::I64(value) => Self::I64(*value),
            PropertyValue::F32(value) => Self::F32(value.to_bits()),
            PropertyValue::F64(value) => Self::F64(value.to_bits()),
            PropertyValue::Char(value) => Self::Char(*value),
            PropertyValue::String(value) => Self::String(value.clone()),
            PropertyValue::Decimal(value) => Self::Decimal(hex(value)),
            PropertyValue::Uuid(value) => Self::Uuid(hex(value)),
            PropertyValue::DateTime(value) => Self::DateTime(value.as_millis()),
            PropertyValue::DateTimeOffset(value) => Self::DateTimeOffset(*value),
            PropertyValue::TimeSpan(value) => Self::TimeSpan(*value),
            PropertyValue::Uri(value) => Self::Uri(value.clone()),
            PropertyValue::Bytes(value) => Self::Bytes(hex(value)),
            // The type may get other kinds. Stored as another value, they would be lost.
        })
    }

    pub(super) fn into_value(self) -> Result<PropertyValue, Unreadable> {
        Ok(match self {
            Self::Null => PropertyValue::Null,
            Self::Bool(value) => PropertyValue::Bool(value),
            Self::U8(value) => PropertyValue::U8(value),
            Self::U16(value) => PropertyValue::U16(value),
            Self::U32(value) => PropertyValue::U32(value),
            Self::U64(value) => PropertyValue::U64(value),
            Self::I8(value) => PropertyValue::I8(value),
            Self::I16(value) => PropertyValue::I16(value),
            Self::I32(value) => PropertyValue::I32(value),
            Self::I64(value) => PropertyValue::I64(value),
            Self::F32(bits) => PropertyValue::F32(f32::from_bits(bits)),
            Self::F64(bits) => PropertyValue::F64(f64::from_bits(bits)),
            Self::Char(value) => PropertyValue::Char(value),
            Self::String(value) => PropertyValue::String(value),
            Self::Decimal(text) => PropertyValue::Decimal(sixteen(&text)?),
            Self::Uuid(text) => PropertyValue::Uuid(sixteen(&text)?),
            Self::DateTime(millis) => PropertyValue::DateTime(Timestamp::from_millis(millis)),
            Self::DateTimeOffset(ticks) => PropertyValue::DateTimeOffset(ticks),
            Self::TimeSpan(ticks) => PropertyValue::TimeSpan(ticks),
            Self::Uri(value) => PropertyValue::Uri(value),
            Self::Bytes(text) => PropertyValue::Bytes(Bytes::from(from_hex(&text)?)),
        })
    }
}

impl Any {
    pub(super) fn of(value: &Value) -> Result<Self, Unwritable> {
        Self::at(value, 1)
    }

    fn at(value: &Value, depth: usize) -> Result<Self, Unwritable> {
        if depth > MAX_DEPTH {
            return Err(Unwritable::TooDeep);
        }
        let inner = |value: &Value| Self::at(value, depth + 1);
        Ok(match value {
            Value::Simple(simple) => Self::Simple(Simple::of(simple)?),
            Value::Symbol(text) => Self::Symbol(text.clone()),
            Value::List(values) => Self::List(values.iter().map(inner).collect::<Result<_, _>>()?),
            Value::Array(values) => Self::Array(values.iter().map(inner).collect::<Result<_, _>>()?),
            Value::Map(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| Ok((inner(key)?, inner(value)?)));
                Self::Map(pairs.collect::<Result<_, Unwritable>>()?)
            }
            Value::Described(pair) => Self::Described(Box::new((inner(&pair.0)?, inner(&pair.1)?))),
        })
    }

    pub(super) fn into_value(self) -> Result<Value, Unreadable> {
        let all = |values: Vec<Self>| values.into_iter().map(Self::into_value).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Self::Simple(simple) => Value::Simple(simple.into_value()?),
            Self::Symbol(text) => Value::Symbol(text),
            Self::List(values) => Value::List(all(values)?),
            Self::Array(values) => Value::Array(all(values)?),
            Self::Map(pairs) => {
                let pairs = pairs.into_iter().map(|(key, value)| Ok((key.into_value()?, value.into_value()?)));
                Value::Map(pairs.collect::<Result<_, Unreadable>>()?)
            }
            Self::Described(pair) => Value::Described(Box::new((pair.0.into_value()?, pair.1.into_value()?))),
        })
    }
}
