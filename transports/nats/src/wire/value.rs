//! Typed values as text: `tag:value`.

use bytes::Bytes;
use consign_core::{
    message::{PropertyValue, Value, limits},
    time::Timestamp,
};
use serde_json::{Value as Json, json};

use super::text::{bytes_of, hex};

/// Returns `tag:value`. `None` for a type that is newer than this code.
pub(crate) fn property_text(value: &PropertyValue) -> Option<String> {
    Some(match value {
        PropertyValue::Null => "null:".into(),
        PropertyValue::Bool(value) => format!("bool:{value}"),
        PropertyValue::U8(value) => format!("u8:{value}"),
        PropertyValue::U16(value) => format!("u16:{value}"),
        PropertyValue::U32(value) => format!("u32:{value}"),
        PropertyValue::U64(value) => format!("u64:{value}"),
        PropertyValue::I8(value) => format!("i8:{value}"),
        PropertyValue::I16(value) => format!("i16:{value}"),
        PropertyValue::I32(value) => format!("i32:{value}"),
        PropertyValue::I64(value) => format!("i64:{value}"),
        PropertyValue::F32(value) => format!("f32:{value}"),
        PropertyValue::F64(value) => format!("f64:{value}"),
        PropertyValue::Char(value) => format!("char:{value}"),
        PropertyValue::String(value) => format!("s:{value}"),
        PropertyValue::Decimal(value) => format!("decimal:{}", hex(value)),
        PropertyValue::Uuid(value) => format!("uuid:{}", hex(value)),
        PropertyValue::DateTime(value) => format!("time:{}", value.as_millis()),
        PropertyValue::DateTimeOffset(value) => format!("offset:{value}"),
        PropertyValue::TimeSpan(value) => format!("span:{value}"),
        PropertyValue::Uri(value) => format!("uri:{value}"),
        PropertyValue::Bytes(value) => format!("bytes:{}", hex(value)),
    })
}

/// Reverses [`property_text`].
pub(crate) fn property(text: &str) -> Option<PropertyValue> {
    let (tag, text) = text.split_once(':')?;
    Some(match tag {
        "null" => PropertyValue::Null,
        "bool" => PropertyValue::Bool(text.parse().ok()?),
        "u8" => PropertyValue::U8(text.parse().ok()?),
        "u16" => PropertyValue::U16(text.parse().ok()?),
        "u32" => PropertyValue::U32(text.parse().ok()?),
        "u64" => PropertyValue::U64(text.parse().ok()?),
        "i8" => PropertyValue::I8(text.parse().ok()?),
        "i16" => PropertyValue::I16(text.parse().ok()?),
        "i32" => PropertyValue::I32(text.parse().ok()?),
        "i64" => PropertyValue::I64(text.parse().ok()?),
        "f32" => PropertyValue::F32(text.parse().ok()?),
        "f64" => PropertyValue::F64(text.parse().ok()?),
        "char" => PropertyValue::Char(text.parse().ok()?),
        "s" => PropertyValue::String(text.into()),
        "decimal" => PropertyValue::Decimal(bytes_of(text)?.try_into().ok()?),
        "uuid" => PropertyValue::Uuid(bytes_of(text)?.try_into().ok()?),
        "time" => PropertyValue::DateTime(Timestamp::from_millis(text.parse().ok()?)),
        "offset" => PropertyValue::DateTimeOffset(text.parse().ok()?),
        "span" => PropertyValue::TimeSpan(text.parse().ok()?),
        "uri" => PropertyValue::Uri(text.into()),
        "bytes" => PropertyValue::Bytes(Bytes::from(bytes_of(text)?)),
        _ => return None,
    })
}

/// Returns a value of a body as JSON: a simple one is its text, others an object of one member.
pub(super) fn value_json(value: &Value) -> Option<Json> {
    let all = |values: &[Value]| values.iter().map(value_json).collect::<Option<Vec<_>>>();
    Some(match value {
        Value::Simple(simple) => Json::String(property_text(simple)?),
        Value::Symbol(text) => json!({ "symbol": &**text }),
        Value::List(values) => json!({ "list": all(values)? }),
        Value::Array(values) => json!({ "array": all(values)? }),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| Some(json!([value_json(key)?, value_json(value)?])));
            json!({ "map": entries.collect::<Option<Vec<_>>>()? })
        }
        Value::Described(pair) => json!({ "described": [value_json(&pair.0)?, value_json(&pair.1)?] }),
    })
}

/// Reverses [`value_json`]. `None` if it has more levels than a value may have.
pub(super) fn value(json: &Json) -> Option<Value> {
    value_within(json).filter(|value| value.is_within(limits::VALUE_LEVELS))
}

/// The parser has bounded the depth.
fn value_within(json: &Json) -> Option<Value> {
    let object = match json {
        Json::String(text) => return property(text).map(Value::Simple),
        Json::Object(object) => object,
        _ => return None,
    };
    let (tag, inner) = object.iter().next()?;
    let all = |json: &Json| json.as_array()?.iter().map(value_within).collect::<Option<Vec<_>>>();
    Some(match &**tag {
        "symbol" => Value::Symbol(inner.as_str()?.into()),
        "list" => Value::List(all(inner)?),
        "array" => Value::Array(all(inner)?),
        "map" => Value::Map(inner.as_array()?.iter().map(|entry| pair(entry.as_array()?)).collect::<Option<_>>()?),
        "described" => Value::Described(Box::new(pair(inner.as_array()?)?)),
        _ => return None,
    })
}

fn pair(values: &[Json]) -> Option<(Value, Value)> {
    let [first, second] = values else { return None };
    Some((value_within(first)?, value_within(second)?))
}
