//! The value of an expression.

use consign_core::message::PropertyValue;

/// Ticks of 100 ns from 0001-01-01 to 1970-01-01.
pub(super) const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
/// Ticks of 100 ns in a millisecond.
pub(super) const TICKS_PER_MS: i64 = 10_000;

/// A value, of the message or of the rule where possible.
#[derive(Clone, Debug)]
pub(super) enum Operand<'a> {
    Unknown,
    Value(&'a PropertyValue),
    Text(&'a str),
    Owned(PropertyValue),
}

/// What operators see of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum View<'a> {
    Unknown,
    Bool(bool),
    /// Within the ranges of the signed and unsigned integers of 64 bits.
    Integer(i128),
    Float(f64),
    Text(&'a str),
    Char(char),
    /// An instant, in ticks of 100 ns since 0001-01-01.
    Instant(i128),
    /// A span, in ticks of 100 ns.
    Span(i64),
    Uuid(&'a [u8; 16]),
    Decimal(&'a [u8; 16]),
    Bytes(&'a [u8]),
}

impl Operand<'_> {
    pub(super) fn view(&self) -> View<'_> {
        match self {
            Self::Unknown => View::Unknown,
            Self::Value(value) => View::of(value),
            Self::Text(text) => View::Text(text),
            Self::Owned(value) => View::of(value),
        }
    }

    /// As the value of a user property; unknown is null.
    pub(super) fn into_value(self) -> PropertyValue {
        match self {
            Self::Unknown => PropertyValue::Null,
            Self::Value(value) => value.clone(),
            Self::Text(text) => text.into(),
            Self::Owned(value) => value,
        }
    }
}

impl<'a> View<'a> {
    fn of(value: &'a PropertyValue) -> Self {
        match value {
            PropertyValue::Null => Self::Unknown,
            PropertyValue::Bool(value) => Self::Bool(*value),
            PropertyValue::U8(value) => Self::Integer((*value).into()),
            PropertyValue::U16(value) => Self::Integer((*value).into()),
            PropertyValue::U32(value) => Self::Integer((*value).into()),
            PropertyValue::U64(value) => Self::Integer((*value).into()),
            PropertyValue::I8(value) => Self::Integer((*value).into()),
            PropertyValue::I16(value) => Self::Integer((*value).into()),
            PropertyValue::I32(value) => Self::Integer((*value).into()),
            PropertyValue::I64(value) => Self::Integer((*value).into()),
            PropertyValue::F32(value) => Self::Float((*value).into()),
            PropertyValue::F64(value) => Self::Float(*value),
            PropertyValue::Char(value) => Self::Char(*value),
            PropertyValue::String(text) | PropertyValue::Uri(text) => Self::Text(text),
            PropertyValue::Decimal(bytes) => Self::Decimal(bytes),
            PropertyValue::Uuid(bytes) => Self::Uuid(bytes),
            PropertyValue::DateTime(time) => {
                Self::Instant(i128::from(time.as_millis()) * i128::from(TICKS_PER_MS) + i128::from(EPOCH_TICKS))
            }
            PropertyValue::DateTimeOffset(ticks) => Self::Instant((*ticks).into()),
            PropertyValue::TimeSpan(ticks) => Self::Span(*ticks),
            PropertyValue::Bytes(bytes) => Self::Bytes(bytes),
        }
    }

    /// The text, where the value is one; a character is text too, and needs a place to be.
    pub(super) fn text(self, place: &'a mut [u8; 4]) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Char(char) => Some(char.encode_utf8(place)),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as in C#, an integer beside a floating-point number becomes one")]
    pub(super) fn float(self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
    }
}
