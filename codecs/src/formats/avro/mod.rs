//! Bodies of Avro, in the single-object encoding.

mod access;
mod containers;
mod input;
mod read;
mod reader;
mod schema;
mod write;
mod write_error;

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

pub use self::schema::{AvroSchema, AvroSchemaError, AvroSchemaErrorKind};
use self::{input::Input, reader::Reader, write::MARKER, write_error::WriteError};
use super::empty;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, MediaType, Position,
    explain::{Trace, explain},
};

/// Avro 1.12 by schemas of yours: `application/avro`, `avro/binary` and `application/vnd.apache.avro`.
///
/// A body is in Avro's single-object encoding: two bytes `C3 01`, the fingerprint of the schema that it was written with, and
/// the value. A body with the fingerprint of another schema is refused, so the codec may be in a fallback chain. The codec has no
/// schema registry: it reads no files of Avro, and no bodies in the format of Confluent or Azure, which have the number of a schema in a
/// registry.
///
/// ```
/// use bytes::BytesMut;
/// use consign_codecs::{Avro, AvroSchema, Codec, DecodeContext, Limits};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Deserialize, Serialize)]
/// struct Order {
///     id: u64,
///     note: Option<String>,
///     #[serde(default)]
///     priority: u8,
/// }
///
/// let order = AvroSchema::parse(
///     r#"{"type": "record", "name": "Order", "fields": [
///         {"name": "id", "type": "long"},
///         {"name": "note", "type": ["null", "string"], "default": null},
///         {"name": "priority", "type": "int", "default": 0}
///     ]}"#,
/// )?;
/// let before = AvroSchema::parse(
///     r#"{"type": "record", "name": "Order", "fields": [
///         {"name": "id", "type": "long"},
///         {"name": "note", "type": ["null", "string"]}
///     ]}"#,
/// )?;
/// // The schema of a producer that is not updated yet is only read.
/// let avro = Avro::new(order).reads(before.clone());
/// let limits = Limits::default();
///
/// let mut body = BytesMut::new();
/// avro.encode(&Order { id: 7, note: None, priority: 1 }, &mut body)?;
/// let read: Order = avro.decode(&body, &DecodeContext::new(&limits))?;
/// assert_eq!(read, Order { id: 7, note: None, priority: 1 });
///
/// let old = [b"\xc3\x01", &before.fingerprint().to_le_bytes()[..], b"\x0e\x00"].concat();
/// let read: Order = avro.decode(&old, &DecodeContext::new(&limits))?;
/// assert_eq!(read, Order { id: 7, note: None, priority: 0 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Types
///
/// | Avro | Rust |
/// |---|---|
/// | `null` | unit, `None` |
/// | `int`, `long` | integers; read into floats too |
/// | `float`, `double` | floats; an integer that they hold exactly is written |
/// | `bytes`, `fixed` | `Vec<u8>`, `[u8; N]`, and types such as `serde_bytes::ByteBuf` |
/// | `string` | text, a unit variant |
/// | `enum` | an enum of unit variants; text |
/// | `array` | a sequence; a tuple of one type |
/// | `map` | a map with keys of text |
/// | `record` | a struct by the names of its fields; a map |
/// | `["null", T]` | `Option<T>` |
/// | another union | an enum whose variants have the names of the branches: of a named type without its namespace, otherwise `string`, `long` and so on. Without such an enum a value is written as the branch that fits |
/// | `long` with `timestamp-millis`, `-micros`, `-nanos` | `consign::time::Timestamp`; as an integer it is not converted |
///
/// Other logical types are ignored: a `decimal` is bytes, a `date` the number of days.
///
/// # Versions of a schema
///
/// The schema that a body was written with, and the Rust type, have to fit together. A field that the type lacks is skipped. A
/// field that the schema lacks needs `#[serde(default)]`: the defaults of another schema are not used for reading. A field that the type
/// does not write has the default of the schema. A field that the schema lacks is not written, and is an error.
///
/// # Limits
///
/// The items of arrays and the entries of maps are elements of [`Limits::elements`](crate::Limits::elements). A record, an array and a
/// map are a level of [`Limits::depth`](crate::Limits::depth).
#[derive(Clone, Debug)]
pub struct Avro {
    /// The schemas for writing, and behind them those that are only read.
    schemas: Vec<AvroSchema>,
    written: usize,
}

impl Avro {
    /// Creates a codec that reads and writes values of this schema.
    #[must_use]
    pub fn new(schema: AvroSchema) -> Self {
        Self { schemas: vec![schema], written: 1 }
    }

    /// Adds a schema for reading and writing. A struct is written by the schema whose record has its name, `#[serde(rename)]`
    /// included; any other value by the only schema that has a place for it.
    #[must_use]
    pub fn with(mut self, schema: AvroSchema) -> Self {
        self.schemas.insert(self.written, schema);
        self.written += 1;
        self
    }

    /// Adds a schema for reading only, such as an earlier version of another one.
    #[must_use]
    pub fn reads(mut self, schema: AvroSchema) -> Self {
        self.schemas.push(schema);
        self
    }

    /// Returns the schema of a body, and where its value begins.
    fn schema_of(&self, body: &[u8]) -> Result<(&AvroSchema, usize), DecodeError> {
        const START: usize = MARKER.len() + size_of::<u64>();
        let Some(rest) = body.strip_prefix(&MARKER) else {
            let is_cut_off = MARKER.starts_with(body);
            let kind = if is_cut_off { DecodeErrorKind::Truncated } else { DecodeErrorKind::Syntax };
            return Err(DecodeError::new(kind).at(Position::Offset(0)));
        };
        let Some(fingerprint) = rest.first_chunk() else {
            return Err(DecodeError::new(DecodeErrorKind::Truncated).at(Position::Offset(body.len())));
        };
        let fingerprint = u64::from_le_bytes(*fingerprint);
        match self.schemas.iter().find(|schema| schema.fingerprint() == fingerprint) {
            Some(schema) => Ok((schema, START)),
            None => Err(DecodeError::new(DecodeErrorKind::Syntax)
                .with_detail("written with a schema that the codec does not have")
                .at(Position::Offset(MARKER.len()))),
        }
    }
}

impl Codec for Avro {
    fn name(&self) -> &'static str {
        "avro"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[
            MediaType::exact("application/avro"),
            MediaType::exact("avro/binary"),
            MediaType::exact("application/vnd.apache.avro"),
        ];
        TYPES
    }

    /// The fingerprint determines the schema, which has the names and the types.
    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        if body.is_empty() {
            return empty::decode();
        }
        let (schema, start) = self.schema_of(body)?;
        let mut input = Input::new(body, start, cx.limits());
        match T::deserialize(Reader { input: &mut input, schema, id: schema.root() }) {
            Ok(value) if input.is_at_end() => Ok(value),
            Ok(_) => Err(DecodeError::new(DecodeErrorKind::Trailing).at(Position::Offset(input.offset()))),
            Err(refused) => {
                let error = refused.into_inner();
                let error = if error.position().is_some() { error } else { error.at(Position::Offset(input.offset())) };
                let read = |trace: &Trace| {
                    let mut input = Input::new(body, start, cx.limits());
                    trace.read::<T, _>(Reader { input: &mut input, schema, id: schema.root() });
                };
                Err(explain(error, read, |_| None))
            }
        }
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        write::write(&self.schemas[..self.written], value, out).map_err(WriteError::into_inner)
    }
}
