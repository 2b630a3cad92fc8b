//! The values of `values.json`, read by serde as what they describe.
//!
//! This is the third opinion: neither a codec of the library nor one of the peers takes part in the expected value.

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IntoDeserializer, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::Value;

/// A description: JSON itself, or an object whose first member begins with `$`.
#[derive(Clone, Copy)]
pub(crate) struct Described<'a>(pub(crate) &'a Value);

enum Kind<'a> {
    Plain(&'a Value),
    Special { name: &'a str, value: &'a Value, object: &'a serde_json::Map<String, Value> },
}

impl<'a> Described<'a> {
    /// The expected value as one of type `T`.
    pub(crate) fn expected<T: Deserialize<'a>>(self) -> Result<T, value::Error> {
        T::deserialize(self)
    }

    fn kind(self) -> Kind<'a> {
        let special = self.0.as_object().and_then(|object| {
            let (name, value) = object.iter().find(|(name, _)| name.starts_with('$'))?;
            Some(Kind::Special { name, value, object })
        });
        special.unwrap_or(Kind::Plain(self.0))
    }

    /// Whether it stands for no value.
    fn is_nothing(self) -> bool {
        match self.kind() {
            Kind::Plain(value) => value.is_null(),
            Kind::Special { name, .. } => name == "$undefined",
        }
    }
}

/// Of an integral float the integer.
macro_rules! integers {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
            match self.kind() {
                Kind::Special { name: "$float", value, .. } => {
                    integer(value.as_str().unwrap_or_default().trim_end_matches(".0"), visitor)
                }
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'a> IntoDeserializer<'a> for Described<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Described<'de> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let (name, value, object) = match self.kind() {
            Kind::Plain(value) => return plain(value, visitor),
            Kind::Special { name, value, object } => (name, value, object),
        };
        let text = value.as_str().unwrap_or_default();
        let times = object.get("times").map_or(1, |times| times.as_u64().unwrap_or_default()) as usize;
        match name {
            "$int" | "$bigint" => integer(text, visitor),
            "$float" => visitor.visit_f64(text.parse().map_err(value::Error::custom)?),
            "$text" => visitor.visit_string(text.repeat(times)),
            "$bytes" => visitor.visit_byte_buf(hexadecimal(text)?.repeat(times)),
            "$array" => visitor.visit_seq(value::SeqDeserializer::new(std::iter::repeat_n(Described(value), times))),
            "$set" => plain(value, visitor),
            "$typed" => plain(&object["of"], visitor),
            "$map" => {
                let pairs =
                    value.as_array().into_iter().flatten().map(|pair| (Described(&pair[0]), Described(&pair[1])));
                visitor.visit_map(value::MapDeserializer::new(pairs))
            }
            "$undefined" => visitor.visit_unit(),
            "$now" | "$date" => visitor.visit_i64(value.as_i64().unwrap_or_default()),
            "$uuid" => visitor.visit_byte_buf(hexadecimal(&text.replace('-', ""))?),
            _ => Err(value::Error::custom(format!("unknown kind {name}"))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        if self.is_nothing() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        match self.0 {
            Value::Object(object) => {
                let pairs = object.iter().map(|(name, value)| (name.as_str(), Described(value)));
                visitor.visit_enum(value::MapAccessDeserializer::new(value::MapDeserializer::new(pairs)))
            }
            value => visitor.visit_enum(value.as_str().unwrap_or_default().into_deserializer()),
        }
    }

    // `Vec<u8>` is a sequence for serde, whatever a producer makes of it.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        match self.kind() {
            Kind::Special { name: "$bytes", value, .. } => {
                let bytes = hexadecimal(value.as_str().unwrap_or_default())?;
                visitor.visit_seq(value::SeqDeserializer::new(bytes.into_iter()))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    // It makes `Uuid` read bytes, as the binary formats do.
    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

fn plain<'de, V: Visitor<'de>>(value: &'de Value, visitor: V) -> Result<V::Value, value::Error> {
    match value {
        Value::Null => visitor.visit_unit(),
        Value::Bool(value) => visitor.visit_bool(*value),
        Value::Number(number) => integer(&number.to_string(), visitor),
        Value::String(text) => visitor.visit_borrowed_str(text),
        Value::Array(items) => visitor.visit_seq(value::SeqDeserializer::new(items.iter().map(Described))),
        Value::Object(object) => {
            let pairs = object.iter().map(|(name, value)| (name.as_str(), Described(value)));
            visitor.visit_map(value::MapDeserializer::new(pairs))
        }
    }
}

fn integer<'de, V: Visitor<'de>>(digits: &str, visitor: V) -> Result<V::Value, value::Error> {
    if let Ok(value) = digits.parse() {
        visitor.visit_u64(value)
    } else if let Ok(value) = digits.parse() {
        visitor.visit_i64(value)
    } else if let Ok(value) = digits.parse() {
        visitor.visit_i128(value)
    } else {
        visitor.visit_u128(digits.parse().map_err(value::Error::custom)?)
    }
}

fn hexadecimal(text: &str) -> Result<Vec<u8>, value::Error> {
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2).unwrap_or_default());
    pairs.map(|pair| u8::from_str_radix(pair, 16).map_err(value::Error::custom)).collect()
}
