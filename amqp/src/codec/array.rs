//! Arrays: one constructor for all elements.

use super::{Encode, Encoder, codes};
use crate::value::{Array, Symbol, Value, ValueType};

impl Encode for Array {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.compound(codes::ARRAY_8, codes::ARRAY_32, self.len(), |encoder| body(encoder, self));
    }
}

/// The constructor and the elements.
fn body(encoder: &mut Encoder<'_>, array: &Array) {
    for descriptor in array.descriptors() {
        encoder.put(codes::DESCRIBED);
        encoder.deeper(|encoder| descriptor.encode(encoder));
    }
    let code = match array.element_type() {
        element if encoder.full => element.widest_code(),
        element => element_code(element, array),
    };
    encoder.put(code);
    if array.element_type().is_compound() {
        compounds(encoder, code, array);
    } else {
        for value in array.iter() {
            content(encoder, code, value);
        }
    }
}

impl Encoder<'_> {
    /// An array of symbols.
    pub(crate) fn symbols(&mut self, symbols: &[Symbol]) {
        let wide = self.full || symbols.iter().any(|symbol| symbol.as_bytes().len() > usize::from(u8::MAX));
        self.compound(codes::ARRAY_8, codes::ARRAY_32, symbols.len(), |encoder| {
            encoder.put(if wide { codes::SYMBOL_32 } else { codes::SYMBOL_8 });
            for symbol in symbols {
                element_bytes(encoder, wide, symbol.as_bytes());
            }
        });
    }
}

/// The format code of the fewest bytes that holds every element. No code without content is written but that of null: several
/// decoders do not read arrays of them.
fn element_code(element: ValueType, values: &[Value]) -> u8 {
    let all = |fits: fn(&Value) -> bool| values.iter().all(fits);
    match element {
        ValueType::Uint if all(|value| matches!(value, Value::Uint(number) if u8::try_from(*number).is_ok())) => {
            codes::SMALL_UINT
        }
        ValueType::Ulong if all(|value| matches!(value, Value::Ulong(number) if u8::try_from(*number).is_ok())) => {
            codes::SMALL_ULONG
        }
        ValueType::Int if all(|value| matches!(value, Value::Int(number) if i8::try_from(*number).is_ok())) => {
            codes::SMALL_INT
        }
        ValueType::Long if all(|value| matches!(value, Value::Long(number) if i8::try_from(*number).is_ok())) => {
            codes::SMALL_LONG
        }
        ValueType::Binary | ValueType::String | ValueType::Symbol if !all(is_short) => element.widest_code(),
        ValueType::Binary => codes::BINARY_8,
        ValueType::String => codes::STRING_8,
        ValueType::Symbol => codes::SYMBOL_8,
        _ => element.widest_code(),
    }
}

fn is_short(value: &Value) -> bool {
    u8::try_from(bytes_of(value).len()).is_ok()
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Binary(bytes) => &bytes.0,
        Value::String(text) => text.as_bytes(),
        Value::Symbol(text) => text.as_bytes(),
        _ => &[],
    }
}

/// The size of an element and its bytes. A narrow one is at most 255 bytes.
fn element_bytes(encoder: &mut Encoder<'_>, wide: bool, bytes: &[u8]) {
    let size = encoder.length(bytes.len()).to_be_bytes();
    encoder.put_bytes(if wide { &size } else { &size[3..] });
    encoder.put_bytes(bytes);
}

/// An element without its format code.
fn content(encoder: &mut Encoder<'_>, code: u8, value: &Value) {
    match (code, value) {
        (codes::BOOLEAN, Value::Boolean(value)) => encoder.put(u8::from(*value)),
        (codes::UINT, Value::Uint(number)) => encoder.put_bytes(&number.to_be_bytes()),
        (codes::ULONG, Value::Ulong(number)) => encoder.put_bytes(&number.to_be_bytes()),
        (codes::INT, Value::Int(number)) => encoder.put_bytes(&number.to_be_bytes()),
        (codes::LONG, Value::Long(number)) => encoder.put_bytes(&number.to_be_bytes()),
        // In the encoding of a byte, zero too.
        (codes::SMALL_UINT, Value::Uint(number)) => encoder.put(number.to_be_bytes()[3]),
        (codes::SMALL_ULONG, Value::Ulong(number)) => encoder.put(number.to_be_bytes()[7]),
        (codes::BINARY_8 | codes::STRING_8 | codes::SYMBOL_8, value) => element_bytes(encoder, false, bytes_of(value)),
        (codes::BINARY_32 | codes::STRING_32 | codes::SYMBOL_32, value) => {
            element_bytes(encoder, true, bytes_of(value));
        }
        // The only encoding of the type, or the one of a byte: what follows the format code.
        (_, value) => {
            let start = encoder.out.len();
            value.encode(encoder);
            if encoder.out.len() > start {
                encoder.out.remove(start);
            }
        }
    }
}

/// Lists, maps and arrays. Each is written with sizes of four bytes; if one byte is enough for all, they are moved together.
fn compounds(encoder: &mut Encoder<'_>, wide: u8, values: &[Value]) {
    let constructor = encoder.out.len() - 1;
    let mut starts = Vec::with_capacity(values.len());
    for value in values {
        starts.push(encoder.out.len());
        encoder.put_bytes(&[0; 8]);
        let at = encoder.out.len() - 8;
        let count = match value {
            Value::List(list) => {
                encoder.deeper(|encoder| list.0.iter().for_each(|value| value.encode(encoder)));
                list.0.len()
            }
            Value::Map(map) => {
                encoder.deeper(|encoder| {
                    for (key, value) in &map.0 {
                        key.encode(encoder);
                        value.encode(encoder);
                    }
                });
                map.0.len().saturating_mul(2)
            }
            Value::Array(array) => {
                encoder.deeper(|encoder| body(encoder, array));
                array.len()
            }
            _ => 0,
        };
        let count = encoder.length(count);
        encoder.out[at + 4..at + 8].copy_from_slice(&count.to_be_bytes());
        encoder.set_size(at);
    }
    if !encoder.full {
        narrow(encoder.out, constructor, wide, &starts);
    }
}

/// Rewrites elements with sizes of four bytes to sizes of one, where all of them allow it.
fn narrow(out: &mut Vec<u8>, constructor: usize, wide: u8, starts: &[usize]) {
    let end = out.len();
    let ends = || starts.iter().skip(1).copied().chain([end]);
    let mut parts = starts.iter().copied().zip(ends());
    // The size counts a count of one byte instead of four.
    let fits = |(start, end): (usize, usize)| end - start - 7 <= 255 && out[start + 4..start + 7] == [0; 3];
    if !parts.all(fits) {
        return;
    }
    // From 0xd0, 0xd1 and 0xf0 to 0xc0, 0xc1 and 0xe0.
    out[constructor] = wide - 0x10;
    let mut to = constructor + 1;
    for (start, end) in starts.iter().copied().zip(ends()) {
        let size = end - start - 7;
        out[to] = u8::try_from(size).unwrap_or(u8::MAX);
        out[to + 1] = out[start + 7];
        out.copy_within(start + 8..end, to + 2);
        to += size + 1;
    }
    out.truncate(to);
}
