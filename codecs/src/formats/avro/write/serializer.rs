//! Each kind of value of serde, as the schema has it.

use bytes::BufMut;
use serde::ser::{Serialize, Serializer};

use super::{
    super::{
        containers::{Entries, Fields, Items, Pairs, Sequence},
        schema::Node,
        write_error::{WriteError, refused},
    },
    Place, Writer, length,
};
use crate::instant::INSTANT;

macro_rules! integers {
    ($($name:ident $type:ty;)*) => {$(
        fn $name(self, value: $type) -> Result<(), WriteError> {
            self.integer(i64::try_from(value).map_err(|_| refused("an integer beyond 64 bits with a sign"))?)
        }
    )*};
}

impl<'o, 's> Serializer for Writer<'o, 's> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Sequence<'o, 's>;
    type SerializeTuple = Sequence<'o, 's>;
    type SerializeTupleStruct = Sequence<'o, 's>;
    type SerializeTupleVariant = Sequence<'o, 's>;
    type SerializeMap = Pairs<'o, 's>;
    type SerializeStruct = Fields<'o, 's>;
    type SerializeStructVariant = Fields<'o, 's>;

    integers! {
        serialize_i128 i128;
        serialize_u64 u64;
        serialize_u128 u128;
    }

    fn serialize_i8(self, value: i8) -> Result<(), WriteError> {
        self.integer(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), WriteError> {
        self.integer(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), WriteError> {
        self.integer(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), WriteError> {
        self.integer(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), WriteError> {
        self.integer(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), WriteError> {
        self.integer(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), WriteError> {
        self.integer(value.into())
    }

    fn serialize_bool(mut self, value: bool) -> Result<(), WriteError> {
        self.choose("a boolean", |node| matches!(node, Node::Boolean).then_some(0))?;
        self.out.put_u8(value.into());
        Ok(())
    }

    fn serialize_f32(mut self, value: f32) -> Result<(), WriteError> {
        let chosen = self.choose("a float", |node| match node {
            Node::Float => Some(0),
            Node::Double => Some(1),
            _ => None,
        })?;
        match chosen.node {
            Node::Float => self.out.put_f32_le(value),
            _ => self.out.put_f64_le(value.into()),
        }
        Ok(())
    }

    /// A float of 64 bits that 32 bits hold is written as such, if the schema has no other.
    fn serialize_f64(mut self, value: f64) -> Result<(), WriteError> {
        #[expect(clippy::cast_possible_truncation, reason = "the result is compared")]
        let single = value as f32;
        let is_exact = value.is_nan() || f64::from(single).to_bits() == value.to_bits();
        let chosen = self.choose("a float of 64 bits", |node| match node {
            Node::Double => Some(0),
            Node::Float if is_exact => Some(1),
            _ => None,
        })?;
        match chosen.node {
            Node::Float => self.out.put_f32_le(single),
            _ => self.out.put_f64_le(value),
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), WriteError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(mut self, text: &str) -> Result<(), WriteError> {
        let chosen = self.choose("a text", |node| match node {
            Node::String => Some(0),
            Node::Enum(of) if of.symbols.iter().any(|symbol| symbol == text) => Some(1),
            _ => None,
        })?;
        if let Node::Enum(of) = chosen.node {
            return length(of.symbols.iter().take_while(|&symbol| symbol != text).count(), self.out);
        }
        length(text.len(), self.out)?;
        self.out.put_slice(text.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), WriteError> {
        self.bytes(bytes)
    }

    fn serialize_none(self) -> Result<(), WriteError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_unit(mut self) -> Result<(), WriteError> {
        self.choose("null", |node| matches!(node, Node::Null).then_some(0)).map(drop)
    }

    fn serialize_unit_struct(mut self, name: &'static str) -> Result<(), WriteError> {
        self.choose("a unit struct", |node| match node {
            Node::Record(record) if record.fields.is_empty() && node.label() == name => Some(0),
            Node::Null => Some(1),
            _ => None,
        })
        .map(drop)
    }

    fn serialize_unit_variant(mut self, _: &'static str, _: u32, variant: &'static str) -> Result<(), WriteError> {
        let chosen = self.choose("a variant", |node| match node {
            Node::Enum(of) if of.symbols.iter().any(|symbol| symbol == variant) => Some(0),
            Node::Record(record) if record.fields.is_empty() && node.label() == variant => Some(1),
            Node::Null if variant == "null" => Some(1),
            Node::String => Some(2),
            _ => None,
        })?;
        match chosen.node {
            Node::Enum(of) => length(of.symbols.iter().take_while(|&symbol| symbol != variant).count(), self.out),
            Node::String => {
                length(variant.len(), self.out)?;
                self.out.put_slice(variant.as_bytes());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        self.is_instant = name == INSTANT;
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        self.branch(variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, count: Option<usize>) -> Result<Sequence<'o, 's>, WriteError> {
        self.sequence(count)
    }

    fn serialize_tuple(self, count: usize) -> Result<Sequence<'o, 's>, WriteError> {
        self.sequence(Some(count))
    }

    fn serialize_tuple_struct(self, _: &'static str, count: usize) -> Result<Sequence<'o, 's>, WriteError> {
        self.sequence(Some(count))
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        count: usize,
    ) -> Result<Sequence<'o, 's>, WriteError> {
        self.branch(variant)?;
        self.sequence(Some(count))
    }

    fn serialize_map(mut self, count: Option<usize>) -> Result<Pairs<'o, 's>, WriteError> {
        let chosen = self.choose("a map", |node| match node {
            Node::Map(_) => Some(0),
            Node::Record(_) => Some(1),
            _ => None,
        })?;
        match (chosen.node, chosen.schema) {
            (Node::Map(values), Some(schema)) => {
                Ok(Pairs::Map(Entries(Items::begin(self.out, schema, *values, self.levels, count)?)))
            }
            (Node::Record(record), Some(schema)) => {
                Ok(Pairs::Record(Fields::begin(self.out, schema, record, self.levels)?, None))
            }
            _ => Err(refused("a map in place of another type")),
        }
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'o, 's>, WriteError> {
        self.record(name)
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields<'o, 's>, WriteError> {
        self.branch(variant)?;
        self.record(variant)
    }

    /// As a reader does.
    fn is_human_readable(&self) -> bool {
        match self.place {
            Place::Start(schemas) => schemas.iter().all(|schema| schema.is_text(schema.root())),
            Place::Node(schema, id) => schema.is_text(id),
            Place::Bare(node) => matches!(node, Node::String),
        }
    }
}

impl<'o, 's> Writer<'o, 's> {
    fn sequence(mut self, count: Option<usize>) -> Result<Sequence<'o, 's>, WriteError> {
        let chosen = self.choose("a sequence", |node| match node {
            Node::Array(_) => Some(0),
            Node::Bytes => Some(1),
            Node::Fixed(fixed) if count.is_none_or(|count| count == fixed.size) => Some(2),
            _ => None,
        })?;
        match (chosen.node, chosen.schema) {
            (Node::Array(items), Some(schema)) => {
                Ok(Sequence::Items(Items::begin(self.out, schema, *items, self.levels, count)?))
            }
            (Node::Fixed(fixed), _) => Ok(Sequence::Bytes(self.out, Vec::new(), Some(fixed.size))),
            _ => Ok(Sequence::Bytes(self.out, Vec::new(), None)),
        }
    }

    fn record(mut self, name: &str) -> Result<Fields<'o, 's>, WriteError> {
        // A record of another name is the next best, if it is the only one.
        let chosen = self.choose("a struct", |node| match node {
            Node::Record(_) if node.label() == name => Some(0),
            Node::Record(_) => Some(1),
            _ => None,
        })?;
        let (Node::Record(record), Some(schema)) = (chosen.node, chosen.schema) else {
            return Err(refused("a struct in place of another type"));
        };
        Fields::begin(self.out, schema, record, self.levels)
    }
}
