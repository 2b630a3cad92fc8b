//! Application properties as headers.

use bytes::Bytes;
use consign_core::{message::PropertyValue, time::Timestamp};
use lapin::types::{AMQPValue, DecimalValue};
use uuid::Uuid;

/// The type of a property whose header does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    U64,
    F32,
    F64,
    Char,
    Decimal,
    Uuid,
    DateTime,
    DateTimeOffset,
    TimeSpan,
    Uri,
}

impl Type {
    const ALL: [(Self, &'static str); 10] = [
        (Self::U64, "u64"),
        (Self::F32, "f32"),
        (Self::F64, "f64"),
        (Self::Char, "char"),
        (Self::Decimal, "decimal128"),
        (Self::Uuid, "uuid"),
        (Self::DateTime, "datetime"),
        (Self::DateTimeOffset, "datetime-offset"),
        (Self::TimeSpan, "timespan"),
        (Self::Uri, "uri"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

/// Returns a value as a header, and its type where the header does not have it. A reader without the types sees the same number
/// or text.
pub(super) fn write(value: &PropertyValue) -> (AMQPValue, Option<Type>) {
    match value {
        PropertyValue::Null => (AMQPValue::Void, None),
        PropertyValue::Bool(value) => (AMQPValue::Boolean(*value), None),
        PropertyValue::U8(value) => (AMQPValue::ShortShortUInt(*value), None),
        PropertyValue::U16(value) => (AMQPValue::ShortUInt(*value), None),
        PropertyValue::U32(value) => (AMQPValue::LongUInt(*value), None),
        PropertyValue::U64(value) => (text(&value.to_string()), Some(Type::U64)),
        PropertyValue::I8(value) => (AMQPValue::ShortShortInt(*value), None),
        PropertyValue::I16(value) => (AMQPValue::ShortInt(*value), None),
        PropertyValue::I32(value) => (AMQPValue::LongInt(*value), None),
        PropertyValue::I64(value) => (AMQPValue::LongLongInt(*value), None),
        // RabbitMQ closes the connection for a float that is not a finite number.
        PropertyValue::F32(value) if !value.is_finite() => (text(&value.to_string()), Some(Type::F32)),
        PropertyValue::F64(value) if !value.is_finite() => (text(&value.to_string()), Some(Type::F64)),
        PropertyValue::F32(value) => (AMQPValue::Float(*value), None),
        PropertyValue::F64(value) => (AMQPValue::Double(*value), None),
        PropertyValue::Char(value) => (text(value.encode_utf8(&mut [0; 4])), Some(Type::Char)),
        PropertyValue::String(value) => (text(value), None),
        PropertyValue::Decimal(value) => match scaled(*value) {
            Some(decimal) => (AMQPValue::DecimalValue(decimal), None),
            None => (AMQPValue::ByteArray(value[..].into()), Some(Type::Decimal)),
        },
        PropertyValue::Uuid(value) => (text(&Uuid::from_bytes(*value).to_string()), Some(Type::Uuid)),
        PropertyValue::DateTime(value) => match whole_seconds(*value) {
            Some(seconds) => (AMQPValue::Timestamp(seconds), None),
            None => (AMQPValue::LongLongInt(value.as_millis()), Some(Type::DateTime)),
        },
        PropertyValue::DateTimeOffset(value) => (AMQPValue::LongLongInt(*value), Some(Type::DateTimeOffset)),
        PropertyValue::TimeSpan(value) => (AMQPValue::LongLongInt(*value), Some(Type::TimeSpan)),
        PropertyValue::Uri(value) => (text(value), Some(Type::Uri)),
        PropertyValue::Bytes(value) => (AMQPValue::ByteArray(value[..].into()), None),
    }
}

/// Returns a value inside a list or a map as a part of a header. Its encoding is the same in all versions: a reader compares the
/// header with the annotation that it was written from.
pub(super) fn write_nested(value: &PropertyValue) -> AMQPValue {
    match value {
        PropertyValue::Decimal(value) => AMQPValue::ByteArray(value[..].into()),
        PropertyValue::DateTime(value) => AMQPValue::LongLongInt(value.as_millis()),
        value => write(value).0,
    }
}

pub(super) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// Returns the value of a header; `None` for a table or an array, which a property cannot be. A type that does not match the
/// header is ignored.
pub(super) fn read(header: &AMQPValue, kind: Option<Type>) -> Option<PropertyValue> {
    if let Some(value) = kind.and_then(|kind| read_as(header, kind)) {
        return Some(value);
    }
    Some(match header {
        AMQPValue::Void => PropertyValue::Null,
        AMQPValue::Boolean(value) => (*value).into(),
        AMQPValue::ShortShortInt(value) => (*value).into(),
        AMQPValue::ShortShortUInt(value) => (*value).into(),
        AMQPValue::ShortInt(value) => (*value).into(),
        AMQPValue::ShortUInt(value) => (*value).into(),
        AMQPValue::LongInt(value) => (*value).into(),
        AMQPValue::LongUInt(value) => (*value).into(),
        AMQPValue::LongLongInt(value) => (*value).into(),
        AMQPValue::Float(value) => (*value).into(),
        AMQPValue::Double(value) => (*value).into(),
        AMQPValue::ShortString(value) => value.as_str().into(),
        AMQPValue::LongString(value) => match str::from_utf8(value.as_bytes()) {
            Ok(text) => text.into(),
            Err(_) => Bytes::copy_from_slice(value.as_bytes()).into(),
        },
        AMQPValue::ByteArray(value) => Bytes::copy_from_slice(value.as_slice()).into(),
        // Seconds, from another publisher.
        AMQPValue::Timestamp(seconds) => {
            Timestamp::from_millis(i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)).into()
        }
        AMQPValue::DecimalValue(value) => PropertyValue::Decimal(decimal(value.scale, value.value)),
        AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) => return None,
    })
}

/// The bias of the exponent of a decimal128, and the bits of its coefficient.
const BIAS: u128 = 6_176;
const COEFFICIENT: u128 = (1 << 113) - 1;

/// A signed number of digits of which `scale` are behind the point, as an IEEE 754 decimal128 with a binary coefficient.
fn decimal(scale: u8, value: u32) -> [u8; 16] {
    let value = value.cast_signed();
    let sign = u128::from(value < 0) << 127;
    (sign | (BIAS - u128::from(scale)) << 113 | u128::from(value.unsigned_abs())).to_be_bytes()
}

/// Returns the decimal of AMQP 0-9-1 that is read as the same bits; `None` if there is none.
fn scaled(bytes: [u8; 16]) -> Option<DecimalValue> {
    let bits = u128::from_be_bytes(bytes);
    let magnitude = i64::try_from(bits & COEFFICIENT).ok()?;
    let is_negative = bits >> 127 == 1;
    let value = i32::try_from(if is_negative { -magnitude } else { magnitude }).ok()?.cast_unsigned();
    let scale = u8::try_from(BIAS.checked_sub(bits << 1 >> 114)?).ok()?;
    // A negative zero has another sign, and an infinity no exponent.
    (decimal(scale, value) == bytes).then_some(DecimalValue { scale, value })
}

/// Returns a time since 1970 that has no milliseconds.
fn whole_seconds(at: Timestamp) -> Option<u64> {
    let millis = u64::try_from(at.as_millis()).ok()?;
    (millis % 1_000 == 0).then_some(millis / 1_000)
}

fn read_as(header: &AMQPValue, kind: Type) -> Option<PropertyValue> {
    let text = || match header {
        AMQPValue::LongString(value) => str::from_utf8(value.as_bytes()).ok(),
        _ => None,
    };
    let number = || match header {
        AMQPValue::LongLongInt(value) => Some(*value),
        _ => None,
    };
    Some(match kind {
        Type::U64 => text()?.parse::<u64>().ok()?.into(),
        Type::F32 => text()?.parse::<f32>().ok()?.into(),
        Type::F64 => text()?.parse::<f64>().ok()?.into(),
        Type::Char => text()?.parse::<char>().ok()?.into(),
        Type::Decimal => match header {
            AMQPValue::ByteArray(value) => PropertyValue::Decimal(value.as_slice().try_into().ok()?),
            _ => return None,
        },
        Type::Uuid => PropertyValue::Uuid(text()?.parse::<Uuid>().ok()?.into_bytes()),
        Type::DateTime => Timestamp::from_millis(number()?).into(),
        Type::DateTimeOffset => PropertyValue::DateTimeOffset(number()?),
        Type::TimeSpan => PropertyValue::TimeSpan(number()?),
        Type::Uri => PropertyValue::Uri(text()?.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bits: u128) -> PropertyValue {
        PropertyValue::Decimal(bits.to_be_bytes())
    }

    fn is_read(header: &AMQPValue, kind: Option<Type>, value: &PropertyValue) {
        assert_eq!(read(header, kind).as_ref(), Some(value), "{header:?}");
    }

    /// Rules: K-128.
    #[test]
    fn a_decimal_is_one_of_amqp_if_that_is_the_same_number() {
        for (scale, value) in [(0, 0), (2, 1_250), (2, -1_250), (255, i32::MAX), (0, i32::MIN)] {
            let decimal = PropertyValue::Decimal(decimal(scale, value.cast_unsigned()));
            let (header, kind) = write(&decimal);
            assert_eq!(header, AMQPValue::DecimalValue(DecimalValue { scale, value: value.cast_unsigned() }));
            assert_eq!(kind, None);
            is_read(&header, kind, &decimal);
            // As versions before this one have read it.
            is_read(&header, Some(Type::Decimal), &decimal);
        }
        let bits = |exponent: u128, coefficient: u128| exponent << 113 | coefficient;
        let others = [
            bits(BIAS, 1 << 31),
            bits(BIAS + 1, 1),
            bits(BIAS - 256, 1),
            1 << 127 | bits(BIAS, 0),
            0x78 << 120,
            0x7c << 120,
            u128::MAX,
            0,
        ];
        for decimal in others.map(number) {
            let (header, kind) = write(&decimal);
            assert!(matches!(header, AMQPValue::ByteArray(_)) && kind == Some(Type::Decimal), "{header:?}");
            is_read(&header, kind, &decimal);
        }
    }

    /// Rules: K-128.
    #[test]
    fn a_time_of_whole_seconds_is_one_of_amqp() {
        for millis in [0, 1_000, 1_700_000_000_000] {
            let time = PropertyValue::from(Timestamp::from_millis(millis));
            let (header, kind) = write(&time);
            assert_eq!((&header, kind), (&AMQPValue::Timestamp(millis.cast_unsigned() / 1_000), None));
            is_read(&header, kind, &time);
        }
        for millis in [1, -1_000, 1_700_000_000_123, i64::MAX, i64::MIN] {
            let time = PropertyValue::from(Timestamp::from_millis(millis));
            let (header, kind) = write(&time);
            assert!(matches!(header, AMQPValue::LongLongInt(_)) && kind == Some(Type::DateTime), "{header:?}");
            is_read(&header, kind, &time);
        }
    }
}
