use std::slice;

use ::postcard::{Deserializer, Error, de_flavors::Flavor, ser_flavors};
use bytes::{BufMut, BytesMut};
use serde::{Deserialize, Serialize};

use super::empty;
use crate::serde_error;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, Limits, MediaType, Position,
    explain::{Trace, explain},
    limits::guard::{Guard, Watch},
};

/// postcard: `application/x-postcard`.
///
/// The bytes mean nothing without the Rust type: [`Format::Positional`]. A change of the type changes the format, and
/// types that need names in the bytes (`serde_json::Value`, `#[serde(flatten)]`, `#[serde(tag)]`) cannot be read.
///
/// An empty body is only none and unit, though postcard writes any value without data as no bytes.
///
/// ```
/// use bytes::BytesMut;
/// use consign_codecs::{Codec, DecodeContext, Limits, Postcard};
///
/// let mut out = BytesMut::new();
/// Postcard.encode(&("order", 7), &mut out)?;
///
/// let limits = Limits::default();
/// let (name, id): (&str, i32) = Postcard.decode(&out, &DecodeContext::new(&limits))?;
/// assert_eq!((name, id), ("order", 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Postcard;

impl Codec for Postcard {
    fn name(&self) -> &'static str {
        "postcard"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[MediaType::exact("application/x-postcard")];
        TYPES
    }

    fn format(&self) -> Format {
        Format::Positional
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        if body.is_empty() {
            return empty::decode();
        }
        let watch = Watch::new(cx.limits(), body);
        let mut reader = reader(body, cx.limits());
        let value = T::deserialize(Guard::new(&mut reader, &watch));
        // The rest is not checked yet, so this is not a failure.
        let left = reader.finalize().unwrap_or_default();
        match value {
            Ok(value) if left.is_empty() => Ok(value),
            Ok(_) => Err(DecodeError::new(DecodeErrorKind::Trailing).at(position(body, left))),
            Err(error) => {
                let error = watch.breach().unwrap_or_else(|| refusal(&error)).at(position(body, left));
                Err(explained::<T>(error, body, cx.limits()))
            }
        }
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        ::postcard::serialize_with_flavor(value, Writer(out)).map_err(refused_value)
    }
}

fn reader<'de>(body: &'de [u8], limits: &Limits) -> Deserializer<'de, Reader<'de>> {
    Deserializer::from_flavor(Reader { left: body.iter(), max_len: limits.bytes })
}

/// Returns where the decoder stopped.
#[cold]
fn position(body: &[u8], left: &[u8]) -> Position {
    Position::Offset(body.len() - left.len())
}

#[cold]
#[inline(never)]
fn explained<'de, T: Deserialize<'de>>(error: DecodeError, body: &'de [u8], limits: &Limits) -> DecodeError {
    let read = |trace: &Trace| {
        let watch = Watch::new(limits, body);
        trace.read::<T, _>(Guard::new(&mut reader(body, limits), &watch));
    };
    explain(error, read, |_| None)
}

/// Reads from a slice. It distinguishes a length that no allowed body can hold from one that exceeds this body.
struct Reader<'de> {
    /// An iterator has the two pointers that a byte takes, without an index that is checked against a length.
    left: slice::Iter<'de, u8>,
    max_len: usize,
}

impl Reader<'_> {
    #[cold]
    fn refuse(&self, len: usize) -> Error {
        if len > self.max_len { Error::DeserializeBadEncoding } else { Error::DeserializeUnexpectedEnd }
    }
}

impl<'de> Flavor<'de> for Reader<'de> {
    type Remainder = &'de [u8];
    type Source = ();

    #[inline]
    fn pop(&mut self) -> Result<u8, Error> {
        self.left.next().copied().ok_or(Error::DeserializeUnexpectedEnd)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }

    #[inline]
    fn try_take_n(&mut self, len: usize) -> Result<&'de [u8], Error> {
        match self.left.as_slice().split_at_checked(len) {
            Some((taken, left)) => {
                self.left = left.iter();
                Ok(taken)
            }
            None => Err(self.refuse(len)),
        }
    }

    fn finalize(self) -> Result<&'de [u8], Error> {
        Ok(self.left.as_slice())
    }
}

struct Writer<'a>(&'a mut BytesMut);

impl ser_flavors::Flavor for Writer<'_> {
    type Output = ();

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn try_push(&mut self, byte: u8) -> Result<(), Error> {
        self.0.put_u8(byte);
        Ok(())
    }

    fn finalize(self) -> Result<(), Error> {
        Ok(())
    }
}

#[cold]
fn refusal(error: &Error) -> DecodeError {
    DecodeError::new(match error {
        Error::DeserializeUnexpectedEnd => DecodeErrorKind::Truncated,
        // The reader's own, for a length; the crate never makes one.
        Error::DeserializeBadEncoding => DecodeErrorKind::Length,
        Error::DeserializeBadUtf8 => DecodeErrorKind::Utf8,
        Error::SerdeDeCustom => DecodeErrorKind::Type,
        Error::WontImplement | Error::NotYetImplemented => {
            return DecodeError::new(DecodeErrorKind::Type).with_detail("the type needs a self-describing format");
        }
        _ => DecodeErrorKind::Syntax,
    })
}

#[cold]
fn refused_value(error: Error) -> EncodeError {
    match error {
        Error::SerdeSerCustom | Error::CollectStrError => serde_error::refused_value(error),
        _ => serde_error::unsupported(error),
    }
}
