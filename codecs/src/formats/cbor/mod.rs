mod null;

use std::convert::Infallible;

use bytes::BytesMut;
use cbor4ii::{
    core::{
        dec::{self, Read, Reference},
        enc::Write,
    },
    serde::{Deserializer, Serializer},
};
use serde::{Deserialize, Serialize};

use self::null::Null;
use super::{detail, empty};
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, MediaType,
    limits::{self, Limits},
};

/// CBOR (RFC 8949): `application/cbor`, `application/x-cbor` and every `+cbor`.
///
/// A body is walked once, without recursion, before it is read: depth (a tag is a level), lengths and counts, also of
/// fields that the type ignores, and that the body ends with the item. `&str` and `&[u8]` borrow from the body.
///
/// Unit, as every absent value, is null; an empty array is read as unit too.
///
/// The tag that says "this is CBOR" (55799) is dropped at the front. Other tags than those of big integers, floats of
/// 16 bits, and a float of 32 bits where the type has 64, are well-formed and refused with [`DecodeErrorKind::Type`].
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
        let mut reader = Deserializer::new(Reader::new(body, cx.limits()));
        let value = T::deserialize(Null(&mut reader)).map_err(refusal)?;
        // The body ends with the item, but a type may have read less than the item.
        if reader.into_inner().left.is_empty() {
            return Ok(value);
        }
        Err(DecodeError::new(DecodeErrorKind::Type).with_detail("the type left a part of the value"))
    }

    #[inline]
    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        value.serialize(Null(&mut Serializer::new(Writer(out)))).map_err(detail::refused_value)
    }
}

struct Reader<'de> {
    left: &'de [u8],
    steps: usize,
}

impl<'de> Reader<'de> {
    fn new(body: &'de [u8], limits: &Limits) -> Self {
        const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];
        // The walk has bounded the depth; a level takes the decoder up to four steps: an option, any, a container, an
        // enum. What the steps still bound is a type of nothing but options, which reads no bytes as it recurses.
        let steps = 4 * (limits.depth.min(Limits::MAX_DEPTH) + 1);
        Self { left: body.strip_prefix(&SELF_DESCRIBED).unwrap_or(body), steps }
    }
}

impl<'de> Read<'de> for Reader<'de> {
    type Error = Infallible;

    #[inline]
    fn fill<'short>(&'short mut self, want: usize) -> Result<Reference<'de, 'short>, Infallible> {
        Ok(Reference::Long(&self.left[..want.min(self.left.len())]))
    }

    #[inline]
    fn advance(&mut self, n: usize) {
        self.left = &self.left[n.min(self.left.len())..];
    }

    #[inline]
    fn step_in(&mut self) -> bool {
        match self.steps.checked_sub(1) {
            Some(steps) => {
                self.steps = steps;
                true
            }
            None => false,
        }
    }

    #[inline]
    fn step_out(&mut self) {
        self.steps += 1;
    }
}

struct Writer<'a>(&'a mut BytesMut);

impl Write for Writer<'_> {
    type Error = Infallible;

    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

#[cold]
fn refusal(error: cbor4ii::serde::DecodeError<Infallible>) -> DecodeError {
    use cbor4ii::serde::DecodeError as Error;
    match error {
        Error::Custom(message) => detail::refusal(&message),
        Error::Core(dec::Error::DepthOverflow { .. }) => DecodeError::new(DecodeErrorKind::Depth),
        Error::Core(dec::Error::RequireUtf8 { .. }) => DecodeError::new(DecodeErrorKind::Utf8),
        // The item is well-formed, so the rest is the type's. The texts of these hold bytes of the body.
        Error::Core(_) => DecodeError::new(DecodeErrorKind::Type),
    }
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
