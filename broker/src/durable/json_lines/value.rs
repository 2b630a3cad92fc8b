//! Conversion of values to JSON and back.

use std::{fmt, marker::PhantomData};

use base64::{Engine, display::Base64Display, engine::general_purpose::STANDARD};
use bytes::Bytes;
use consign_core::{
    message::{ApplicationProperties, PropertyValue, Value},
    time::Timestamp,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeSeq,
};
use uuid::Uuid;

pub(super) struct Base64<B>(pub(super) B);

impl<B: AsRef<[u8]>> Serialize for Base64<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0.as_ref(), &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64<Vec<u8>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(|_| D::Error::custom("not base64"))
    }
}

impl Base64<Vec<u8>> {
    pub(super) fn bytes(self) -> Bytes {
        self.0.into()
    }
}

pub(super) struct Simple<'a>(pub(super) &'a PropertyValue);

impl Serialize for Simple<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            PropertyValue::Null => serializer.serialize_unit(),
            PropertyValue::Bool(value) => value.serialize(serializer),
            PropertyValue::I64(value) => value.serialize(serializer),
            PropertyValue::String(text) => text.serialize(serializer),
            PropertyValue::U8(value) => typed(serializer, "u8", value),
            PropertyValue::U16(value) => typed(serializer, "u16", value),
            PropertyValue::U32(value) => typed(serializer, "u32", value),
            PropertyValue::U64(value) => typed(serializer, "u64", value),
            PropertyValue::I8(value) => typed(serializer, "i8", value),
            PropertyValue::I16(value) => typed(serializer, "i16", value),
            PropertyValue::I32(value) => typed(serializer, "i32", value),
            PropertyValue::F32(value) if value.is_nan() => {
                typed(serializer, "f32", &format_args!("0x{:08x}", value.to_bits()))
            }
            PropertyValue::F32(value) => typed(serializer, "f32", &format_args!("{value:?}")),
            PropertyValue::F64(value) if value.is_nan() => {
                typed(serializer, "f64", &format_args!("0x{:016x}", value.to_bits()))
            }
            PropertyValue::F64(value) => typed(serializer, "f64", &format_args!("{value:?}")),
            PropertyValue::Char(value) => typed(serializer, "char", value),
            PropertyValue::Decimal(bytes) => typed(serializer, "decimal", &Base64(bytes)),
            PropertyValue::Uuid(bytes) => typed(serializer, "uuid", &format_args!("{}", Uuid::from_bytes_ref(bytes))),
            PropertyValue::DateTime(instant) => typed(serializer, "date_time", &instant.as_millis()),
            PropertyValue::DateTimeOffset(ticks) => typed(serializer, "date_time_offset", ticks),
            PropertyValue::TimeSpan(ticks) => typed(serializer, "time_span", ticks),
            PropertyValue::Uri(text) => typed(serializer, "uri", text),
            PropertyValue::Bytes(bytes) => typed(serializer, "bytes", &Base64(bytes)),
        }
    }
}

/// An object of the name of a type and a value of it.
pub(super) fn typed<S: Serializer>(
    serializer: S,
    name: &'static str,
    value: &(impl Serialize + ?Sized),
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_variant("Typed", 0, name, value)
}

/// What [`typed`] has written.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Typed {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    F32(String),
    F64(String),
    Char(char),
    Decimal(Base64<Vec<u8>>),
    Uuid(String),
    DateTime(i64),
    DateTimeOffset(i64),
    TimeSpan(i64),
    Uri(Box<str>),
    Bytes(Base64<Vec<u8>>),
    Symbol(Box<str>),
}

impl Typed {
    fn into_value<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Simple(match self {
            Self::U8(value) => value.into(),
            Self::U16(value) => value.into(),
            Self::U32(value) => value.into(),
            Self::U64(value) => value.into(),
            Self::I8(value) => value.into(),
            Self::I16(value) => value.into(),
            Self::I32(value) => value.into(),
            Self::F32(text) => match text.strip_prefix("0x") {
                Some(bits) => f32::from_bits(u32::from_str_radix(bits, 16).map_err(E::custom)?),
                None => text.parse().map_err(E::custom)?,
            }
            .into(),
            Self::F64(text) => match text.strip_prefix("0x") {
                Some(bits) => f64::from_bits(u64::from_str_radix(bits, 16).map_err(E::custom)?),
                None => text.parse().map_err(E::custom)?,
            }
            .into(),
            Self::Char(value) => value.into(),
            Self::Decimal(bytes) => {
                PropertyValue::Decimal(bytes.0.try_into().map_err(|_| E::custom("a decimal has 16 bytes"))?)
            }
            Self::Uuid(text) => PropertyValue::Uuid(Uuid::try_parse(&text).map_err(E::custom)?.into_bytes()),
            Self::DateTime(millis) => Timestamp::from_millis(millis).into(),
            Self::DateTimeOffset(ticks) => PropertyValue::DateTimeOffset(ticks),
            Self::TimeSpan(ticks) => PropertyValue::TimeSpan(ticks),
            Self::Uri(text) => PropertyValue::Uri(text),
            Self::Bytes(bytes) => bytes.bytes().into(),
            Self::Symbol(text) => return Ok(Value::Symbol(text)),
        }))
    }
}

pub(super) struct Any<'a>(pub(super) &'a Value);

impl Serialize for Any<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs;
        let (kind, values) = match self.0 {
            Value::Simple(value) => return Simple(value).serialize(serializer),
            Value::Symbol(text) => return typed(serializer, "symbol", text),
            Value::List(values) => ("list", values.iter().collect()),
            Value::Array(values) => ("array", values.iter().collect()),
            Value::Map(entries) => {
                pairs = entries;
                ("map", pairs.iter().flat_map(|(key, value)| [key, value]).collect::<Vec<_>>())
            }
            Value::Described(pair) => ("described", vec![&pair.0, &pair.1]),
        };
        let mut list = serializer.serialize_seq(Some(1 + values.len()))?;
        list.serialize_element(kind)?;
        for value in values {
            list.serialize_element(&Any(value))?;
        }
        list.end()
    }
}

pub(super) struct Read<T>(pub(super) T);

impl<'de> Deserialize<'de> for Read<Value> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyVisitor;
        impl<'de> Visitor<'de> for AnyVisitor {
            type Value = Read<Value>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Read(PropertyValue::Null.into()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Read(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Read(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
                i64::try_from(value).map(|value| Read(value.into())).map_err(E::custom)
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Read(text.into()))
            }

            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Read(text.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Typed::deserialize(MapAccessDeserializer::new(map))?.into_value().map(Read)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let kind: Kind = list.next_element()?.ok_or_else(|| A::Error::custom("a list begins with its kind"))?;
                let mut values = Vec::new();
                while let Some(Read(value)) = list.next_element()? {
                    values.push(value);
                }
                kind.of(values).map(Read)
            }
        }
        deserializer.deserialize_any(AnyVisitor)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    List,
    Array,
    Map,
    Described,
}

impl Kind {
    fn of<E: Error>(self, values: Vec<Value>) -> Result<Value, E> {
        match self {
            Self::List => Ok(Value::List(values)),
            Self::Array => Ok(Value::Array(values)),
            Self::Map => {
                let (mut values, mut entries) = (values.into_iter(), Vec::new());
                while let Some(key) = values.next() {
                    entries.push((key, values.next().ok_or_else(|| E::custom("a key without a value"))?));
                }
                Ok(Value::Map(entries))
            }
            Self::Described => {
                let [descriptor, value] = <[Value; 2]>::try_from(values)
                    .map_err(|_| E::custom("a described value is a descriptor and a value"))?;
                Ok(Value::Described(Box::new((descriptor, value))))
            }
        }
    }
}

/// What is written with names. A derived `Deserialize` alone would take a list too.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Read<ApplicationProperties> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PropertiesVisitor;
        impl<'de> Visitor<'de> for PropertiesVisitor {
            type Value = Read<ApplicationProperties>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("application properties")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut properties = ApplicationProperties::new();
                while let Some((key, Read(value))) = map.next_entry::<Box<str>, Read<Value>>()? {
                    let Value::Simple(value) = value else { return Err(A::Error::custom("not a simple value")) };
                    if properties.insert(key, value).is_some() {
                        return Err(A::Error::custom("two properties of one key"));
                    }
                }
                Ok(Read(properties))
            }
        }
        deserializer.deserialize_map(PropertiesVisitor)
    }
}
