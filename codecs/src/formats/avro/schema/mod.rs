//! Avro schemas, parsed and checked.

mod canonical;
mod error;
mod parse;

use std::{fmt, sync::Arc};

use serde_json::Value;

pub use self::error::{AvroSchemaError, AvroSchemaErrorKind};

/// A schema of Avro, by which [`Avro`](super::Avro) reads and writes values. A clone is a reference count.
///
/// ```
/// use consign_codecs::AvroSchema;
///
/// let schema = AvroSchema::parse(r#"{"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}"#)?;
/// assert_eq!(schema.name(), Some("shop.Order"));
/// assert_eq!(
///     schema.canonical_form(),
///     r#"{"name":"shop.Order","type":"record","fields":[{"name":"id","type":"long"}]}"#
/// );
/// # Ok::<(), consign_codecs::AvroSchemaError>(())
/// ```
#[derive(Clone)]
pub struct AvroSchema(Arc<Parsed>);

struct Parsed {
    /// All types of the schema. They refer to each other by their place here, because a type may contain itself.
    nodes: Vec<Node>,
    /// Numbers that are days, times of day, and times without a zone.
    other_times: Vec<Id>,
    root: Id,
    canonical: String,
    fingerprint: u64,
}

impl AvroSchema {
    /// Returns the full name of the outermost type, if it is a record, an enum or a fixed.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.node(self.root()).name()
    }

    /// Returns the Parsing Canonical Form of the specification.
    #[must_use]
    pub fn canonical_form(&self) -> &str {
        &self.0.canonical
    }

    /// Returns the fingerprint by which a body names the schema that it was written with: CRC-64-AVRO of the canonical form.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint
    }

    pub(super) fn root(&self) -> Id {
        self.0.root
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        &self.0.nodes[id]
    }

    /// Returns whether a value that is text for a reader, and bytes otherwise, is text here.
    pub(super) fn is_text(&self, id: Id) -> bool {
        let is_bytes = |id: &Id| matches!(self.node(*id), Node::Bytes | Node::Fixed(_));
        match self.node(id) {
            Node::String => true,
            Node::Union(branches) => {
                branches.iter().any(|id| matches!(self.node(*id), Node::String)) && !branches.iter().any(is_bytes)
            }
            _ => false,
        }
    }

    /// Returns whether a number is a day, a time of day, or a time without a zone. None of them is an instant.
    pub(super) fn is_other_time(&self, id: Id) -> bool {
        self.0.other_times.contains(&id)
    }

    /// Returns whether numbers are the same times in another schema with the same canonical form, which has no logical types.
    pub(super) fn has_times_of(&self, other: &Self) -> bool {
        let unit = |node: &Node| if let Node::Long(unit) = node { *unit } else { None };
        self.nodes().map(unit).eq(other.nodes().map(unit)) && self.0.other_times == other.0.other_times
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.nodes.iter()
    }

    /// Returns the instants that are not in milliseconds.
    pub(super) fn short_units(&self) -> Vec<Id> {
        let is_short = |node: &Node| matches!(node, Node::Long(Some(Unit::Micros | Unit::Nanos)));
        (0..self.0.nodes.len()).filter(|&id| is_short(self.node(id))).collect()
    }
}

/// Shows the name and the fingerprint.
impl fmt::Debug for AvroSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprint = self.fingerprint();
        let fingerprint = format_args!("{fingerprint:016x}");
        f.debug_struct("AvroSchema").field("name", &self.name()).field("fingerprint", &fingerprint).finish()
    }
}

/// The place of a type in its schema.
pub(super) type Id = usize;

/// One type of a schema.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    Boolean,
    Int,
    /// With its unit, if it is an instant.
    Long(Option<Unit>),
    Float,
    Double,
    Bytes,
    String,
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Record(Record),
    Enum(Enumeration),
    Fixed(Fixed),
}

/// The unit of an instant, which counts from 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    pub(super) const fn per_second(self) -> i64 {
        match self {
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) id: Id,
    /// What a writer writes that has no value for it.
    pub(super) default: Option<Value>,
}

#[derive(Debug)]
pub(super) struct Enumeration {
    pub(super) name: String,
    pub(super) symbols: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Fixed {
    pub(super) name: String,
    pub(super) size: usize,
}

impl Node {
    /// Returns the full name of a type that has one.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Record(Record { name, .. })
            | Self::Enum(Enumeration { name, .. })
            | Self::Fixed(Fixed { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// Returns the name by which a variant of a Rust enum selects this branch of a union: without its namespace.
    pub(super) fn label(&self) -> &str {
        let full = self.name().unwrap_or_else(|| self.kind());
        full.rsplit_once('.').map_or(full, |(_, label)| label)
    }

    /// Returns the name of the kind of this type, as a schema has it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long(_) => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
            Self::Record(_) => "record",
            Self::Enum(_) => "enum",
            Self::Fixed(_) => "fixed",
        }
    }
}
