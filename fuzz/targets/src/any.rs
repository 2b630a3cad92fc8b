//! A value of any self-describing format, and a message of a user.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};

/// What a self-describing format has said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Any {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Any>),
    Map(Vec<(Any, Any)>),
}

impl Any {
    /// Whether both are the same, with every bit of a float.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => {
                one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
            }
            (Self::List(one), Self::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.same(other))
            }
            (Self::Map(one), Self::Map(other)) => {
                let pairs = one.iter().zip(other);
                one.len() == other.len() && pairs.fold(true, |same, (a, b)| same && a.0.same(&b.0) && a.1.same(&b.1))
            }
            (one, other) => one == other,
        }
    }

    /// Containers inside containers, counted as the limit does.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::List(list) => 1 + list.iter().map(Self::depth).max().unwrap_or(0),
            Self::Map(map) => 1 + map.iter().map(|(key, value)| key.depth().max(value.depth())).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// The elements of all lists and the entries of all maps.
    pub(crate) fn elements(&self) -> usize {
        match self {
            Self::List(list) => list.len() + list.iter().map(Self::elements).sum::<usize>(),
            Self::Map(map) => {
                map.len() + map.iter().map(|(key, value)| key.elements() + value.elements()).sum::<usize>()
            }
            _ => 0,
        }
    }
}

impl Serialize for Any {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Unsigned(value) => serializer.serialize_u64(*value),
            Self::Signed(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::List(list) => {
                let mut seq = serializer.serialize_seq(Some(list.len()))?;
                list.iter().try_for_each(|element| seq.serialize_element(element))?;
                seq.end()
            }
            Self::Map(map) => {
                let mut entries = serializer.serialize_map(Some(map.len()))?;
                map.iter().try_for_each(|(key, value)| entries.serialize_entry(key, value))?;
                entries.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Any, E> {
        Ok(Any::Null)
    }

    fn visit_none<E>(self) -> Result<Any, E> {
        Ok(Any::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Any, D::Error> {
        Any::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Any, D::Error> {
        Any::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Any, E> {
        Ok(Any::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Any, E> {
        Ok(Any::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Any, E> {
        Ok(u64::try_from(value).map_or(Any::Signed(value), Any::Unsigned))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Any, E> {
        Ok(Any::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Any, E> {
        Ok(Any::Text(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Any, E> {
        Ok(Any::Bytes(value.to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Any, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = seq.next_element()? {
            list.push(element);
        }
        Ok(Any::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Any::Map(entries))
    }
}

/// A body with each kind of field.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) change: i32,
    pub(crate) sku: String,
    pub(crate) note: Option<String>,
    pub(crate) lines: Vec<Line>,
    pub(crate) state: State,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Line {
    pub(crate) count: u16,
    pub(crate) is_gift: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) enum State {
    Open,
    Paid { cents: u32 },
    Sent(u8, String),
}
