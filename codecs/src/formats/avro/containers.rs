//! Arrays, maps and records that are being written.

use bytes::{Buf, BufMut, BytesMut};
use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};

use super::{
    schema::{AvroSchema, Id, Node, Record},
    write::{self, Writer, length, long},
    write_error::{WriteError, refused},
};

static STRING: Node = Node::String;
static INT: Node = Node::Int;

fn deeper(levels: usize) -> Result<usize, WriteError> {
    levels.checked_sub(1).ok_or_else(|| refused("nested deeper than 128 levels"))
}

/// The items of an array.
pub(super) struct Items<'o, 's> {
    out: &'o mut BytesMut,
    schema: &'s AvroSchema,
    id: Id,
    levels: usize,
    /// How many items of this block are not written yet. Behind it, each item is a block.
    left: usize,
}

impl<'o, 's> Items<'o, 's> {
    pub(super) fn begin(
        out: &'o mut BytesMut,
        schema: &'s AvroSchema,
        id: Id,
        levels: usize,
        count: Option<usize>,
    ) -> Result<Self, WriteError> {
        let (left, levels) = (count.unwrap_or(0), deeper(levels)?);
        if left > 0 {
            length(left, out)?;
        }
        Ok(Self { out, schema, id, levels, left })
    }

    fn next(&mut self) {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => long(1, self.out),
        }
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        value.serialize(Writer::at(self.out, self.schema, self.id, self.levels))
    }

    fn end(self) -> Result<(), WriteError> {
        if self.left > 0 {
            return Err(refused("fewer elements than the type has announced"));
        }
        long(0, self.out);
        Ok(())
    }
}

/// What a sequence is written as.
pub(super) enum Sequence<'o, 's> {
    Items(Items<'o, 's>),
    /// Its bytes, and how many there have to be.
    Bytes(&'o mut BytesMut, Vec<u8>, Option<usize>),
}

impl Sequence<'_, '_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        match self {
            Self::Items(items) => {
                items.next();
                items.value(value)
            }
            Self::Bytes(_, bytes, _) => {
                let mut number = BytesMut::new();
                value.serialize(Writer::bare(&mut number, &INT))?;
                bytes.push(byte(&mut number).ok_or_else(|| refused("an element that is not a byte"))?);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<(), WriteError> {
        match self {
            Self::Items(items) => items.end(),
            Self::Bytes(_, bytes, Some(size)) if bytes.len() != size => Err(refused("bytes of another length")),
            Self::Bytes(out, bytes, size) => {
                if size.is_none() {
                    length(bytes.len(), out)?;
                }
                out.put_slice(&bytes);
                Ok(())
            }
        }
    }
}

/// Returns the byte that was written as an int: not negative, and in one or two bytes.
fn byte(number: &mut BytesMut) -> Option<u8> {
    let mut value = 0_u64;
    for shift in (0..).step_by(7).take(number.len().min(3)) {
        value |= u64::from(number.get_u8() & 0x7f) << shift;
    }
    if value & 1 == 0 && number.is_empty() { u8::try_from(value >> 1).ok() } else { None }
}

macro_rules! sequences {
    ($($trait:ident $method:ident;)*) => {$(
        impl $trait for Sequence<'_, '_> {
            type Ok = ();
            type Error = WriteError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
                self.element(value)
            }

            fn end(self) -> Result<(), WriteError> {
                self.finish()
            }
        }
    )*};
}

sequences! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

/// The entries of a map.
pub(super) struct Entries<'o, 's>(pub(super) Items<'o, 's>);

/// The fields of a record, in the order of the schema. A field that comes before its turn waits.
pub(super) struct Fields<'o, 's> {
    out: &'o mut BytesMut,
    schema: &'s AvroSchema,
    record: &'s Record,
    levels: usize,
    next: usize,
    waiting: Vec<(usize, BytesMut)>,
}

impl<'o, 's> Fields<'o, 's> {
    pub(super) fn begin(
        out: &'o mut BytesMut,
        schema: &'s AvroSchema,
        record: &'s Record,
        levels: usize,
    ) -> Result<Self, WriteError> {
        Ok(Self { out, schema, record, levels: deeper(levels)?, next: 0, waiting: Vec::new() })
    }

    fn index(&self, name: &str) -> Option<usize> {
        // Nearly always the fields are in the order of the schema.
        match self.record.fields.get(self.next) {
            Some(field) if field.name == name => Some(self.next),
            _ => self.record.fields.iter().position(|field| field.name == name),
        }
    }

    fn field<T: Serialize + ?Sized>(&mut self, index: usize, value: &T) -> Result<(), WriteError> {
        let field = &self.record.fields[index];
        if index < self.next || self.waiting.iter().any(|&(other, _)| other == index) {
            return Err(refused("the field occurs twice").in_field(&field.name));
        }
        if index > self.next {
            let mut out = BytesMut::new();
            value
                .serialize(Writer::at(&mut out, self.schema, field.id, self.levels))
                .map_err(|error| error.in_field(&field.name))?;
            self.waiting.push((index, out));
            return Ok(());
        }
        value
            .serialize(Writer::at(self.out, self.schema, field.id, self.levels))
            .map_err(|error| error.in_field(&field.name))?;
        self.next += 1;
        self.write_waiting();
        Ok(())
    }

    fn write_waiting(&mut self) {
        while let Some(at) = self.waiting.iter().position(|&(index, _)| index == self.next) {
            let (_, bytes) = self.waiting.swap_remove(at);
            self.out.put_slice(&bytes);
            self.next += 1;
        }
    }

    /// A field that the type has left out has its default, or else null.
    fn finish(mut self) -> Result<(), WriteError> {
        while let Some(field) = self.record.fields.get(self.next) {
            let written = match &field.default {
                Some(default) => write::default(self.schema, field.id, default, self.out),
                None => ().serialize(Writer::at(self.out, self.schema, field.id, self.levels)),
            };
            written.map_err(|_| refused("the type has no value for a field").in_field(&field.name))?;
            self.next += 1;
            self.write_waiting();
        }
        Ok(())
    }
}

macro_rules! structs {
    ($($trait:ident)*) => {$(
        impl $trait for Fields<'_, '_> {
            type Ok = ();
            type Error = WriteError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), WriteError> {
                let unknown = || refused("the schema has no such field").in_field(name);
                self.field(self.index(name).ok_or_else(unknown)?, value)
            }

            fn end(self) -> Result<(), WriteError> {
                self.finish()
            }
        }
    )*};
}

structs! { SerializeStruct SerializeStructVariant }

/// What a map is written as: a record if its keys are fields.
pub(super) enum Pairs<'o, 's> {
    Map(Entries<'o, 's>),
    Record(Fields<'o, 's>, Option<usize>),
}

impl SerializeMap for Pairs<'_, '_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), WriteError> {
        match self {
            Self::Map(Entries(items)) => {
                items.next();
                key.serialize(Writer::bare(items.out, &STRING))
            }
            Self::Record(fields, index) => {
                let mut text = BytesMut::new();
                key.serialize(Writer::bare(&mut text, &STRING))?;
                // Keys are values, which an error does not quote.
                let of = |name: &str| {
                    let mut key = BytesMut::new();
                    length(name.len(), &mut key).is_ok_and(|()| {
                        key.put_slice(name.as_bytes());
                        key == text
                    })
                };
                let position = fields.record.fields.iter().position(|field| of(&field.name));
                *index = Some(position.ok_or_else(|| refused("a key that is not a field of the schema"))?);
                Ok(())
            }
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        match self {
            Self::Map(Entries(items)) => items.value(value),
            Self::Record(fields, index) => {
                let index = index.take().ok_or_else(|| refused("a value before its key"))?;
                fields.field(index, value)
            }
        }
    }

    fn end(self) -> Result<(), WriteError> {
        match self {
            Self::Map(Entries(items)) => items.end(),
            Self::Record(fields, _) => fields.finish(),
        }
    }
}
