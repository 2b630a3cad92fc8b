//! A value as a body. The schema determines how each value is written.

use bytes::{BufMut, BytesMut};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use super::{
    containers::{Entries, Fields, Items, Pairs, Sequence},
    schema::{AvroSchema, Id, Node, Unit},
    write_error::{WriteError, refused},
};
use crate::{Limits, instant::INSTANT};

/// The first bytes of a body in the single-object encoding. The fingerprint of the schema follows.
pub(super) const MARKER: [u8; 2] = [0xc3, 0x01];

/// Writes a value with the schema of these that has a place for it.
pub(super) fn write<T: Serialize + ?Sized>(
    schemas: &[AvroSchema],
    value: &T,
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    value.serialize(Writer { out, place: Place::Start(schemas), levels: Limits::MAX_DEPTH, is_instant: false })
}

/// Writes the default of a field. Bytes are text there, a character for each byte, and of a union it is the first branch.
pub(super) fn default(schema: &AvroSchema, id: Id, default: &Value, out: &mut BytesMut) -> Result<(), WriteError> {
    let id = match schema.node(id) {
        Node::Union(branches) => {
            long(0, out);
            *branches.first().ok_or_else(|| refused("a union without branches"))?
        }
        _ => id,
    };
    let (node, length) = (schema.node(id), default.as_str().map(|text| text.chars().count()));
    match (node, default, length) {
        (Node::Bytes, Value::String(text), Some(length)) => {
            long(i64::try_from(length).map_err(|_| refused("too long"))?, out);
            latin1(text, out)
        }
        (Node::Fixed(fixed), Value::String(text), Some(length)) if length == fixed.size => latin1(text, out),
        (Node::Bytes | Node::Fixed(_), ..) => Err(refused("the default of bytes is text")),
        _ => default.serialize(Writer::at(out, schema, id, Limits::MAX_DEPTH)),
    }
}

fn latin1(text: &str, out: &mut BytesMut) -> Result<(), WriteError> {
    for char in text.chars() {
        out.put_u8(u8::try_from(char).map_err(|_| refused("a character above U+00FF"))?);
    }
    Ok(())
}

/// Writes a number in zig-zag encoding.
pub(super) fn long(value: i64, out: &mut BytesMut) {
    let mut bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while bits >= 0x80 {
        out.put_u8(bits.to_le_bytes()[0] | 0x80);
        bits >>= 7;
    }
    out.put_u8(bits.to_le_bytes()[0]);
}

/// Writes a length or an index.
pub(super) fn length(length: usize, out: &mut BytesMut) -> Result<(), WriteError> {
    long(i64::try_from(length).map_err(|_| refused("too long"))?, out);
    Ok(())
}

/// Where a value is written.
#[derive(Clone, Copy)]
pub(super) enum Place<'s> {
    /// The outermost value, by one of these schemas.
    Start(&'s [AvroSchema]),
    /// A value of this type.
    Node(&'s AvroSchema, Id),
    /// A value of a type without parts: a key, a byte.
    Bare(&'static Node),
}

pub(super) struct Writer<'o, 's> {
    pub(super) out: &'o mut BytesMut,
    pub(super) place: Place<'s>,
    /// How many more levels the value may have.
    pub(super) levels: usize,
    /// Whether the next number is milliseconds since 1970.
    is_instant: bool,
}

/// The type that a value is written as.
pub(super) struct Chosen<'s> {
    pub(super) node: &'s Node,
    /// None for a type without parts.
    pub(super) schema: Option<&'s AvroSchema>,
}

impl<'o, 's> Writer<'o, 's> {
    pub(super) fn at(out: &'o mut BytesMut, schema: &'s AvroSchema, id: Id, levels: usize) -> Self {
        Self { out, place: Place::Node(schema, id), levels, is_instant: false }
    }

    pub(super) fn bare(out: &'o mut BytesMut, node: &'static Node) -> Self {
        Self { out, place: Place::Bare(node), levels: 1, is_instant: false }
    }

    /// Selects the schema and the branch of a union that fits best: that of the lowest rank. Two that fit equally well are refused,
    /// because a reader could not tell which was meant.
    pub(super) fn choose(
        &mut self,
        what: &'static str,
        rank: impl Fn(&Node) -> Option<u8>,
    ) -> Result<Chosen<'s>, WriteError> {
        if let Place::Start(schemas) = self.place {
            let ranks = schemas.iter().map(|schema| match schema.node(schema.root()) {
                Node::Union(branches) => branches.iter().filter_map(|&id| rank(schema.node(id))).min(),
                node => rank(node),
            });
            let schema = &schemas[best(ranks, what)?];
            self.out.put_slice(&MARKER);
            self.out.put_u64_le(schema.fingerprint());
            self.place = Place::Node(schema, schema.root());
        }
        match self.place {
            Place::Node(schema, id) => {
                let node = match schema.node(id) {
                    Node::Union(branches) => {
                        let branch = best(branches.iter().map(|&id| rank(schema.node(id))), what)?;
                        length(branch, self.out)?;
                        self.place = Place::Node(schema, branches[branch]);
                        schema.node(branches[branch])
                    }
                    node => node,
                };
                if rank(node).is_none() {
                    return Err(refused(format!("{what} in place of {}", node.kind())));
                }
                Ok(Chosen { node, schema: Some(schema) })
            }
            Place::Bare(node) if rank(node).is_some() => Ok(Chosen { node, schema: None }),
            Place::Bare(node) => Err(refused(format!("{what} in place of {}", node.kind()))),
            // It was replaced above.
            Place::Start(_) => Err(refused("no schema")),
        }
    }

    /// Selects the branch of this name for a variant of an enum.
    fn branch(&mut self, variant: &'static str) -> Result<(), WriteError> {
        self.choose("a variant with data", |node| (node.label() == variant).then_some(0)).map(drop)
    }

    fn integer(mut self, value: i64) -> Result<(), WriteError> {
        let is_instant = self.is_instant;
        let chosen = self.choose("an integer", |node| match node {
            Node::Long(Some(_)) if is_instant => Some(0),
            Node::Int if i32::try_from(value).is_ok() => Some(1),
            Node::Long(_) => Some(2),
            Node::Double if value.unsigned_abs() <= 1 << 53 => Some(3),
            Node::Float if value.unsigned_abs() <= 1 << 24 => Some(4),
            _ => None,
        })?;
        match chosen.node {
            #[expect(clippy::cast_precision_loss, reason = "these integers are exact")]
            Node::Double => self.out.put_f64_le(value as f64),
            #[expect(clippy::cast_precision_loss, reason = "these integers are exact")]
            Node::Float => self.out.put_f32_le(value as f32),
            Node::Long(Some(unit)) if is_instant => {
                let scale = match unit {
                    Unit::Millis => 1,
                    Unit::Micros => 1_000,
                    Unit::Nanos => 1_000_000,
                };
                long(value.checked_mul(scale).ok_or_else(|| refused("an instant beyond 64 bits"))?, self.out);
            }
            _ => long(value, self.out),
        }
        Ok(())
    }

    fn bytes(mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let chosen = self.choose("bytes", |node| match node {
            Node::Fixed(fixed) if fixed.size == bytes.len() => Some(0),
            Node::Bytes => Some(1),
            _ => None,
        })?;
        if matches!(chosen.node, Node::Bytes) {
            length(bytes.len(), self.out)?;
        }
        self.out.put_slice(bytes);
        Ok(())
    }

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

fn best(ranks: impl Iterator<Item = Option<u8>>, what: &'static str) -> Result<usize, WriteError> {
    let mut best: Option<(u8, usize, bool)> = None;
    for (index, rank) in ranks.enumerate() {
        let Some(rank) = rank else { continue };
        best = match best {
            Some((lowest, _, _)) if rank > lowest => best,
            Some((lowest, first, _)) if rank == lowest => Some((rank, first, true)),
            _ => Some((rank, index, false)),
        };
    }
    match best {
        Some((_, index, false)) => Ok(index),
        Some(_) => Err(refused(format!("several types have a place for {what}, and none has its name"))),
        None => Err(refused(format!("no type has a place for {what}"))),
    }
}

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

    fn is_human_readable(&self) -> bool {
        false
    }
}
