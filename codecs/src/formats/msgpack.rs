use bytes::BytesMut;
use rmp_serde::{decode, encode};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{
    empty,
    lenient::{Lenient, Mode},
    sink::Sink,
};
use crate::serde_error;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, MediaType, Position, ValueKind,
    explain::{Trace, explain},
    limits::{self, Limits},
};

/// `MessagePack`: `application/msgpack`, `application/x-msgpack`, `application/messagepack`, `application/x-messagepack`,
/// `application/vnd.msgpack` and every `+msgpack`.
///
/// It writes structs as maps with names, so that fields may come and go, and reads structs from maps and from arrays.
/// A body is walked once, without recursion, before it is read: depth, lengths and counts, also of fields that the
/// type ignores, and that the body ends with the value. `&str` and `&[u8]` borrow from the body.
///
/// # Interoperability
///
/// Numbers of any width are read. An integer is read into a float. A float that is a whole number is read into an integer of
/// up to 64 bits. A float of 64 bits is rounded to the nearest `f32`, and refused if it is out of range.
///
/// A `Vec<u8>` is written as an array of numbers, and read from an array or a byte string. A type such as
/// `serde_bytes::ByteBuf` is written as a byte string. A byte string is not read as a sequence of other numbers.
///
/// The timestamp extension is read into text, in the form of RFC 3339, also where the type is not known. Other extensions are
/// refused, except in fields that the type ignores.
///
/// Fields and variants have names: a key that is a number is no field, and a variant that is a number is refused.
///
/// ```
/// use bytes::BytesMut;
/// use consign_codecs::{Codec, DecodeContext, Limits, MessagePack};
///
/// let mut out = BytesMut::new();
/// MessagePack.encode(&("order", 7), &mut out)?;
///
/// let limits = Limits::default();
/// let (name, id): (&str, u32) = MessagePack.decode(&out, &DecodeContext::new(&limits))?;
/// assert_eq!((name, id), ("order", 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessagePack;

impl Codec for MessagePack {
    #[inline]
    fn name(&self) -> &'static str {
        "msgpack"
    }

    #[inline]
    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[
            MediaType::exact("application/msgpack"),
            MediaType::exact("application/x-msgpack"),
            MediaType::exact("application/messagepack"),
            MediaType::exact("application/x-messagepack"),
            MediaType::exact("application/vnd.msgpack"),
            MediaType::suffix("msgpack"),
        ];
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
        limits::msgpack::check(body, cx.limits())?;
        read(body, cx.limits())
    }

    #[inline]
    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut writer = Sink(out);
        value.serialize(&mut rmp_serde::Serializer::new(&mut writer).with_struct_map()).map_err(refused_value)
    }
}

#[inline]
fn reader<'de>(body: &'de [u8], limits: &Limits) -> rmp_serde::Deserializer<decode::ReadRefReader<'de, [u8]>> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(body);
    // The walk has bounded the depth; the reader counts an extension as a level too.
    reader.set_max_depth(limits.depth.min(Limits::MAX_DEPTH) + 2);
    reader
}

/// Reads a body that the walk over its limits has found well-formed.
#[inline]
fn read<'de, T: Deserialize<'de>>(body: &'de [u8], limits: &Limits) -> Result<T, DecodeError> {
    read_as(body, limits, Mode::default()).or_else(|error| read_again(body, limits, error))
}

/// Reads the body again, with whole floats in untyped values as integers, with instants in them as text, and with both. If that fails
/// too, explains `error`.
#[cold]
#[inline(never)]
fn read_again<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    limits: &Limits,
    error: DecodeError,
) -> Result<T, DecodeError> {
    if error.kind() == DecodeErrorKind::Type {
        // The markers of floats and of extensions. Without one, another reading would see the same.
        let has_floats = body.iter().any(|byte| matches!(byte, 0xca | 0xcb));
        let has_times = body.iter().any(|byte| matches!(byte, 0xc7 | 0xd6 | 0xd7));
        for (whole_integers, times_as_text) in [(true, false), (false, true), (true, true)] {
            if (has_floats || !whole_integers)
                && (has_times || !times_as_text)
                && let Ok(value) = read_as(body, limits, Mode::new(whole_integers, times_as_text))
            {
                return Ok(value);
            }
        }
    }
    Err(explained::<T>(error, body, limits))
}

#[inline]
fn read_as<'de, T: Deserialize<'de>>(body: &'de [u8], limits: &Limits, mode: Mode) -> Result<T, DecodeError> {
    let mut reader = reader(body, limits);
    let value = T::deserialize(Lenient::new(&mut reader, mode)).map_err(refusal)?;
    // The body ends with the value, but a type may have read less than the value.
    match IgnoredAny::deserialize(&mut reader) {
        Err(decode::Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err(serde_error::left_a_part()),
    }
}

#[cold]
#[inline(never)]
fn explained<'de, T: Deserialize<'de>>(error: DecodeError, body: &'de [u8], limits: &Limits) -> DecodeError {
    let mut value = None;
    let read = |trace: &Trace| trace.read::<T, _>(Lenient::new(&mut reader(body, limits), Mode::default()));
    let error = explain(error, read, |steps| {
        value = limits::msgpack::find(body, steps);
        value.map(Position::Offset)
    });
    // The reader refuses some values without their kind.
    match value.and_then(|at| limits::msgpack::kind(body, at)) {
        // A variant with data is in a map of one entry.
        Some(ValueKind::Map) if error.detail() == Some(ANOTHER_LENGTH) => error.with_detail("a map of another length"),
        Some(found) if error.kind() == DecodeErrorKind::Type && error.detail().is_none() && error.found().is_none() => {
            error.with_found(found)
        }
        _ => error,
    }
}

/// The reader does not tell an array from a map here.
const ANOTHER_LENGTH: &str = "an array of another length";

#[cold]
fn refusal(error: decode::Error) -> DecodeError {
    use decode::Error;
    match error {
        Error::Syntax(message) => serde_error::refusal(&message),
        Error::Utf8Error(_) => DecodeError::new(DecodeErrorKind::Utf8),
        Error::DepthLimitExceeded => DecodeError::new(DecodeErrorKind::Depth),
        Error::OutOfRange => DecodeError::new(DecodeErrorKind::Type).with_detail("a number out of range"),
        Error::LengthMismatch(_) => DecodeError::new(DecodeErrorKind::Type).with_detail(ANOTHER_LENGTH),
        // The value is well-formed, so a read beyond it, or of another marker, is the type's. The texts of these contain bytes
        // of the body.
        Error::TypeMismatch(_) | Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) | Error::Uncategorized(_) => {
            DecodeError::new(DecodeErrorKind::Type)
        }
    }
}

#[cold]
fn refused_value(error: encode::Error) -> EncodeError {
    match error {
        encode::Error::Syntax(_) => serde_error::refused_value(error),
        _ => serde_error::unsupported(error),
    }
}
