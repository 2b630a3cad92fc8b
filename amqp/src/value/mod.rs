//! The values of AMQP 1.0: every primitive type, described values, lists, maps and arrays.

mod array;
mod collections;
mod scalars;
mod text;
mod value_type;

use std::fmt;

pub use self::{
    array::{Array, MixedTypes},
    collections::{Described, List, Map},
    scalars::{Decimal32, Decimal64, Decimal128, Timestamp, Uuid},
    text::{Binary, NotAscii, Str, Symbol},
    value_type::ValueType,
};

/// A value of AMQP 1.0 with its type.
///
/// Floats are equal as IEEE 754 has it: not a number is not equal to itself. `Debug` shows the size of strings and binaries,
/// never their content.
///
/// ```
/// use consign_amqp::value::{Symbol, Value};
///
/// assert_eq!(Value::from("text"), Value::String("text".into()));
/// assert_eq!(format!("{:?}", Value::from("secret")), "String(6 bytes)");
/// ```
#[derive(Clone, Default, PartialEq)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// A truth value.
    Boolean(bool),
    /// An unsigned number of 8 bits.
    Ubyte(u8),
    /// An unsigned number of 16 bits.
    Ushort(u16),
    /// An unsigned number of 32 bits.
    Uint(u32),
    /// An unsigned number of 64 bits.
    Ulong(u64),
    /// A signed number of 8 bits.
    Byte(i8),
    /// A signed number of 16 bits.
    Short(i16),
    /// A signed number of 32 bits.
    Int(i32),
    /// A signed number of 64 bits.
    Long(i64),
    /// IEEE 754, 32 bits.
    Float(f32),
    /// IEEE 754, 64 bits.
    Double(f64),
    /// IEEE 754 decimal32.
    Decimal32(Decimal32),
    /// IEEE 754 decimal64.
    Decimal64(Decimal64),
    /// IEEE 754 decimal128.
    Decimal128(Decimal128),
    /// One Unicode scalar.
    Char(char),
    /// An instant.
    Timestamp(Timestamp),
    /// A UUID.
    Uuid(Uuid),
    /// Bytes.
    Binary(Binary),
    /// Text.
    String(Str),
    /// ASCII text from a set of names.
    Symbol(Symbol),
    /// Values of any types.
    List(List),
    /// Pairs of values, in their order.
    Map(Map),
    /// Values of one type.
    Array(Array),
    /// A value with a descriptor, which gives it a meaning.
    Described(Box<Described>),
}

impl Value {
    /// Returns the type.
    #[must_use]
    pub const fn value_type(&self) -> ValueType {
        match self {
            Self::Null => ValueType::Null,
            Self::Boolean(_) => ValueType::Boolean,
            Self::Ubyte(_) => ValueType::Ubyte,
            Self::Ushort(_) => ValueType::Ushort,
            Self::Uint(_) => ValueType::Uint,
            Self::Ulong(_) => ValueType::Ulong,
            Self::Byte(_) => ValueType::Byte,
            Self::Short(_) => ValueType::Short,
            Self::Int(_) => ValueType::Int,
            Self::Long(_) => ValueType::Long,
            Self::Float(_) => ValueType::Float,
            Self::Double(_) => ValueType::Double,
            Self::Decimal32(_) => ValueType::Decimal32,
            Self::Decimal64(_) => ValueType::Decimal64,
            Self::Decimal128(_) => ValueType::Decimal128,
            Self::Char(_) => ValueType::Char,
            Self::Timestamp(_) => ValueType::Timestamp,
            Self::Uuid(_) => ValueType::Uuid,
            Self::Binary(_) => ValueType::Binary,
            Self::String(_) => ValueType::String,
            Self::Symbol(_) => ValueType::Symbol,
            Self::List(_) => ValueType::List,
            Self::Map(_) => ValueType::Map,
            Self::Array(_) => ValueType::Array,
            Self::Described(_) => ValueType::Described,
        }
    }

    /// Returns the text of a string or a symbol.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            Self::Symbol(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Returns a number of any integer type and width.
    #[must_use]
    pub fn as_integer(&self) -> Option<i128> {
        Some(match self {
            Self::Ubyte(number) => (*number).into(),
            Self::Ushort(number) => (*number).into(),
            Self::Uint(number) => (*number).into(),
            Self::Ulong(number) => (*number).into(),
            Self::Byte(number) => (*number).into(),
            Self::Short(number) => (*number).into(),
            Self::Int(number) => (*number).into(),
            Self::Long(number) => (*number).into(),
            _ => return None,
        })
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.value_type().variant();
        match self {
            Self::Null => f.write_str(name),
            Self::Boolean(value) => write!(f, "{name}({value})"),
            Self::Float(value) => write!(f, "{name}({value})"),
            Self::Double(value) => write!(f, "{name}({value})"),
            Self::Timestamp(value) => write!(f, "{name}({})", value.0),
            Self::String(text) => write!(f, "{name}({} bytes)", text.as_bytes().len()),
            Self::Symbol(text) => write!(f, "{name}({} bytes)", text.as_bytes().len()),
            Self::Binary(bytes) => write!(f, "{name}({} bytes)", bytes.0.len()),
            Self::List(list) => f.debug_tuple(name).field(&list.0).finish(),
            Self::Map(map) => f.debug_tuple(name).field(map).finish(),
            Self::Array(array) => f.debug_tuple(name).field(array).finish(),
            Self::Described(described) => f.debug_tuple(name).field(described).finish(),
            Self::Char(_) | Self::Uuid(_) | Self::Decimal32(_) | Self::Decimal64(_) | Self::Decimal128(_) => {
                write!(f, "{name}(..)")
            }
            number => write!(f, "{name}({})", number.as_integer().unwrap_or_default()),
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident;)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool => Boolean;
    u8 => Ubyte;
    u16 => Ushort;
    u32 => Uint;
    u64 => Ulong;
    i8 => Byte;
    i16 => Short;
    i32 => Int;
    i64 => Long;
    f32 => Float;
    f64 => Double;
    Decimal32 => Decimal32;
    Decimal64 => Decimal64;
    Decimal128 => Decimal128;
    char => Char;
    Timestamp => Timestamp;
    Uuid => Uuid;
    Binary => Binary;
    Str => String;
    &str => String;
    String => String;
    Symbol => Symbol;
    List => List;
    Map => Map;
    Array => Array;
    Described => Described;
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit on elements is also one on memory.
    #[test]
    fn a_value_takes_40_bytes() {
        assert_eq!(size_of::<Value>(), 40);
    }
}
