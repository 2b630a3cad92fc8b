//! Annotations: arrays and tables among the headers, which no application property can be.

use consign_core::message::{PropertyValue, Value, limits};
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::property;

/// Levels of a table or an array.
const LEVELS: usize = limits::VALUE_LEVELS - 2;

/// An array or a table as a value; `None` for another header, and for one that is nested deeper than a value may be.
pub(super) fn read(header: &AMQPValue) -> Option<Value> {
    matches!(header, AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_)).then(|| value(header, LEVELS)).flatten()
}

fn value(header: &AMQPValue, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    Some(match header {
        AMQPValue::FieldArray(array) => {
            Value::List(array.as_slice().iter().map(|item| value(item, depth)).collect::<Option<_>>()?)
        }
        AMQPValue::FieldTable(table) => {
            let pairs = table.inner().iter().map(|(key, item)| Some((Value::from(key.as_str()), value(item, depth)?)));
            Value::Map(pairs.collect::<Option<_>>()?)
        }
        simple => Value::Simple(property::read(simple, None)?),
    })
}

/// A list or a map as a header; `None` for another value, and for what no header can hold.
pub(super) fn write(value: &Value) -> Option<AMQPValue> {
    matches!(value, Value::List(_) | Value::Map(_)).then(|| header(value, LEVELS)).flatten()
}

fn header(value: &Value, depth: usize) -> Option<AMQPValue> {
    let depth = depth.checked_sub(1)?;
    Some(match value {
        Value::Simple(simple) => property::write_nested(simple),
        Value::List(values) => {
            let all = values.iter().map(|value| header(value, depth)).collect::<Option<Vec<_>>>()?;
            AMQPValue::FieldArray(all.into())
        }
        Value::Map(pairs) => {
            let mut table = FieldTable::default();
            for (key, value) in pairs {
                let Value::Simple(PropertyValue::String(key)) = key else { return None };
                table.insert(ShortString::try_new(key.to_string()).ok()?, header(value, depth)?);
            }
            AMQPValue::FieldTable(table)
        }
        _ => return None,
    })
}

/// Bytes that a header takes, and a few more.
pub(super) fn size(name: &str, header: &AMQPValue) -> usize {
    let inside = match header {
        AMQPValue::ShortString(text) => text.as_str().len(),
        AMQPValue::LongString(text) => text.as_bytes().len(),
        AMQPValue::ByteArray(bytes) => bytes.as_slice().len(),
        AMQPValue::FieldArray(array) => array.as_slice().iter().map(|item| size("", item)).sum(),
        AMQPValue::FieldTable(table) => table.inner().iter().map(|(key, item)| size(key.as_str(), item)).sum(),
        _ => 4,
    };
    name.len() + inside + 6
}
