use std::slice;

use bytes::BytesMut;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, Error, SeqAccess, Unexpected, Visitor},
    forward_to_deserialize_any,
};

use self::writer::Writer;
use crate::serde_error::Refused;
use crate::{Codec, DecodeContext, DecodeError, EncodeError, Format, MediaType};

mod writer;

/// The bytes unchanged: `application/octet-stream`.
///
/// It reads `&[u8]`, `Vec<u8>`, `[u8; N]` and types that read themselves from a byte string, and writes byte strings
/// and sequences of `u8`. Any other value is refused: [`DecodeErrorKind::Type`](crate::DecodeErrorKind::Type), and
/// [`EncodeErrorKind::Unsupported`](crate::EncodeErrorKind::Unsupported).
///
/// # Cost
///
/// `&[u8]` is the body itself, without a copy. `serde_bytes::ByteBuf`, and `bytes::Bytes` with the feature `serde` of that
/// crate, are one copy of it; so is a `Vec<u8>` in a field with `#[serde(with = "serde_bytes")]`. Elsewhere serde reads and
/// writes a `Vec<u8>`, a `Box<[u8]>` and a `Cow<[u8]>` byte by byte, as any sequence: 8 to 10 instructions for each.
///
/// # Empty bodies and limits
///
/// An empty body is the empty byte string, and none for an `Option`. [`Limits::elements`](crate::Limits::elements) does not
/// apply to the bytes.
///
/// ```
/// use consign_codecs::{Codec, DecodeContext, Limits, Raw};
///
/// let limits = Limits::default();
/// let bytes: &[u8] = Raw.decode(b"\x00\xff", &DecodeContext::new(&limits))?;
/// assert_eq!(bytes, b"\x00\xff");
/// # Ok::<(), consign_codecs::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Raw;

impl Codec for Raw {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[MediaType::exact("application/octet-stream")];
        TYPES
    }

    fn format(&self) -> Format {
        Format::Opaque
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        T::deserialize(Reader { body }).map_err(Refused::into_inner)
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        value.serialize(Writer { out }).map_err(Into::into)
    }
}

struct Reader<'de> {
    body: &'de [u8],
}

/// The error of a type that requests something else than bytes.
fn not_bytes<'de>(visitor: &impl Visitor<'de>) -> Refused {
    Refused::invalid_type(Unexpected::Bytes(&[]), visitor)
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_borrowed_bytes(self.body)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        // Visitors of strings take bytes that happen to be UTF-8.
        Err(not_bytes(&visitor))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        Err(not_bytes(&visitor))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        Err(not_bytes(&visitor))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let mut bytes = Bytes { left: self.body.iter() };
        let value = visitor.visit_seq(&mut bytes)?;
        if bytes.left.as_slice().is_empty() {
            Ok(value)
        } else {
            Err(Refused::invalid_length(0, &"a byte for each element"))
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.body.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.body.is_empty() { visitor.visit_unit() } else { Err(not_bytes(&visitor)) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 bytes byte_buf
        tuple_struct map struct enum identifier ignored_any
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

struct Bytes<'de> {
    left: slice::Iter<'de, u8>,
}

impl<'de> SeqAccess<'de> for Bytes<'de> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        self.left.next().map(|&byte| seed.deserialize(Byte(byte))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

/// One byte, and not a number of any other width: a `Vec<u32>` is not a byte string.
struct Byte(u8);

impl<'de> Deserializer<'de> for Byte {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        Err(not_bytes(&visitor))
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_u8(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde_bytes::{ByteArray, ByteBuf};

    use super::*;
    use crate::{DecodeErrorKind, EncodeErrorKind, Limits};

    fn decode<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeErrorKind> {
        let limits = Limits::default();
        Raw.decode(body, &DecodeContext::new(&limits)).map_err(|error| error.kind())
    }

    fn encode<T: Serialize>(value: &T) -> Result<BytesMut, EncodeErrorKind> {
        let mut out = BytesMut::new();
        Raw.encode(value, &mut out).map(|()| out).map_err(|error| error.kind())
    }

    /// Rules: P-34.
    #[test]
    fn bytes_are_what_they_are() {
        let body: &[u8] = &[0, 1, 0xff];
        assert_eq!(decode::<&[u8]>(body), Ok(body));
        assert_eq!(decode::<Vec<u8>>(body), Ok(body.to_vec()));
        assert_eq!(decode::<Box<[u8]>>(body), Ok(body.into()));
        assert_eq!(decode::<[u8; 3]>(body), Ok([0, 1, 0xff]));
        assert_eq!(decode::<ByteBuf>(body), Ok(ByteBuf::from(body)));
        assert_eq!(decode::<ByteArray<3>>(body), Ok(ByteArray::new([0, 1, 0xff])));
        assert_eq!(decode::<Option<Vec<u8>>>(body), Ok(Some(body.to_vec())));
        assert_eq!(encode(&body.to_vec()).unwrap(), body);
        assert_eq!(encode(&[0_u8, 1, 0xff]).unwrap(), body);
        assert_eq!(encode(&ByteBuf::from(body)).unwrap(), body);
    }

    #[test]
    fn no_other_value_is_bytes() {
        assert_eq!(decode::<String>(b"abc"), Err(DecodeErrorKind::Type));
        assert_eq!(decode::<&str>(b"abc"), Err(DecodeErrorKind::Type));
        assert_eq!(decode::<u32>(b"abcd"), Err(DecodeErrorKind::Type));
        assert_eq!(decode::<Vec<u32>>(b"abc"), Err(DecodeErrorKind::Type));
        assert_eq!(decode::<[u8; 2]>(b"abc"), Err(DecodeErrorKind::Type));
        assert_eq!(decode::<[u8; 4]>(b"abc"), Err(DecodeErrorKind::Type));
        assert_eq!(encode(&"abc"), Err(EncodeErrorKind::Unsupported));
        assert_eq!(encode(&vec![1_u32]), Err(EncodeErrorKind::Unsupported));
        assert_eq!(encode(&7_u8), Err(EncodeErrorKind::Unsupported));
        assert_eq!(encode(&vec![vec![1_u8]]), Err(EncodeErrorKind::Unsupported));
    }

    /// Rules: P-20.
    #[test]
    fn an_empty_body_is_no_bytes() {
        assert_eq!(decode::<&[u8]>(b""), Ok(&[][..]));
        assert_eq!(decode::<Vec<u8>>(b""), Ok(vec![]));
        assert_eq!(decode::<Option<Vec<u8>>>(b""), Ok(None));
        assert_eq!(decode::<()>(b""), Ok(()));
    }
}
