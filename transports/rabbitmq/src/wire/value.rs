//! Values for which AMQP 0-9-1 has no place, in the encoding of AMQP 1.0: bodies that are not bytes, and annotations.
//!
//! Each type has one encoding, the widest. Stored messages have it, see `golden.txt`.

use bytes::Bytes;
use consign_amqp::{
    codec::{Encode, EncodeError, Encoder, Limits},
    value::{Binary, Decimal128, Described, List, Map, Str, Symbol, Timestamp, Uuid, Value as AmqpValue},
};
use consign_core::{
    message::{PropertyValue, Value, limits},
    time::Timestamp as Instant,
};

use super::malformed::Cause;

const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";
const TIME_SPAN: &str = "com.microsoft:timespan";
const URI: &str = "com.microsoft:uri";
/// The descriptor of a list that stands for an array: an array of AMQP 1.0 has one constructor for all elements.
const ARRAY: &str = "consign:array";

/// What is decoded of so many bytes. An element has at least a byte. The names of headers of other publishers are symbols, and may
/// not be ASCII. [`from_amqp`] counts the levels of a message; an array, and each of the values of .NET, is two in the encoding.
pub(super) fn decoding(size: usize) -> Limits {
    Limits::default().depth(Limits::MAX_DEPTH).elements(u32::try_from(size).unwrap_or(u32::MAX)).utf8_symbols(true)
}

pub(super) fn encode(parts: &[impl Encode]) -> Result<Bytes, EncodeError> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out).full_widths();
    for part in parts {
        encoder.encode(part);
    }
    encoder.finish()?;
    Ok(out.into())
}

pub(super) fn to_amqp(value: &Value) -> AmqpValue {
    match value {
        Value::Simple(simple) => simple_to_amqp(simple),
        Value::Symbol(text) => Symbol::from_utf8(&**text).into(),
        Value::List(values) => list_to_amqp(values).into(),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (to_amqp(key), to_amqp(value)));
            pairs.collect::<Map>().into()
        }
        Value::Array(values) => described(ARRAY, list_to_amqp(values)),
        Value::Described(pair) => Described { descriptor: to_amqp(&pair.0), value: to_amqp(&pair.1) }.into(),
    }
}

pub(super) fn list_to_amqp(values: &[Value]) -> List {
    values.iter().map(to_amqp).collect()
}

fn described(descriptor: &'static str, value: impl Into<AmqpValue>) -> AmqpValue {
    Described { descriptor: Symbol::from_static(descriptor).into(), value: value.into() }.into()
}

fn simple_to_amqp(value: &PropertyValue) -> AmqpValue {
    match value {
        PropertyValue::Null => AmqpValue::Null,
        PropertyValue::Bool(value) => (*value).into(),
        PropertyValue::U8(value) => (*value).into(),
        PropertyValue::U16(value) => (*value).into(),
        PropertyValue::U32(value) => (*value).into(),
        PropertyValue::U64(value) => (*value).into(),
        PropertyValue::I8(value) => (*value).into(),
        PropertyValue::I16(value) => (*value).into(),
        PropertyValue::I32(value) => (*value).into(),
        PropertyValue::I64(value) => (*value).into(),
        PropertyValue::F32(value) => (*value).into(),
        PropertyValue::F64(value) => (*value).into(),
        PropertyValue::Char(value) => (*value).into(),
        PropertyValue::String(text) => Str::from(&**text).into(),
        PropertyValue::Decimal(bytes) => Decimal128(*bytes).into(),
        PropertyValue::Uuid(bytes) => Uuid(*bytes).into(),
        PropertyValue::DateTime(at) => Timestamp(at.as_millis()).into(),
        PropertyValue::DateTimeOffset(ticks) => described(DATE_TIME_OFFSET, *ticks),
        PropertyValue::TimeSpan(ticks) => described(TIME_SPAN, *ticks),
        PropertyValue::Uri(text) => described(URI, &**text),
        PropertyValue::Bytes(bytes) => Binary(bytes.clone()).into(),
    }
}

/// Returns the value of a message; an error for one with more levels than a message may have.
pub(super) fn from_amqp(value: AmqpValue) -> Result<Value, Cause> {
    let value = converted(value)?;
    if value.is_within(limits::VALUE_LEVELS) { Ok(value) } else { Err(Cause::Levels) }
}

fn converted(value: AmqpValue) -> Result<Value, Cause> {
    Ok(match value {
        AmqpValue::Null => PropertyValue::Null.into(),
        AmqpValue::Boolean(value) => value.into(),
        AmqpValue::Ubyte(value) => value.into(),
        AmqpValue::Ushort(value) => value.into(),
        AmqpValue::Uint(value) => value.into(),
        AmqpValue::Ulong(value) => value.into(),
        AmqpValue::Byte(value) => value.into(),
        AmqpValue::Short(value) => value.into(),
        AmqpValue::Int(value) => value.into(),
        AmqpValue::Long(value) => value.into(),
        AmqpValue::Float(value) => value.into(),
        AmqpValue::Double(value) => value.into(),
        AmqpValue::Char(value) => value.into(),
        AmqpValue::Decimal128(Decimal128(bytes)) => PropertyValue::Decimal(bytes).into(),
        AmqpValue::Timestamp(Timestamp(millis)) => Instant::from_millis(millis).into(),
        AmqpValue::Uuid(Uuid(bytes)) => PropertyValue::Uuid(bytes).into(),
        AmqpValue::Binary(Binary(bytes)) => bytes.into(),
        AmqpValue::String(text) => text.as_str().into(),
        AmqpValue::Symbol(text) => Value::Symbol(text.as_str().into()),
        AmqpValue::List(List(values)) => Value::List(all_converted(values)?),
        AmqpValue::Map(Map(pairs)) => {
            let pairs = pairs.into_iter().map(|(key, value)| Ok((converted(key)?, converted(value)?)));
            Value::Map(pairs.collect::<Result<_, Cause>>()?)
        }
        AmqpValue::Described(pair) => describe(converted(pair.descriptor)?, converted(pair.value)?),
        AmqpValue::Decimal32(_) | AmqpValue::Decimal64(_) | AmqpValue::Array(_) => {
            return Err(Cause::Type(value.value_type()));
        }
    })
}

fn all_converted(values: Vec<AmqpValue>) -> Result<Vec<Value>, Cause> {
    values.into_iter().map(converted).collect()
}

/// Returns the value that a descriptor and its value stand for.
fn describe(descriptor: Value, value: Value) -> Value {
    match (&descriptor, value) {
        (Value::Symbol(name), Value::List(values)) if **name == *ARRAY => Value::Array(values),
        (Value::Symbol(name), Value::Simple(PropertyValue::I64(ticks))) if **name == *DATE_TIME_OFFSET => {
            PropertyValue::DateTimeOffset(ticks).into()
        }
        (Value::Symbol(name), Value::Simple(PropertyValue::I64(ticks))) if **name == *TIME_SPAN => {
            PropertyValue::TimeSpan(ticks).into()
        }
        (Value::Symbol(name), Value::Simple(PropertyValue::String(text))) if **name == *URI => {
            PropertyValue::Uri(text).into()
        }
        (_, value) => Value::Described(Box::new((descriptor, value))),
    }
}

#[cfg(test)]
mod tests {
    use consign_amqp::codec::{DecodeErrorKind, Decoder};

    use super::*;

    fn encoded(value: &Value) -> Bytes {
        encode(&[to_amqp(value)]).unwrap()
    }

    fn decoded(bytes: &Bytes) -> Result<Value, Cause> {
        let mut decoder = Decoder::with_limits(bytes, decoding(bytes.len()));
        let value = decoder.value()?;
        decoder.finish()?;
        from_amqp(value)
    }

    fn sample() -> Value {
        let simple = [
            PropertyValue::Null,
            true.into(),
            u64::MAX.into(),
            i8::MIN.into(),
            1.5_f32.into(),
            '🦀'.into(),
            "text".into(),
            PropertyValue::Decimal([7; 16]),
            PropertyValue::DateTimeOffset(5),
            PropertyValue::TimeSpan(-5),
            PropertyValue::Uri("a:b".into()),
            Bytes::from_static(b"\xff").into(),
        ];
        let list = Value::List(simple.into_iter().map(Value::from).collect());
        Value::Map(vec![
            (Value::Symbol("s".into()), list.clone()),
            (Value::from(1_u16), Value::Array(vec![Value::from(1_i32), Value::from(2_i32)])),
            (Value::from("d"), Value::Described(Box::new((Value::Symbol("x".into()), list)))),
        ])
    }

    /// Rules: K-119.
    #[test]
    fn damaged_values_are_refused_with_the_cause_and_the_byte() {
        let good = encoded(&sample());
        for end in 0..good.len() {
            assert!(decoded(&good.slice(..end)).is_err());
        }
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.to_vec();
                bad[at] ^= flip;
                let _ = decoded(&Bytes::from(bad));
            }
        }
        let refused = |bytes: &'static [u8]| decoded(&Bytes::from_static(bytes)).unwrap_err();
        // A list of a milliard values in four bytes.
        let Cause::Decode(error) = refused(&[0xd0, 0, 0, 0, 8, 0x3b, 0x9a, 0xca, 0, 0, 0, 0, 0]) else {
            panic!("a list")
        };
        assert_eq!((error.kind(), error.offset()), (DecodeErrorKind::Count, 9));
        // Arrays of null take no bytes for an element. An array of 256 takes ten.
        let Cause::Decode(error) = refused(&[0xf0, 0, 0, 0, 5, 0, 0, 1, 0, 0x40]) else { panic!("an array") };
        assert_eq!(error.kind(), DecodeErrorKind::Count);
        assert_eq!(
            refused(&[0x74, 0, 0, 0, 0]).to_string(),
            "a value has the type decimal32, which a message does not have"
        );
        assert_eq!(
            refused(&[0xe0, 3, 1, 0x50, 7]).to_string(),
            "a value has the type array, which a message does not have"
        );
    }

    /// Smaller encodings, as another AMQP 1.0 encoder writes them.
    #[test]
    fn every_width_is_read() {
        let list = Bytes::from_static(&[0xc0, 8, 4, 0x43, 0x54, 0xff, 0xa1, 1, b'a', 0x45]);
        let values = vec![0_u32.into(), (-1_i32).into(), "a".into(), Value::List(vec![])];
        assert_eq!(decoded(&list), Ok(Value::List(values)));
    }

    /// Rules: V-220.
    #[test]
    fn each_kind_of_value_has_as_many_levels() {
        let text = PropertyValue::Uri("a:b".into());
        let wrap: [fn(Value) -> Value; 4] = [
            |inner| Value::List(vec![inner]),
            |inner| Value::Array(vec![inner]),
            |inner| Value::Map(vec![(Value::from("k"), inner)]),
            |inner| Value::Described(Box::new((Value::Symbol("d".into()), inner))),
        ];
        for wrap in wrap {
            let most = (1..limits::VALUE_LEVELS).fold(Value::from(text.clone()), |inner, _| wrap(inner));
            assert_eq!(decoded(&encoded(&most)).as_ref(), Ok(&most));
            let more = Value::from(PropertyValue::Null);
            let more = (0..limits::VALUE_LEVELS).fold(more, |inner, _| wrap(inner));
            assert!(matches!(decoded(&encoded(&more)), Err(Cause::Levels)));
        }
    }
}
