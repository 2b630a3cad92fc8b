use bytes::Bytes;
use consign_core::{
    message::{Body, PassThrough, PropertyValue, Stored, Value},
    time::Timestamp,
};

use super::{malformed::Malformed, reader::Reader, write};

/// The maximum depth of nested values. Reading recurses as deep on the stack, and as JSON they can be read as well.
pub(crate) const MAX_DEPTH: usize = 64;

/// The simple values have the numbers up to 20, in the order of [`PropertyValue`].
mod tag {
    pub(super) const SYMBOL: u8 = 32;
    pub(super) const LIST: u8 = 33;
    pub(super) const MAP: u8 = 34;
    pub(super) const ARRAY: u8 = 35;
    pub(super) const DESCRIBED: u8 = 36;
}

/// Whether a message can be read again once it is written: no value in it is deeper than [`MAX_DEPTH`].
pub(crate) fn can_be_stored(message: &Stored) -> bool {
    let fits = |value: &Value| is_within(value, MAX_DEPTH);
    let body = match message.body() {
        Body::Data(_) => true,
        Body::Value(value) => fits(value),
        Body::Sequence(sections) => sections.iter().flatten().all(fits),
    };
    let annotated = |rest: &PassThrough| rest.annotations.iter().chain(&rest.footer).all(|(_, value)| fits(value));
    body && message.properties().pass_through().is_none_or(annotated)
}

fn is_within(value: &Value, depth: usize) -> bool {
    let fits = |value: &Value| depth > 0 && is_within(value, depth - 1);
    match value {
        Value::Simple(_) | Value::Symbol(_) => true,
        Value::List(values) | Value::Array(values) => values.iter().all(fits),
        Value::Map(entries) => entries.iter().all(|(key, value)| fits(key) && fits(value)),
        Value::Described(pair) => fits(&pair.0) && fits(&pair.1),
    }
}

pub(super) fn write_simple(out: &mut Vec<u8>, value: &PropertyValue) {
    match value {
        PropertyValue::Null => out.push(0),
        PropertyValue::Bool(value) => out.extend([1, u8::from(*value)]),
        PropertyValue::U8(value) => out.extend([2, *value]),
        PropertyValue::U16(value) => {
            out.push(3);
            write::unsigned(out, *value);
        }
        PropertyValue::U32(value) => {
            out.push(4);
            write::unsigned(out, *value);
        }
        PropertyValue::U64(value) => {
            out.push(5);
            write::unsigned(out, *value);
        }
        PropertyValue::I8(value) => out.extend([6, value.cast_unsigned()]),
        PropertyValue::I16(value) => {
            out.push(7);
            write::signed(out, *value);
        }
        PropertyValue::I32(value) => {
            out.push(8);
            write::signed(out, *value);
        }
        PropertyValue::I64(value) => {
            out.push(9);
            write::signed(out, *value);
        }
        PropertyValue::F32(value) => {
            out.push(10);
            out.extend(value.to_bits().to_le_bytes());
        }
        PropertyValue::F64(value) => {
            out.push(11);
            out.extend(value.to_bits().to_le_bytes());
        }
        PropertyValue::Char(value) => {
            out.push(12);
            write::unsigned(out, *value);
        }
        PropertyValue::String(text) => {
            out.push(13);
            write::text(out, text);
        }
        PropertyValue::Decimal(bytes) => {
            out.push(14);
            out.extend_from_slice(bytes);
        }
        PropertyValue::Uuid(bytes) => {
            out.push(15);
            out.extend_from_slice(bytes);
        }
        PropertyValue::DateTime(instant) => {
            out.push(16);
            write::timestamp(out, *instant);
        }
        PropertyValue::DateTimeOffset(ticks) => {
            out.push(17);
            write::signed(out, *ticks);
        }
        PropertyValue::TimeSpan(ticks) => {
            out.push(18);
            write::signed(out, *ticks);
        }
        PropertyValue::Uri(text) => {
            out.push(19);
            write::text(out, text);
        }
        PropertyValue::Bytes(bytes) => {
            out.push(20);
            write::bytes(out, bytes);
        }
    }
}

pub(super) fn read_simple(reader: &mut Reader<'_>) -> Result<PropertyValue, Malformed> {
    let tag = reader.byte()?;
    read_tagged(reader, tag)
}

fn read_tagged(reader: &mut Reader<'_>, tag: u8) -> Result<PropertyValue, Malformed> {
    Ok(match tag {
        0 => PropertyValue::Null,
        1 => PropertyValue::Bool(reader.bool()?),
        2 => PropertyValue::U8(reader.byte()?),
        3 => PropertyValue::U16(reader.unsigned()?),
        4 => PropertyValue::U32(reader.unsigned()?),
        5 => PropertyValue::U64(reader.unsigned()?),
        6 => PropertyValue::I8(reader.byte()?.cast_signed()),
        7 => PropertyValue::I16(reader.signed()?),
        8 => PropertyValue::I32(reader.signed()?),
        9 => PropertyValue::I64(reader.signed()?),
        10 => PropertyValue::F32(f32::from_bits(u32::from_le_bytes(reader.array()?))),
        11 => PropertyValue::F64(f64::from_bits(u64::from_le_bytes(reader.array()?))),
        12 => {
            let scalar = char::from_u32(reader.unsigned()?);
            PropertyValue::Char(scalar.ok_or_else(|| reader.invalid("character"))?)
        }
        13 => PropertyValue::String(reader.text()?.into()),
        14 => PropertyValue::Decimal(reader.array()?),
        15 => PropertyValue::Uuid(reader.array()?),
        16 => PropertyValue::DateTime(Timestamp::from_millis(reader.signed()?)),
        17 => PropertyValue::DateTimeOffset(reader.signed()?),
        18 => PropertyValue::TimeSpan(reader.signed()?),
        19 => PropertyValue::Uri(reader.text()?.into()),
        20 => PropertyValue::Bytes(Bytes::copy_from_slice(reader.bytes()?)),
        _ => return Err(reader.invalid("kind of a value")),
    })
}

pub(super) fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Simple(value) => write_simple(out, value),
        Value::Symbol(text) => {
            out.push(tag::SYMBOL);
            write::text(out, text);
        }
        Value::List(values) => {
            out.push(tag::LIST);
            write_all(out, values);
        }
        Value::Map(entries) => {
            out.push(tag::MAP);
            write::list(out, entries.iter(), |out, (key, value)| {
                write(out, key);
                write(out, value);
            });
        }
        Value::Array(values) => {
            out.push(tag::ARRAY);
            write_all(out, values);
        }
        Value::Described(pair) => {
            out.push(tag::DESCRIBED);
            write(out, &pair.0);
            write(out, &pair.1);
        }
    }
}

pub(super) fn write_all(out: &mut Vec<u8>, values: &[Value]) {
    write::list(out, values.iter(), write);
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
    read_within(reader, MAX_DEPTH)
}

fn read_within(reader: &mut Reader<'_>, depth: usize) -> Result<Value, Malformed> {
    let tag = reader.byte()?;
    let inner = |reader: &mut Reader<'_>| match depth.checked_sub(1) {
        Some(left) => read_within(reader, left),
        None => Err(reader.invalid("depth of a value")),
    };
    Ok(match tag {
        tag::SYMBOL => Value::Symbol(reader.text()?.into()),
        tag::LIST => Value::List(reader.list(inner)?),
        tag::MAP => Value::Map(reader.list(|reader| Ok((inner(reader)?, inner(reader)?)))?),
        tag::ARRAY => Value::Array(reader.list(inner)?),
        tag::DESCRIBED => Value::Described(Box::new((inner(reader)?, inner(reader)?))),
        _ => Value::Simple(read_tagged(reader, tag)?),
    })
}
