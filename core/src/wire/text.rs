//! Simple values as text: `TYPE:VALUE`, by the short name of the [`Type`].
//!
//! | type | value |
//! |---|---|
//! | `null` | nothing. Another text is read as nothing |
//! | `bool` | `true` or `false` |
//! | `u8` ... `u64`, `i8` ... `i64` | a decimal number within the range of the type, with `-` if it is negative. `+` is read |
//! | `f32`, `f64` | the shortest decimal number that is read as the same one, without an exponent; `inf`, `-inf`, `NaN`. An exponent is read, and so are `+`, `infinity` and other cases of letters. The sign and the bits of a NaN are not kept |
//! | `char` | one character |
//! | `s`, `uri` | the text |
//! | `decimal`, `uuid` | 32 hexadecimal digits |
//! | `time`, `offset`, `span` | a decimal number, signed, of 64 bits |
//! | `bytes` | two hexadecimal digits for each byte |
//!
//! Hexadecimal digits are written in upper case, and read in either. The text may have any character, so a header that cannot
//! hold all of them needs an escape of its own.
//!
//! ```
//! use consign_core::{message::PropertyValue, wire::text};
//!
//! assert_eq!(text::write(&PropertyValue::from(5_i32)), "i32:5");
//! assert_eq!(text::read("s:a:b")?, PropertyValue::from("a:b"));
//! # Ok::<(), consign_core::wire::Malformed>(())
//! ```

use std::str::FromStr;

use bytes::Bytes;

use super::{
    Malformed, Problem, Type,
    digits::{from_hex, upper_hex},
};
use crate::{message::PropertyValue, time::Timestamp};

/// Returns the text of a value.
#[must_use]
pub fn write(value: &PropertyValue) -> String {
    let name = Type::of(value).short_name();
    match value {
        PropertyValue::Null => format!("{name}:"),
        PropertyValue::Bool(value) => format!("{name}:{value}"),
        PropertyValue::U8(value) => format!("{name}:{value}"),
        PropertyValue::U16(value) => format!("{name}:{value}"),
        PropertyValue::U32(value) => format!("{name}:{value}"),
        PropertyValue::U64(value) => format!("{name}:{value}"),
        PropertyValue::I8(value) => format!("{name}:{value}"),
        PropertyValue::I16(value) => format!("{name}:{value}"),
        PropertyValue::I32(value) => format!("{name}:{value}"),
        PropertyValue::I64(value) | PropertyValue::DateTimeOffset(value) | PropertyValue::TimeSpan(value) => {
            format!("{name}:{value}")
        }
        PropertyValue::F32(value) => format!("{name}:{value}"),
        PropertyValue::F64(value) => format!("{name}:{value}"),
        PropertyValue::Char(value) => format!("{name}:{value}"),
        PropertyValue::String(value) | PropertyValue::Uri(value) => format!("{name}:{value}"),
        PropertyValue::Decimal(value) | PropertyValue::Uuid(value) => format!("{name}:{}", upper_hex(value)),
        PropertyValue::DateTime(value) => format!("{name}:{}", value.as_millis()),
        PropertyValue::Bytes(value) => format!("{name}:{}", upper_hex(value)),
    }
}

/// Returns the value of a text.
///
/// # Errors
///
/// [`Problem::Invalid`], at byte 0 for the type, and behind the colon for the value.
pub fn read(text: &str) -> Result<PropertyValue, Malformed> {
    let unknown = || Malformed::new(Problem::Invalid, "type of a value", 0);
    let (name, text) = text.split_once(':').ok_or_else(unknown)?;
    let kind = Type::from_short_name(name).ok_or_else(unknown)?;
    read_as(kind, text).ok_or_else(|| Malformed::new(Problem::Invalid, kind.name(), name.len() + 1))
}

fn read_as(kind: Type, text: &str) -> Option<PropertyValue> {
    fn parsed<T: FromStr + Into<PropertyValue>>(text: &str) -> Option<PropertyValue> {
        text.parse::<T>().ok().map(Into::into)
    }
    let sixteen = || from_hex(text)?.try_into().ok();
    let number = || text.parse::<i64>().ok();
    match kind {
        Type::Null => Some(PropertyValue::Null),
        Type::Bool => parsed::<bool>(text),
        Type::U8 => parsed::<u8>(text),
        Type::U16 => parsed::<u16>(text),
        Type::U32 => parsed::<u32>(text),
        Type::U64 => parsed::<u64>(text),
        Type::I8 => parsed::<i8>(text),
        Type::I16 => parsed::<i16>(text),
        Type::I32 => parsed::<i32>(text),
        Type::I64 => parsed::<i64>(text),
        Type::F32 => parsed::<f32>(text),
        Type::F64 => parsed::<f64>(text),
        Type::Char => parsed::<char>(text),
        Type::String => Some(text.into()),
        Type::Decimal => sixteen().map(PropertyValue::Decimal),
        Type::Uuid => sixteen().map(PropertyValue::Uuid),
        Type::DateTime => number().map(|millis| Timestamp::from_millis(millis).into()),
        Type::DateTimeOffset => number().map(PropertyValue::DateTimeOffset),
        Type::TimeSpan => number().map(PropertyValue::TimeSpan),
        Type::Uri => Some(PropertyValue::Uri(text.into())),
        Type::Bytes => from_hex(text).map(|bytes| Bytes::from(bytes).into()),
    }
}
