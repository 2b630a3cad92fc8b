use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use crate::serde_error::KEY_TWICE;

/// The value of a self-describing body, without a Rust type. Non-negative integers are `Unsigned`.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    F32(f32),
    F64(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    /// In their order in the body.
    Map(Vec<(Value, Value)>),
}

impl Value {
    fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns whether two values are the same. A float of 32 bits may become one of 64.
    #[expect(
        clippy::float_cmp,
        clippy::cast_possible_truncation,
        reason = "the value came through unchanged, or did not"
    )]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Unsigned(a), Self::Unsigned(b)) => a == b,
            (Self::Negative(a), Self::Negative(b)) => a == b,
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F64(a), Self::F64(b)) => a.to_bits() == b.to_bits(),
            (Self::F32(short), Self::F64(long)) => *long as f32 == *short,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b)),
            (Self::Map(a), Self::Map(b)) => {
                let is_same =
                    |((a, of_a), (b, of_b)): (&(Self, Self), &(Self, Self))| a.is_same(b) && of_a.is_same(of_b);
                a.len() == b.len() && a.iter().zip(b).all(is_same)
            }
            _ => false,
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(EXACT, Exact)
    }
}

/// The name of the newtype struct for a value that its format marks as nothing beyond its kind.
pub(crate) const EXACT: &str = "$consign::Exact";

struct Exact;

impl<'de> Visitor<'de> for Exact {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Any.expecting(f)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a self-describing value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Negative(value), Value::Unsigned))
    }

    fn visit_f32<E: Error>(self, value: f32) -> Result<Value, E> {
        Ok(Value::F32(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::F64(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(value.to_owned()))
    }

    fn visit_byte_buf<E: Error>(self, value: Vec<u8>) -> Result<Value, E> {
        Ok(Value::Bytes(value))
    }

    // No capacity is reserved by the declared length of the body.
    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        // Readers differ in which of both counts.
        let mut keys: Vec<_> = map.iter().filter_map(|(key, _): &(Value, Value)| key.as_text()).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(A::Error::custom(KEY_TWICE));
        }
        Ok(Value::Map(map))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Unsigned(value) => serializer.serialize_u64(*value),
            Self::Negative(value) => serializer.serialize_i64(*value),
            Self::F32(value) => serializer.serialize_f32(*value),
            Self::F64(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::List(values) => serializer.collect_seq(values),
            Self::Map(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}
