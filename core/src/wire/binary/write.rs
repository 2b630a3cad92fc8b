use super::number;
use crate::{
    message::{PropertyValue, Value},
    wire::Type,
};

/// Appends an unsigned integer.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, value: impl Into<u64>) {
    let mut value = value.into();
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a signed integer.
#[inline]
pub fn signed(out: &mut Vec<u8>, value: impl Into<i64>) {
    let value = value.into();
    unsigned(out, (value << 1 ^ value >> 63).cast_unsigned());
}

#[inline]
fn count(out: &mut Vec<u8>, count: usize) {
    unsigned(out, count as u64);
}

/// Appends bytes, and their count before them.
#[inline]
pub fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    count(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a text, and the count of its bytes before it.
#[inline]
pub fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

/// Appends a simple value.
pub fn simple(out: &mut Vec<u8>, value: &PropertyValue) {
    out.push(Type::of(value).number());
    match value {
        PropertyValue::Null => {}
        PropertyValue::Bool(value) => out.push((*value).into()),
        PropertyValue::U8(value) => out.push(*value),
        PropertyValue::U16(value) => unsigned(out, *value),
        PropertyValue::U32(value) => unsigned(out, *value),
        PropertyValue::U64(value) => unsigned(out, *value),
        PropertyValue::I8(value) => out.push(value.cast_unsigned()),
        PropertyValue::I16(value) => signed(out, *value),
        PropertyValue::I32(value) => signed(out, *value),
        PropertyValue::I64(value) | PropertyValue::DateTimeOffset(value) | PropertyValue::TimeSpan(value) => {
            signed(out, *value);
        }
        PropertyValue::F32(value) => out.extend(value.to_bits().to_le_bytes()),
        PropertyValue::F64(value) => out.extend(value.to_bits().to_le_bytes()),
        PropertyValue::Char(value) => unsigned(out, *value),
        PropertyValue::String(value) | PropertyValue::Uri(value) => text(out, value),
        PropertyValue::Decimal(value) | PropertyValue::Uuid(value) => out.extend_from_slice(value),
        PropertyValue::DateTime(value) => signed(out, value.as_millis()),
        PropertyValue::Bytes(value) => bytes(out, value),
    }
}

/// Appends a value.
pub fn value(out: &mut Vec<u8>, of: &Value) {
    match of {
        Value::Simple(of) => simple(out, of),
        Value::Symbol(of) => {
            out.push(number::SYMBOL);
            text(out, of);
        }
        Value::List(of) => {
            out.push(number::LIST);
            values(out, of);
        }
        Value::Map(entries) => {
            out.push(number::MAP);
            count(out, entries.len());
            for (key, of) in entries {
                value(out, key);
                value(out, of);
            }
        }
        Value::Array(of) => {
            out.push(number::ARRAY);
            values(out, of);
        }
        Value::Described(pair) => {
            out.push(number::DESCRIBED);
            value(out, &pair.0);
            value(out, &pair.1);
        }
    }
}

/// Appends the count of values, and each of them.
pub fn values(out: &mut Vec<u8>, values: &[Value]) {
    count(out, values.len());
    for of in values {
        value(out, of);
    }
}
