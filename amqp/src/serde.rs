//! Values as a serde format: [`from_value`] reads a Rust type from a [`Value`], [`to_value`] writes one.
//!
//! ```
//! use consign_amqp::{serde::{from_value, to_value}, value::{Timestamp, Value}};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Deserialize, PartialEq, Serialize)]
//! struct Order {
//!     sku: String,
//!     count: u32,
//!     placed: Timestamp,
//! }
//!
//! let order = Order { sku: "sku-7".into(), count: 3, placed: Timestamp(1_763_925_600_000) };
//! let value = to_value(&order)?;
//! let Value::Map(map) = &value else { panic!("a struct is a map") };
//! assert_eq!(map.get("count"), Some(&Value::Uint(3)));
//! assert_eq!(from_value::<Order>(&value)?, order);
//!
//! let error = from_value::<Vec<Order>>(&Value::List([Value::from("sku-7")].into_iter().collect())).unwrap_err();
//! assert_eq!(error.path(), Some("[0]"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The types are those of the table in [`consign_codecs::amqp_value`]. [`Uuid`], [`Timestamp`], [`Symbol`] and the decimals of
//! this crate are written as values of their type; in other formats they are bytes, a number of milliseconds, and text.

use consign_codecs::amqp_value::{self, Build, Name, Node, Scalar, View};
pub use consign_codecs::{
    DecodeError, EncodeError, Limits,
    amqp_value::{Deserializer, Error, SerializeError, Serializer},
};
use serde::{
    Deserialize, Serialize,
    de::{self, Unexpected, Visitor},
    ser,
};

use crate::value::{Binary, Decimal32, Decimal64, Decimal128, List, Map, Str, Symbol, Timestamp, Uuid, Value};

/// Reads a Rust type from a value, within the default [`Limits`]. It may borrow texts and bytes from the value.
///
/// # Errors
/// The value is not of the type, or exceeds a limit. The error has the [path](DecodeError::path) in the type, such as
/// `items[3].price`, and never a part of the value.
pub fn from_value<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, DecodeError> {
    from_value_within(value, &Limits::default())
}

/// Reads a Rust type from a value, within limits.
///
/// # Errors
/// As [`from_value`].
pub fn from_value_within<'de, T: Deserialize<'de>>(value: &'de Value, limits: &Limits) -> Result<T, DecodeError> {
    amqp_value::from_value(value, limits)
}

/// Writes a Rust type as a value: a struct as a map with keys of text, a sequence and a tuple as a list. An enum's variant is its
/// name or, with data, a map of one entry.
///
/// # Errors
/// A number beyond 64 bits, over 128 levels, or the type refuses.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, EncodeError> {
    amqp_value::to_value(value)
}

impl<'v> Node<'v> for &'v Value {
    type List = std::slice::Iter<'v, Value>;
    type Map = Pairs<'v>;

    fn view(self) -> View<'v, Self> {
        View::Scalar(match self {
            Value::Null => Scalar::Null,
            Value::Boolean(value) => Scalar::Boolean(*value),
            Value::Ubyte(value) => Scalar::Ubyte(*value),
            Value::Ushort(value) => Scalar::Ushort(*value),
            Value::Uint(value) => Scalar::Uint(*value),
            Value::Ulong(value) => Scalar::Ulong(*value),
            Value::Byte(value) => Scalar::Byte(*value),
            Value::Short(value) => Scalar::Short(*value),
            Value::Int(value) => Scalar::Int(*value),
            Value::Long(value) => Scalar::Long(*value),
            Value::Float(value) => Scalar::Float(*value),
            Value::Double(value) => Scalar::Double(*value),
            Value::Decimal32(value) => Scalar::Decimal(&value.0),
            Value::Decimal64(value) => Scalar::Decimal(&value.0),
            Value::Decimal128(value) => Scalar::Decimal(&value.0),
            Value::Char(value) => Scalar::Char(*value),
            Value::Timestamp(value) => Scalar::Timestamp(value.0),
            Value::Uuid(value) => Scalar::Uuid(value.0),
            Value::Binary(bytes) => Scalar::Binary(bytes),
            Value::String(text) => Scalar::String(text),
            Value::Symbol(text) => Scalar::Symbol(text),
            Value::List(list) => return View::List(list.0.iter()),
            Value::Array(array) => return View::List(array.iter()),
            Value::Map(map) => return View::Map(Pairs(map.0.iter())),
            Value::Described(described) => {
                return match (&described.descriptor, &described.value) {
                    // .NET's instants, in ticks of 100 ns since the year 1: the milliseconds since 1970.
                    (Value::Symbol(name), Value::Long(ticks)) if *name == "com.microsoft:datetime-offset" => {
                        View::Scalar(Scalar::Timestamp(amqp_value::millis_of_ticks(*ticks)))
                    }
                    (_, value) => View::Described(value),
                };
            }
        })
    }
}

/// The pairs of a map.
#[derive(Clone, Debug)]
pub struct Pairs<'v>(std::slice::Iter<'v, (Value, Value)>);

impl<'v> Iterator for Pairs<'v> {
    type Item = (&'v Value, &'v Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl Build for Value {
    fn scalar(scalar: Scalar<'_>) -> Option<Self> {
        Some(match scalar {
            Scalar::Null => Self::Null,
            Scalar::Boolean(value) => value.into(),
            Scalar::Ubyte(value) => value.into(),
            Scalar::Ushort(value) => value.into(),
            Scalar::Uint(value) => value.into(),
            Scalar::Ulong(value) => value.into(),
            Scalar::Byte(value) => value.into(),
            Scalar::Short(value) => value.into(),
            Scalar::Int(value) => value.into(),
            Scalar::Long(value) => value.into(),
            Scalar::Float(value) => value.into(),
            Scalar::Double(value) => value.into(),
            Scalar::Char(value) => value.into(),
            Scalar::String(text) => text.into(),
            Scalar::Symbol(text) => Symbol::try_from(text).ok()?.into(),
            Scalar::Binary(bytes) => Self::Binary(Binary(bytes.to_vec().into())),
            Scalar::Uuid(uuid) => Uuid(uuid).into(),
            Scalar::Timestamp(millis) => Timestamp(millis).into(),
            Scalar::Decimal(bytes) => match bytes.len() {
                4 => Decimal32(bytes.try_into().ok()?).into(),
                8 => Decimal64(bytes.try_into().ok()?).into(),
                _ => Decimal128(bytes.try_into().ok()?).into(),
            },
            _ => return None,
        })
    }

    fn list(values: Vec<Self>) -> Self {
        List(values).into()
    }

    fn map(pairs: Vec<(Self, Self)>) -> Self {
        Map(pairs).into()
    }
}

/// Bytes of a known number, which serde writes as bytes.
struct Bytes<'b>(&'b [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Reads a fixed number of bytes: bytes, or a sequence of numbers.
struct Fixed<const N: usize>(&'static str);

impl<'de, const N: usize> Visitor<'de> for Fixed<N> {
    type Value = [u8; N];

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<[u8; N], E> {
        bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))
    }

    fn visit_newtype_struct<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<[u8; N], D::Error> {
        deserializer.deserialize_bytes(self)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut bytes: A) -> Result<[u8; N], A::Error> {
        let mut out = [0; N];
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = bytes.next_element()?.ok_or_else(|| de::Error::invalid_length(at, &self))?;
        }
        Ok(out)
    }
}

macro_rules! bytes {
    ($($type:ident $name:ident $expected:literal;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_newtype_struct(Name::$name, &Bytes(&self.0))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_newtype_struct(Name::$name, Fixed($expected)).map(Self)
            }
        }
    )*};
}

bytes! {
    Uuid UUID "a UUID of 16 bytes";
    Decimal32 DECIMAL "a decimal of 4 bytes";
    Decimal64 DECIMAL "a decimal of 8 bytes";
    Decimal128 DECIMAL "a decimal of 16 bytes";
}

impl Serialize for Timestamp {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(Name::TIMESTAMP, &self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer).map(Self)
    }
}

macro_rules! texts {
    ($($text:ident $expected:literal;)*) => {$(
        impl<'de> Deserialize<'de> for $text {
            fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $text;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$text, E> {
                        Str::from(text).try_into().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    )*};
}

texts! {
    Str "text";
    Symbol "text of ASCII characters";
}

impl Serialize for Symbol {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(Name::SYMBOL, self.as_str())
    }
}

impl Serialize for Str {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
