//! AMQP values as bytes, in the encoding of AMQP 1.0 (part 1, types), for values without a place in AMQP 0-9-1: bodies that are
//! not bytes, and annotations.

use bytes::{BufMut, Bytes, BytesMut};
use consign_core::{
    message::{PropertyValue, Value, limits},
    time::Timestamp,
};

/// How deep encodings may be inside one another: an array, and each of the values of .NET, is a described value, and a
/// section or the map of the annotations is one level more.
const DEPTH: usize = 2 * limits::VALUE_LEVELS + 2;

const DATE_TIME_OFFSET: &str = "com.microsoft:datetime-offset";
const TIME_SPAN: &str = "com.microsoft:timespan";
const URI: &str = "com.microsoft:uri";
/// The descriptor of a list that stands for an array: an array of AMQP 1.0 has one constructor for all elements.
const ARRAY: &str = "consign:array";

/// Appends a value; `None` for a type of a later version of the core, without an encoding here.
pub(super) fn encode(value: &Value, out: &mut BytesMut) -> Option<()> {
    match value {
        Value::Simple(simple) => encode_simple(simple, out),
        Value::Symbol(text) => encode_symbol(text, out),
        Value::List(values) => encode_list(values.iter(), out)?,
        Value::Map(pairs) => compound(0xd1, pairs.len() * 2, out, |out| {
            pairs.iter().try_for_each(|(key, value)| encode(key, out).and_then(|()| encode(value, out)))
        })?,
        Value::Array(values) => {
            described(ARRAY, out);
            encode_list(values.iter(), out)?;
        }
        Value::Described(pair) => {
            out.put_u8(0);
            encode(&pair.0, out)?;
            encode(&pair.1, out)?;
        }
    }
    Some(())
}

pub(super) fn encode_list<'v>(mut values: impl ExactSizeIterator<Item = &'v Value>, out: &mut BytesMut) -> Option<()> {
    compound(0xd0, values.len(), out, |out| values.try_for_each(|value| encode(value, out)))
}

fn described(descriptor: &str, out: &mut BytesMut) {
    out.put_u8(0);
    encode_symbol(descriptor, out);
}

fn encode_symbol(text: &str, out: &mut BytesMut) {
    variable(0xb3, text.as_bytes(), out);
}

pub(super) fn variable(code: u8, bytes: &[u8], out: &mut BytesMut) {
    out.put_u8(code);
    out.put_u32(length(bytes.len()));
    out.put_slice(bytes);
}

/// No message is as long as that: a broker takes 512 MiB at most.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn compound(code: u8, count: usize, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Option<()>) -> Option<()> {
    out.put_u8(code);
    let at = out.len();
    out.put_u32(0);
    out.put_u32(length(count));
    write(out)?;
    let size = length(out.len() - at - 4);
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
    Some(())
}

fn encode_simple(value: &PropertyValue, out: &mut BytesMut) {
    match value {
        PropertyValue::Bool(true) => out.put_u8(0x41),
        PropertyValue::Bool(false) => out.put_u8(0x42),
        PropertyValue::U8(value) => out.put_slice(&[0x50, *value]),
        PropertyValue::U16(value) => fixed(0x60, value.to_be_bytes(), out),
        PropertyValue::U32(value) => fixed(0x70, value.to_be_bytes(), out),
        PropertyValue::U64(value) => fixed(0x80, value.to_be_bytes(), out),
        PropertyValue::I8(value) => fixed(0x51, value.to_be_bytes(), out),
        PropertyValue::I16(value) => fixed(0x61, value.to_be_bytes(), out),
        PropertyValue::I32(value) => fixed(0x71, value.to_be_bytes(), out),
        PropertyValue::I64(value) => fixed(0x81, value.to_be_bytes(), out),
        PropertyValue::F32(value) => fixed(0x72, value.to_be_bytes(), out),
        PropertyValue::F64(value) => fixed(0x82, value.to_be_bytes(), out),
        PropertyValue::Char(value) => fixed(0x73, u32::from(*value).to_be_bytes(), out),
        PropertyValue::String(text) => variable(0xb1, text.as_bytes(), out),
        PropertyValue::Decimal(bytes) => fixed(0x94, *bytes, out),
        PropertyValue::Uuid(bytes) => fixed(0x98, *bytes, out),
        PropertyValue::DateTime(at) => fixed(0x83, at.as_millis().to_be_bytes(), out),
        PropertyValue::DateTimeOffset(ticks) => {
            described(DATE_TIME_OFFSET, out);
            fixed(0x81, ticks.to_be_bytes(), out);
        }
        PropertyValue::TimeSpan(ticks) => {
            described(TIME_SPAN, out);
            fixed(0x81, ticks.to_be_bytes(), out);
        }
        PropertyValue::Uri(text) => {
            described(URI, out);
            variable(0xb1, text.as_bytes(), out);
        }
        PropertyValue::Bytes(bytes) => variable(0xb0, bytes, out),
        PropertyValue::Null => out.put_u8(0x40),
    }
}

fn fixed<const N: usize>(code: u8, bytes: [u8; N], out: &mut BytesMut) {
    out.put_u8(code);
    out.put_slice(&bytes);
}

/// Takes one value from the front of `bytes`; `None` if there is none, or if it has more levels.
pub(super) fn decode(bytes: &mut Bytes, levels: usize) -> Option<Value> {
    decode_at(bytes, DEPTH).filter(|value| value.is_within(levels))
}

fn decode_at(bytes: &mut Bytes, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let code = take::<1>(bytes)?[0];
    Some(match code {
        0x00 => describe(decode_at(bytes, depth)?, decode_at(bytes, depth)?),
        0x40 => PropertyValue::Null.into(),
        0x41 => Value::from(true),
        0x42 => Value::from(false),
        0x50 => Value::from(take::<1>(bytes)?[0]),
        0x60 => Value::from(u16::from_be_bytes(take(bytes)?)),
        0x70 => Value::from(u32::from_be_bytes(take(bytes)?)),
        0x80 => Value::from(u64::from_be_bytes(take(bytes)?)),
        0x51 => Value::from(i8::from_be_bytes(take(bytes)?)),
        0x61 => Value::from(i16::from_be_bytes(take(bytes)?)),
        0x71 => Value::from(i32::from_be_bytes(take(bytes)?)),
        0x81 => Value::from(i64::from_be_bytes(take(bytes)?)),
        0x72 => Value::from(f32::from_be_bytes(take(bytes)?)),
        0x82 => Value::from(f64::from_be_bytes(take(bytes)?)),
        0x73 => Value::from(char::from_u32(u32::from_be_bytes(take(bytes)?))?),
        0x83 => Value::from(Timestamp::from_millis(i64::from_be_bytes(take(bytes)?))),
        0x94 => PropertyValue::Decimal(take(bytes)?).into(),
        0x98 => PropertyValue::Uuid(take(bytes)?).into(),
        0xb0 => Value::from(take_variable(bytes)?),
        0xb1 => Value::from(take_text(bytes)?),
        0xb3 => Value::Symbol(take_text(bytes)?.into()),
        0xd0 => {
            let (mut inner, count) = take_compound(bytes)?;
            let values: Option<Vec<_>> = (0..count).map(|_| decode_at(&mut inner, depth)).collect();
            Value::List(values.filter(|_| inner.is_empty())?)
        }
        0xd1 => {
            let (mut inner, count) = take_compound(bytes)?;
            let mut pair = || Some((decode_at(&mut inner, depth)?, decode_at(&mut inner, depth)?));
            let pairs: Option<Vec<_>> = (0..count / 2).map(|_| pair()).collect();
            Value::Map(pairs.filter(|_| count % 2 == 0 && inner.is_empty())?)
        }
        _ => return None,
    })
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

fn take<const N: usize>(bytes: &mut Bytes) -> Option<[u8; N]> {
    let taken = bytes.get(..N)?.try_into().ok()?;
    let _ = bytes.split_to(N);
    Some(taken)
}

fn take_length(bytes: &mut Bytes) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(take(bytes)?)).ok()
}

pub(super) fn take_variable(bytes: &mut Bytes) -> Option<Bytes> {
    let length = take_length(bytes)?;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

fn take_text(bytes: &mut Bytes) -> Option<String> {
    String::from_utf8(take_variable(bytes)?.into()).ok()
}

/// Returns the contents of a list or a map, and its number of values: no more than it has bytes.
fn take_compound(bytes: &mut Bytes) -> Option<(Bytes, usize)> {
    let mut inner = take_variable(bytes)?;
    let count = take_length(&mut inner)?;
    (count <= inner.len()).then_some((inner, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(value: &Value) -> Option<Value> {
        let mut out = BytesMut::new();
        encode(value, &mut out).unwrap();
        let mut bytes = out.freeze();
        let back = decode(&mut bytes, limits::VALUE_LEVELS);
        assert!(bytes.is_empty());
        back
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

    #[test]
    fn a_written_value_is_read_back() {
        assert_eq!(there_and_back(&sample()).as_ref(), Some(&sample()));
    }

    #[test]
    fn no_bytes_are_too_bad_to_be_refused() {
        let mut out = BytesMut::new();
        encode(&sample(), &mut out).unwrap();
        let good = out.freeze();
        for end in 0..good.len() {
            assert_eq!(decode(&mut good.slice(..end), limits::VALUE_LEVELS), None);
        }
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.to_vec();
                bad[at] ^= flip;
                let _ = decode(&mut Bytes::from(bad), limits::VALUE_LEVELS);
            }
        }
        // A list of a milliard values in four bytes.
        assert_eq!(
            decode(&mut Bytes::from_static(&[0xd0, 0, 0, 0, 8, 0x3b, 0x9a, 0xca, 0, 0, 0, 0, 0]), limits::VALUE_LEVELS),
            None
        );
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
            assert_eq!(there_and_back(&most).as_ref(), Some(&most));
            assert_eq!(there_and_back(&wrap(most)), None);
        }
    }
}
