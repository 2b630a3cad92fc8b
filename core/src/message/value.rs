use std::fmt;

use bytes::Bytes;

use super::{Field, InvalidArgument, Problem};
use crate::time::Timestamp;

/// The value of an application property: the simple types of AMQP 1.0 and the three that Azure Service Bus adds.
#[derive(Clone, PartialEq)]
pub enum PropertyValue {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// An unsigned byte.
    U8(u8),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Unsigned, 64 bits.
    U64(u64),
    /// A signed byte.
    I8(i8),
    /// Signed, 16 bits.
    I16(i16),
    /// Signed, 32 bits.
    I32(i32),
    /// Signed, 64 bits.
    I64(i64),
    /// IEEE 754, 32 bits.
    F32(f32),
    /// IEEE 754, 64 bits.
    F64(f64),
    /// One Unicode scalar.
    Char(char),
    /// Text.
    String(Box<str>),
    /// An IEEE 754 decimal128, kept as its bytes.
    Decimal([u8; 16]),
    /// A UUID in network order.
    Uuid([u8; 16]),
    /// An instant, in milliseconds; what is below a millisecond is lost.
    DateTime(Timestamp),
    /// An instant in ticks of 100 ns since 0001-01-01 UTC. The offset is not kept.
    DateTimeOffset(i64),
    /// A span in ticks of 100 ns.
    TimeSpan(i64),
    /// An absolute URI.
    Uri(Box<str>),
    /// Bytes. Clients on .NET can receive them and cannot send them.
    Bytes(Bytes),
}

impl PropertyValue {
    /// A whole number that is not negative, of any width. A broker on the way may have made text of it.
    #[doc(hidden)]
    pub fn to_u64(&self) -> Option<u64> {
        match self {
            Self::U8(number) => Some((*number).into()),
            Self::U16(number) => Some((*number).into()),
            Self::U32(number) => Some((*number).into()),
            Self::U64(number) => Some(*number),
            Self::I8(number) => u64::try_from(*number).ok(),
            Self::I16(number) => u64::try_from(*number).ok(),
            Self::I32(number) => u64::try_from(*number).ok(),
            Self::I64(number) => u64::try_from(*number).ok(),
            Self::String(number) => number.parse().ok(),
            _ => None,
        }
    }

    /// Returns the text of a string or a URI.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Uri(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes that the value counts for against a size limit.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bool(_) | Self::U8(_) | Self::I8(_) => 1,
            Self::U16(_) | Self::I16(_) => 2,
            Self::U32(_) | Self::I32(_) | Self::F32(_) | Self::Char(_) => 4,
            Self::U64(_)
            | Self::I64(_)
            | Self::F64(_)
            | Self::DateTime(_)
            | Self::DateTimeOffset(_)
            | Self::TimeSpan(_) => 8,
            Self::Decimal(_) | Self::Uuid(_) => 16,
            Self::String(text) | Self::Uri(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "Null",
            Self::Bool(_) => "Bool",
            Self::U8(_) => "U8",
            Self::U16(_) => "U16",
            Self::U32(_) => "U32",
            Self::U64(_) => "U64",
            Self::I8(_) => "I8",
            Self::I16(_) => "I16",
            Self::I32(_) => "I32",
            Self::I64(_) => "I64",
            Self::F32(_) => "F32",
            Self::F64(_) => "F64",
            Self::Char(_) => "Char",
            Self::String(_) => "String",
            Self::Decimal(_) => "Decimal",
            Self::Uuid(_) => "Uuid",
            Self::DateTime(_) => "DateTime",
            Self::DateTimeOffset(_) => "DateTimeOffset",
            Self::TimeSpan(_) => "TimeSpan",
            Self::Uri(_) => "Uri",
            Self::Bytes(_) => "Bytes",
        }
    }
}

/// Shows the type and, for numbers and truth values, the value; text and bytes may be secret.
impl fmt::Debug for PropertyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.type_name();
        match self {
            Self::Null => f.write_str(name),
            Self::Bool(value) => write!(f, "{name}({value})"),
            Self::U8(value) => write!(f, "{name}({value})"),
            Self::U16(value) => write!(f, "{name}({value})"),
            Self::U32(value) => write!(f, "{name}({value})"),
            Self::U64(value) => write!(f, "{name}({value})"),
            Self::I8(value) => write!(f, "{name}({value})"),
            Self::I16(value) => write!(f, "{name}({value})"),
            Self::I32(value) => write!(f, "{name}({value})"),
            Self::I64(value) => write!(f, "{name}({value})"),
            Self::F32(value) => write!(f, "{name}({value})"),
            Self::F64(value) => write!(f, "{name}({value})"),
            _ => write!(f, "{name}({} bytes)", self.size()),
        }
    }
}

macro_rules! from {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl From<$rust> for PropertyValue {
            fn from(value: $rust) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool => Bool, u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f32 => F32, f64 => F64, char => Char, String => String, &str => String, Box<str> => String,
    Timestamp => DateTime, Bytes => Bytes,
}

/// A value of the AMQP 1.0 type system, as a body may hold it.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A simple value.
    Simple(PropertyValue),
    /// A symbol.
    Symbol(Box<str>),
    /// A list.
    List(Vec<Value>),
    /// A map, in the order in which it was sent.
    Map(Vec<(Value, Value)>),
    /// An array: all elements of one type.
    Array(Vec<Value>),
    /// A value with its descriptor.
    Described(Box<(Value, Value)>),
}

impl Value {
    /// Returns the text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Simple(PropertyValue::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns whether the value has at most this many levels: a simple value is one level, a list of simple values two.
    #[must_use]
    pub fn is_within(&self, levels: usize) -> bool {
        let Some(left) = levels.checked_sub(1) else { return false };
        let fits = |value: &Self| value.is_within(left);
        match self {
            Self::Simple(_) | Self::Symbol(_) => true,
            Self::List(values) | Self::Array(values) => values.iter().all(fits),
            Self::Map(entries) => entries.iter().all(|(key, value)| fits(key) && fits(value)),
            Self::Described(pair) => fits(&pair.0) && fits(&pair.1),
        }
    }

    /// For error texts.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Simple(PropertyValue::String(_)) => "an AMQP string value",
            Self::Simple(PropertyValue::Bytes(_)) => "an AMQP binary value",
            Self::Simple(PropertyValue::Null) => "an AMQP null value",
            Self::Simple(PropertyValue::Bool(_)) => "an AMQP boolean value",
            Self::Simple(PropertyValue::Uuid(_)) => "an AMQP uuid value",
            Self::Simple(PropertyValue::DateTime(_)) => "an AMQP timestamp value",
            Self::Simple(PropertyValue::Char(_)) => "an AMQP char value",
            Self::Described(_)
            | Self::Simple(PropertyValue::Uri(_) | PropertyValue::DateTimeOffset(_) | PropertyValue::TimeSpan(_)) => {
                "an AMQP described value"
            }
            Self::Simple(_) => "an AMQP number value",
            Self::Symbol(_) => "an AMQP symbol value",
            Self::List(_) => "an AMQP list value",
            Self::Array(_) => "an AMQP array value",
            Self::Map(_) => "an AMQP map value",
        }
    }

    pub(super) fn codec_view(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(PropertyValue::Null) => Some(&[]),
            Self::Simple(PropertyValue::Bytes(bytes)) => Some(bytes),
            Self::Simple(PropertyValue::String(text)) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// Bytes that the value counts for against a size limit. What is inside another value counts one more each, so that
    /// empty ones are bounded too.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Simple(simple) => simple.size(),
            Self::Symbol(text) => text.len(),
            Self::List(values) | Self::Array(values) => values.iter().map(Self::size_inside).sum(),
            Self::Map(entries) => entries.iter().map(|(key, value)| key.size_inside() + value.size_inside()).sum(),
            Self::Described(pair) => pair.0.size_inside() + pair.1.size_inside(),
        }
    }

    /// The size of a value in a container.
    pub(super) fn size_inside(&self) -> usize {
        1 + self.size()
    }

    /// The value as an application property called `key`. A symbol becomes text; lists, maps, arrays and described
    /// values are refused with the key and the type named.
    pub fn into_property(self, key: &str) -> Result<PropertyValue, InvalidArgument> {
        let refused = match self {
            Self::Simple(value) => return Ok(value),
            Self::Symbol(text) => return Ok(PropertyValue::String(text)),
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Array(_) => "array",
            Self::Described(_) => "described value",
        };
        Err(InvalidArgument::new(Field::application_property(key), Problem::UnsupportedType(refused)))
    }
}

impl<T: Into<PropertyValue>> From<T> for Value {
    fn from(value: T) -> Self {
        Self::Simple(value.into())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(value) => fmt::Debug::fmt(value, f),
            Self::Symbol(text) => write!(f, "Symbol({} bytes)", text.len()),
            Self::List(values) => write!(f, "List({})", values.len()),
            Self::Map(entries) => write!(f, "Map({})", entries.len()),
            Self::Array(values) => write!(f, "Array({})", values.len()),
            Self::Described(_) => f.write_str("Described"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_string_has_text() {
        for (value, text) in [
            (Value::from("abc"), Some("abc")),
            (Value::from(""), Some("")),
            (Value::from(7_u32), None),
            (Value::Symbol("abc".into()), None),
            (Value::List(vec!["abc".into()]), None),
        ] {
            assert_eq!(value.as_str(), text, "{value:?}");
        }
    }

    #[test]
    fn a_container_is_one_level_more_than_the_deepest_value_in_it() {
        let (one, two) = (Value::from("abc"), Value::List(vec!["abc".into()]));
        for (value, levels) in [
            (one.clone(), 1),
            (Value::Symbol("abc".into()), 1),
            (Value::List(vec![]), 1),
            (Value::Array(vec![one.clone()]), 2),
            (Value::List(vec![one.clone(), two.clone()]), 3),
            (Value::List(vec![two.clone(), one.clone()]), 3),
            (Value::Map(vec![(one.clone(), one.clone())]), 2),
            (Value::Map(vec![(one.clone(), two.clone())]), 3),
            (Value::Map(vec![(two.clone(), one.clone())]), 3),
            (Value::Described(Box::new((one.clone(), one.clone()))), 2),
            (Value::Described(Box::new((one.clone(), two.clone()))), 3),
            (Value::Described(Box::new((two, one))), 3),
        ] {
            assert_eq!((value.is_within(levels - 1), value.is_within(levels)), (false, true), "{value:?} {levels}");
        }
    }

    #[test]
    fn a_container_counts_its_values_and_one_more_for_each() {
        let (text, number, flag) = (Value::from("abc"), Value::from(7_u32), Value::from(true));
        for (value, size) in [
            (text.clone(), 3),
            (Value::Symbol("ab".into()), 2),
            (Value::List(vec![text.clone(), number.clone()]), 9),
            (Value::Array(vec![number.clone(); 3]), 15),
            (Value::Described(Box::new((text.clone(), flag.clone()))), 6),
            (Value::Map(vec![]), 0),
            (Value::Map(vec![(text.clone(), number.clone())]), 9),
            (Value::Map(vec![(text, number), (flag.clone(), Value::List(vec![flag]))]), 14),
        ] {
            assert_eq!((value.size(), value.size_inside()), (size, size + 1), "{value:?}");
        }
    }
}
