//! What a value has to look like, computed apart from the codec.

use consign_amqp::value::{Array, Value, ValueType};

/// The levels of lists, maps, arrays and described values inside one another, as the limit counts them.
pub(crate) fn depth(value: &Value) -> usize {
    let deepest = |values: &[Value]| values.iter().map(depth).max().unwrap_or(0);
    match value {
        Value::List(list) => 1 + deepest(&list.0),
        Value::Map(map) => 1 + map.0.iter().map(|(key, value)| depth(key).max(depth(value))).max().unwrap_or(0),
        Value::Described(pair) => 1 + depth(&pair.descriptor).max(depth(&pair.value)),
        Value::Array(array) => {
            let descriptors = array.descriptors().iter().enumerate().map(|(index, value)| index + 1 + depth(value));
            let elements = array.descriptors().len() + deepest(array);
            1 + descriptors.max().unwrap_or(0).max(elements)
        }
        _ => 0,
    }
}

/// The elements of all collections in the value, as the limit counts them.
pub(crate) fn elements(value: &Value) -> usize {
    let all = |values: &[Value]| values.len() + values.iter().map(elements).sum::<usize>();
    match value {
        Value::List(list) => all(&list.0),
        Value::Map(map) => map.0.iter().map(|(key, value)| 2 + elements(key) + elements(value)).sum(),
        Value::Described(pair) => 2 + elements(&pair.descriptor) + elements(&pair.value),
        Value::Array(array) => all(array.descriptors()) + all(array),
        _ => 0,
    }
}

/// Whether an array in the value may have elements that take no bytes.
pub(crate) fn may_grow(value: &Value) -> bool {
    match value {
        Value::List(list) => list.0.iter().any(may_grow),
        Value::Map(map) => map.0.iter().any(|(key, value)| may_grow(key) || may_grow(value)),
        Value::Described(pair) => may_grow(&pair.descriptor) || may_grow(&pair.value),
        Value::Array(_) => true,
        _ => false,
    }
}

/// Whether there is an instant in the value. Instants beyond the last one are changed in a message.
pub(crate) fn has_instant(value: &Value) -> bool {
    let any = |values: &[Value]| values.iter().any(has_instant);
    match value {
        Value::Timestamp(_) => true,
        Value::List(list) => any(&list.0),
        Value::Map(map) => map.0.iter().any(|(key, value)| has_instant(key) || has_instant(value)),
        Value::Described(pair) => has_instant(&pair.descriptor) || has_instant(&pair.value),
        Value::Array(array) => any(array.descriptors()) || any(array),
        _ => false,
    }
}

/// The bytes of the smallest encoding that the crate writes.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Boolean(_) | Value::Uint(0) | Value::Ulong(0) => 1,
        Value::Ubyte(_)
        | Value::Byte(_)
        | Value::Uint(1..=255)
        | Value::Ulong(1..=255)
        | Value::Int(-128..=127)
        | Value::Long(-128..=127) => 2,
        Value::Ushort(_) | Value::Short(_) => 3,
        Value::Uint(_) | Value::Int(_) | Value::Float(_) | Value::Decimal32(_) | Value::Char(_) => 5,
        Value::Ulong(_) | Value::Long(_) | Value::Double(_) | Value::Decimal64(_) | Value::Timestamp(_) => 9,
        Value::Decimal128(_) | Value::Uuid(_) => 17,
        Value::Binary(_) | Value::String(_) | Value::Symbol(_) => {
            let length = length(value);
            if length <= 255 { 2 + length } else { 5 + length }
        }
        Value::List(list) if list.0.is_empty() => 1,
        Value::List(_) | Value::Map(_) | Value::Array(_) => {
            let (count, content) = content(value);
            if count <= 255 && content <= 254 { 3 + content } else { 9 + content }
        }
        Value::Described(pair) => 1 + size(&pair.descriptor) + size(&pair.value),
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::Binary(bytes) => bytes.0.len(),
        Value::String(text) => text.as_bytes().len(),
        Value::Symbol(text) => text.as_bytes().len(),
        _ => 0,
    }
}

/// The count of a collection, and the bytes behind it.
fn content(value: &Value) -> (usize, usize) {
    match value {
        Value::List(list) => (list.0.len(), list.0.iter().map(size).sum()),
        Value::Map(map) => (2 * map.0.len(), map.0.iter().map(|(key, value)| size(key) + size(value)).sum()),
        Value::Array(array) => {
            let descriptors: usize = array.descriptors().iter().map(|descriptor| 1 + size(descriptor)).sum();
            (array.len(), descriptors + 1 + array_elements(array))
        }
        _ => (0, 0),
    }
}

/// The bytes of the elements of an array, which all have the same format code.
fn array_elements(array: &Array) -> usize {
    let one_byte = || array.iter().all(|value| size(value) <= 2);
    let width = match array.element_type() {
        ValueType::Null => 0,
        ValueType::Boolean | ValueType::Ubyte | ValueType::Byte => 1,
        ValueType::Uint | ValueType::Int | ValueType::Ulong | ValueType::Long if one_byte() => 1,
        ValueType::Ushort | ValueType::Short => 2,
        ValueType::Uint | ValueType::Int | ValueType::Float | ValueType::Decimal32 | ValueType::Char => 4,
        ValueType::Ulong | ValueType::Long | ValueType::Double | ValueType::Decimal64 | ValueType::Timestamp => 8,
        ValueType::Decimal128 | ValueType::Uuid => 16,
        ValueType::Binary | ValueType::String | ValueType::Symbol => {
            let width = if array.iter().all(|value| length(value) <= 255) { 1 } else { 4 };
            return array.iter().map(|value| width + length(value)).sum();
        }
        ValueType::List | ValueType::Map | ValueType::Array => {
            let contents: Vec<_> = array.iter().map(content).collect();
            let narrow = contents.iter().all(|(count, content)| *count <= 255 && *content <= 254);
            return contents.iter().map(|(_, content)| content + if narrow { 2 } else { 8 }).sum();
        }
        ValueType::Described => panic!("the elements of an array have no descriptor of their own"),
    };
    width * array.len()
}

/// Whether two values are the same, with every bit of a float.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    let all = |one: &[Value], other: &[Value]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
    };
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => one.to_bits() == other.to_bits(),
        (Value::Double(one), Value::Double(other)) => one.to_bits() == other.to_bits(),
        (Value::List(one), Value::List(other)) => all(&one.0, &other.0),
        (Value::Map(one), Value::Map(other)) => {
            one.0.len() == other.0.len()
                && one.0.iter().zip(&other.0).all(|(one, other)| same(&one.0, &other.0) && same(&one.1, &other.1))
        }
        (Value::Described(one), Value::Described(other)) => {
            same(&one.descriptor, &other.descriptor) && same(&one.value, &other.value)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.element_type() == other.element_type() && all(one.descriptors(), other.descriptors()) && all(one, other)
        }
        (one, other) => one == other,
    }
}
