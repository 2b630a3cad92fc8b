//! The default of a field, as a schema has it in JSON.

use bytes::{BufMut, BytesMut};
use serde::ser::Serialize;
use serde_json::Value;

use super::{Writer, length};
use crate::{
    Limits,
    formats::avro::{
        schema::{AvroSchema, Id, Node, Record},
        write_error::{WriteError, refused},
    },
};

/// Writes a default. Bytes are text there, a character for each byte; a float is the nearest one; and of a union it is the first branch
/// that has such a value.
pub(in crate::formats::avro) fn default(
    schema: &AvroSchema,
    id: Id,
    default: &Value,
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let mut default_of = Default { schema, left: 65_536 };
    default_of.value(id, default, Limits::MAX_DEPTH, out)
}

struct Default<'s> {
    schema: &'s AvroSchema,
    /// How many more values may be tried: a record whose defaults are records has as many as a power of their number.
    left: usize,
}

impl Default<'_> {
    fn value(&mut self, id: Id, default: &Value, levels: usize, out: &mut BytesMut) -> Result<(), WriteError> {
        let (Some(left), Some(inner)) = (self.left.checked_sub(1), levels.checked_sub(1)) else {
            return Err(refused("a default of too many values"));
        };
        self.left = left;
        match (self.schema.node(id), default) {
            (Node::Union(branches), _) => self.branch(branches, default, inner, out),
            (Node::Bytes, Value::String(text)) => {
                length(text.chars().count(), out)?;
                latin1(text, out)
            }
            (Node::Fixed(fixed), Value::String(text)) if text.chars().count() == fixed.size => latin1(text, out),
            (Node::Bytes | Node::Fixed(_), _) => Err(refused("the default of bytes is text")),
            (Node::Float, Value::Number(number)) => single(number.as_f64(), out),
            (Node::Double, Value::Number(number)) => {
                out.put_f64_le(number.as_f64().ok_or_else(|| refused("the default is out of range"))?);
                Ok(())
            }
            (Node::Array(items), Value::Array(values)) => {
                block(values.len(), out)?;
                values.iter().try_for_each(|value| self.value(*items, value, inner, out))?;
                end(out);
                Ok(())
            }
            (Node::Map(values), Value::Object(entries)) => {
                block(entries.len(), out)?;
                for (key, value) in entries {
                    length(key.len(), out)?;
                    out.put_slice(key.as_bytes());
                    self.value(*values, value, inner, out)?;
                }
                end(out);
                Ok(())
            }
            (Node::Record(record), Value::Object(fields)) => self.record(record, fields, inner, out),
            (Node::Array(_) | Node::Map(_) | Node::Record(_), _) => Err(refused("the default is of another type")),
            _ => default.serialize(Writer::at(out, self.schema, id, levels)),
        }
    }

    fn branch(
        &mut self,
        branches: &[Id],
        default: &Value,
        levels: usize,
        out: &mut BytesMut,
    ) -> Result<(), WriteError> {
        let start = out.len();
        for (index, &id) in branches.iter().enumerate() {
            length(index, out)?;
            if self.value(id, default, levels, out).is_ok() {
                return Ok(());
            }
            out.truncate(start);
        }
        Err(refused("no type has a place for the default"))
    }

    /// A field that the default does not have has its own.
    fn record(
        &mut self,
        record: &Record,
        fields: &serde_json::Map<String, Value>,
        levels: usize,
        out: &mut BytesMut,
    ) -> Result<(), WriteError> {
        if fields.keys().any(|name| record.fields.iter().all(|field| field.name != *name)) {
            return Err(refused("the schema has no such field"));
        }
        record.fields.iter().try_for_each(|field| match fields.get(&field.name).or(field.default.as_ref()) {
            Some(value) => self.value(field.id, value, levels, out),
            // As a type that does not write the field.
            None => self
                .value(field.id, &Value::Null, levels, out)
                .map_err(|_| refused("the default has no value for a field")),
        })
    }
}

fn latin1(text: &str, out: &mut BytesMut) -> Result<(), WriteError> {
    for char in text.chars() {
        out.put_u8(u8::try_from(char).map_err(|_| refused("a character above U+00FF"))?);
    }
    Ok(())
}

fn single(number: Option<f64>, out: &mut BytesMut) -> Result<(), WriteError> {
    #[expect(clippy::cast_possible_truncation, reason = "to the nearest, and the range is checked")]
    match number.map(|number| number as f32) {
        Some(number) if number.is_finite() => {
            out.put_f32_le(number);
            Ok(())
        }
        _ => Err(refused("a number beyond the floats of 32 bits")),
    }
}

/// Begins the elements of an array or a map, in one block.
fn block(count: usize, out: &mut BytesMut) -> Result<(), WriteError> {
    if count > 0 { length(count, out) } else { Ok(()) }
}

fn end(out: &mut BytesMut) {
    out.put_u8(0);
}
