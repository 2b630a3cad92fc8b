mod access;
mod float;
mod instant;
mod read;
mod reader;
mod write;

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use self::{reader::Reader, write::Writer};
use super::empty;
use crate::serde_error;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, MediaType, Position,
    explain::{Trace, explain},
    limits::{self, Limits},
};

/// CBOR (RFC 8949): `application/cbor`, `application/x-cbor` and every `+cbor`.
///
/// A body is walked once, without recursion, before it is read: depth (a tag is a level), lengths and counts, also of
/// fields that the type ignores, and that the body ends with the item. `&str` and `&[u8]` borrow from the body.
///
/// # Interoperability
///
/// The codec reads these forms in addition to the ones that it writes:
///
/// - Numbers of any width. An integer is read into a float. A float that is a whole number is read into an integer of up to
///   64 bits. A float of 64 bits is rounded to the nearest `f32`, and refused if it is out of range. Big integers (tags 2 and
///   3) are read up to 128 bits.
/// - Arrays, maps and strings of indefinite length, and lengths that are encoded in more bytes than necessary.
/// - An enum variant with data from any map of one entry, and a unit variant from a map from its name to null.
/// - A byte string into `Vec<u8>`, `[u8; N]`, and types such as `serde_bytes::ByteBuf`.
/// - Undefined and the empty array as unit. Unit and `None` are written as null.
///
/// Tags are ignored, with these exceptions. Tag 1 (seconds since 1970) is read as a number into numeric types, and as RFC 3339
/// text into text and untyped values. Tag 100 (days since 1970) is the beginning of the day as a `Timestamp`. Big integers (tags 2 and 3)
/// are read as above. References inside a body (tags 25, 28, 29, 256) and the records of cbor-x (tags 57342 to 57599) are refused with
/// [`DecodeErrorKind::Type`], except in fields that the type ignores.
///
/// A struct is a map with names. It is not read from an array.
///
/// ```
/// use bytes::BytesMut;
/// use consign_codecs::{Cbor, Codec, DecodeContext, Limits};
///
/// let mut out = BytesMut::new();
/// Cbor.encode(&("order", 7), &mut out)?;
///
/// let limits = Limits::default();
/// let (name, id): (&str, u32) = Cbor.decode(&out, &DecodeContext::new(&limits))?;
/// assert_eq!((name, id), ("order", 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cbor;

impl Codec for Cbor {
    #[inline]
    fn name(&self) -> &'static str {
        "cbor"
    }

    #[inline]
    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] =
            &[MediaType::exact("application/cbor"), MediaType::exact("application/x-cbor"), MediaType::suffix("cbor")];
        TYPES
    }

    #[inline]
    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    #[inline]
    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        if body.is_empty() {
            return empty::decode();
        }
        limits::cbor::check(body, cx.limits())?;
        read(body, cx.limits())
    }

    #[inline]
    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        value.serialize(&mut Writer::new(out)).map_err(serde_error::refused_value)
    }
}

/// Reads a body that the walk over its limits has found well-formed.
#[inline]
fn read<'de, T: Deserialize<'de>>(body: &'de [u8], limits: &Limits) -> Result<T, DecodeError> {
    read_from(&mut Reader::new(body, limits)).or_else(|error| read_again(body, limits, error))
}

/// Reads the body again, with whole floats in untyped values as integers. If that fails too, explains `error`.
#[cold]
#[inline(never)]
fn read_again<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    limits: &Limits,
    error: DecodeError,
) -> Result<T, DecodeError> {
    // The first bytes of floats. Without one, another reading would see the same.
    if error.kind() == DecodeErrorKind::Type
        && body.iter().any(|byte| matches!(byte, 0xf9..=0xfb))
        && let Ok(value) = read_from(&mut Reader::new(body, limits).with_whole_integers())
    {
        return Ok(value);
    }
    Err(explain(error, |trace: &Trace| trace.read::<T, _>(&mut Reader::new(body, limits)), |_| None))
}

#[inline]
fn read_from<'de, T: Deserialize<'de>>(reader: &mut Reader<'de>) -> Result<T, DecodeError> {
    match T::deserialize(&mut *reader) {
        // The body ends with the item, but a type may have read nothing.
        Ok(value) if reader.is_at_end() => Ok(value),
        Ok(_) => Err(serde_error::left_a_part()),
        Err(refused) => Err(at(refused.into_inner(), reader)),
    }
}

#[cold]
fn at(error: DecodeError, reader: &Reader<'_>) -> DecodeError {
    if error.position().is_some() { error } else { error.at(Position::Offset(reader.offset())) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn write(value: impl Serialize) -> BytesMut {
        let mut out = BytesMut::new();
        Cbor.encode(&value, &mut out).unwrap();
        out
    }

    fn read<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeErrorKind> {
        Cbor.decode(body, &DecodeContext::new(&Limits::default())).map_err(|error| error.kind())
    }

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Nothing;

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    enum Shape {
        Unit,
        Newtype(()),
        Tuple((), u8),
        Struct { none: Option<()>, nothing: Nothing },
    }

    #[test]
    fn a_null_of_a_generic_value_stays_null() {
        let value = json!({"a": null, "b": [null, [], {}], "c": {"d": null}});
        assert_eq!(read::<Value>(&write(&value)), Ok(value));
        assert_eq!(write(json!({"a": null}))[..], [0xa1, 0x61, b'a', 0xf6]);
    }

    #[test]
    fn unit_is_null_and_an_empty_array_is_read_too() {
        assert_eq!(write(()), &[0xf6][..]);
        assert_eq!(write(Nothing), &[0xf6][..]);
        for body in [[0xf6], [0x80]] {
            assert_eq!(read::<()>(&body), Ok(()));
            assert_eq!(read::<Nothing>(&body), Ok(Nothing));
        }
        for body in [&[0x00][..], &[0x81, 0xf6], &[0xa0], &[0x61, b'x']] {
            assert_eq!(read::<()>(body), Err(DecodeErrorKind::Type), "{body:?}");
        }
    }

    #[test]
    fn units_inside_of_everything_are_read_back() {
        let shapes =
            vec![Shape::Unit, Shape::Newtype(()), Shape::Tuple((), 7), Shape::Struct { none: None, nothing: Nothing }];
        assert_eq!(read::<Vec<Shape>>(&write(&shapes)), Ok(shapes));
        assert_eq!(read(&write((Some(1), None::<u8>, ((),)))), Ok((Some(1), None::<u8>, ((),))));
    }
}
