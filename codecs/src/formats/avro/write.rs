//! A value as a body. The schema determines how each value is written.

mod default;
mod serializer;

use bytes::{BufMut, BytesMut};
use serde::ser::Serialize;

pub(super) use self::default::default;
use super::{
    schema::{AvroSchema, Id, Node, Unit},
    write_error::{WriteError, refused},
};
use crate::Limits;

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
        if let Place::Node(schema, id) = self.place
            && is_instant
            && schema.is_other_time(id)
        {
            return Err(refused("an instant in place of a day or a time without a zone"));
        }
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
