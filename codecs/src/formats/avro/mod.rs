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
use self::{input::Input, reader::Reader, schema::Id, write::MARKER, write_error::WriteError};
use super::empty;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, Limits, MediaType, Position,
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
/// | `float`, `double` | floats; an integer that they hold exactly is written. A `double` that is out of the range of `f32` is not read as one |
/// | `bytes`, `fixed` | `Vec<u8>`, `[u8; N]`, and types such as `serde_bytes::ByteBuf` |
/// | `string` | text, a unit variant; what is text in JSON, such as an IP address, a UUID and a `Timestamp` |
/// | `enum` | an enum of unit variants; text |
/// | `array` | a sequence; a tuple of one type |
/// | `map` | a map with keys of text |
/// | `record` | a struct by the names of its fields; a map |
/// | `["null", T]` | `Option<T>` |
/// | another union | an enum whose variants have the names of the branches: of a named type without its namespace, otherwise `string`, `long` and so on. Without such an enum a value is written as the branch that fits |
/// | `long` with `timestamp-millis`, `-micros`, `-nanos` | `consign::time::Timestamp`; as an integer it is not converted |
///
/// Where the type is not known, an instant in microseconds or nanoseconds is text of RFC 3339, and one in milliseconds a number. Serde
/// buffers flattened fields and tagged enums in this way: a `Timestamp` keeps its unit there, and an integer is read too, by reading
/// the body several times. An enum in a union is a variant by the name of the branch; if no other branch has the name of a variant,
/// a text or a symbol that has one is that variant.
///
/// Other logical types are ignored: a `decimal` is bytes, a `date` the number of days. A `Timestamp` is neither read from a `date`, a
/// `time-` or a `local-timestamp-` type, which are no instants, nor written as one.
///
/// # Versions of a schema
///
/// The schema that a body was written with, and the Rust type, have to fit together. A field that the type lacks is skipped. A
/// field that the schema lacks needs `#[serde(default)]`: the defaults of another schema are not used for reading. A field that the type
/// does not write has the default of the schema, of a union the first branch that has such a value. A field that the schema lacks
/// is not written, and is an error.
///
/// Two versions that differ only in the unit of a time have the same fingerprint, because a fingerprint does not include logical types.
/// A codec with both refuses their bodies: give the record of one of them another name.
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
            let error = DecodeError::new(kind).at(Position::Offset(0));
            return Err(if is_cut_off { error } else { error.with_detail(begins_as(body)) });
        };
        let Some(fingerprint) = rest.first_chunk() else {
            return Err(DecodeError::new(DecodeErrorKind::Truncated).at(Position::Offset(body.len())));
        };
        let fingerprint = u64::from_le_bytes(*fingerprint);
        let refused = |detail| {
            let error = DecodeError::new(DecodeErrorKind::Syntax).with_detail(detail);
            Err(error.at(Position::Offset(MARKER.len())))
        };
        let mut found = self.schemas.iter().filter(|schema| schema.fingerprint() == fingerprint);
        match found.next() {
            None => refused("written with a schema that the codec does not have"),
            Some(schema) if found.all(|other| other.has_times_of(schema)) => Ok((schema, START)),
            Some(_) => refused("schemas of the codec have the same fingerprint, and other units of time"),
        }
    }
}

/// Returns what a body may be that has another encoding.
#[cold]
fn begins_as(body: &[u8]) -> &'static str {
    match body {
        [b'O', b'b', b'j', 1, ..] => "not in the single-object encoding: begins as a container file of Avro",
        // The number of a schema in a registry, in four bytes.
        [0, _, _, _, _, ..] => "not in the single-object encoding: begins as Confluent's wire format",
        _ => "not in the single-object encoding, which begins with C3 01",
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
        let body = Body { bytes: body, start, schema, limits: cx.limits() };
        body.read(&[]).or_else(|error| body.read_again(error))
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        write::write(&self.schemas[..self.written], value, out).map_err(WriteError::into_inner)
    }
}

/// A body whose schema is known.
struct Body<'b, 'de> {
    bytes: &'de [u8],
    start: usize,
    schema: &'b AvroSchema,
    limits: &'b Limits,
}

impl<'de> Body<'_, 'de> {
    fn input(&self, numbers: &[Id]) -> Input<'de> {
        Input::new(self.bytes, self.start, self.limits).with_numbers(numbers)
    }

    /// Reads the value. Where any type is read, these instants are numbers.
    fn read<T: Deserialize<'de>>(&self, numbers: &[Id]) -> Result<T, DecodeError> {
        let mut input = self.input(numbers);
        match T::deserialize(Reader::new(&mut input, self.schema, self.schema.root())) {
            Ok(value) if input.is_at_end() => Ok(value),
            Ok(_) => Err(DecodeError::new(DecodeErrorKind::Trailing).at(Position::Offset(input.offset()))),
            Err(refused) => {
                let error = refused.into_inner();
                Err(if error.position().is_some() { error } else { error.at(Position::Offset(input.offset())) })
            }
        }
    }

    /// Reads the value with instants as numbers, if the type has fields of numbers that serde buffers. If that fails too, explains
    /// `error`.
    #[cold]
    #[inline(never)]
    fn read_again<T: Deserialize<'de>>(&self, error: DecodeError) -> Result<T, DecodeError> {
        let mut numbers = self.schema.short_units();
        if error.kind() == DecodeErrorKind::Type
            && !numbers.is_empty()
            && let Ok(mut value) = self.read(&numbers)
        {
            // A number has no unit, so an instant that is not needed as one stays an instant.
            for id in self.schema.short_units() {
                let fewer: Vec<_> = numbers.iter().copied().filter(|&number| number != id).collect();
                if let Ok(better) = self.read(&fewer) {
                    (value, numbers) = (better, fewer);
                }
            }
            return Ok(value);
        }
        let read = |trace: &Trace| {
            trace.read::<T, _>(Reader::new(&mut self.input(&[]), self.schema, self.schema.root()));
        };
        Err(explain(error, read, |_| None))
    }
}
