use std::borrow::Cow;

use bytes::BytesMut;
use serde::{Deserialize, Deserializer, Serialize, de::Visitor, forward_to_deserialize_any};

use self::writer::Writer;
use super::charset::Charset;
use crate::serde_error::Refused;
use crate::{Codec, DecodeContext, DecodeError, EncodeError, Format, MediaType};

mod writer;

/// Plain text: `text/plain`, and every other `text/*` that no codec reads by name.
///
/// It reads strings, and types that read themselves from one (`IpAddr`, a `Uuid`). The parameter `charset` may be
/// `utf-8` (the default), `us-ascii`, `iso-8859-1`, `utf-16`, `utf-16le` or `utf-16be`; a byte order mark is dropped.
/// A `&str` borrows from the body if the charset is `utf-8` or `us-ascii`, or `iso-8859-1` and the bytes are US-ASCII; it is not read
/// from other bodies. It writes strings, in UTF-8, and refuses every other
/// value with [`EncodeErrorKind::Unsupported`](crate::EncodeErrorKind::Unsupported).
///
/// An empty body is the empty string, and none for an `Option`.
///
/// ```
/// use consign_codecs::{Codec, DecodeContext, Limits, Text};
///
/// let limits = Limits::default();
/// let text: &str = Text.decode(b"hello", &DecodeContext::new(&limits))?;
/// assert_eq!(text, "hello");
/// # Ok::<(), consign_codecs::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text;

impl Codec for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[MediaType::exact("text/plain"), MediaType::range("text")];
        TYPES
    }

    fn format(&self) -> Format {
        Format::Opaque
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        decode(body, cx.parameter("charset"))
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        value.serialize(Writer { out }).map_err(Into::into)
    }
}

fn decode<'de, T: Deserialize<'de>>(body: &'de [u8], charset: Option<&str>) -> Result<T, DecodeError> {
    let text = Charset::named(charset)?.read(body)?;
    T::deserialize(Reader { text }).map_err(Refused::into_inner)
}

struct Reader<'de> {
    text: Cow<'de, str>,
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.text {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.text.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.text.is_empty() { visitor.visit_unit() } else { self.deserialize_any(visitor) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::{DecodeErrorKind, EncodeErrorKind};

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Subject(String);

    fn kind<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Option<DecodeErrorKind> {
        decode::<T>(body, None).err().map(|error| error.kind())
    }

    fn encode<T: Serialize>(value: &T) -> Result<BytesMut, EncodeErrorKind> {
        let mut out = BytesMut::new();
        Text.encode(value, &mut out).map(|()| out).map_err(|error| error.kind())
    }

    #[test]
    fn a_str_borrows_from_utf_8_and_from_no_other_charset() {
        assert_eq!(decode(b"caf\xc3\xa9", None), Ok("caf\u{e9}"));
        assert_eq!(decode(b"cafe", Some("iso-8859-1")), Ok("cafe"));
        assert_eq!(decode(b"caf\xe9", Some("iso-8859-1")), Ok("caf\u{e9}".to_owned()));
        let borrowed = decode::<&str>(b"caf\xe9", Some("iso-8859-1"));
        assert_eq!(borrowed.map_err(|error| error.kind()), Err(DecodeErrorKind::Type));
    }

    #[test]
    fn strings_and_what_is_written_as_one() {
        assert_eq!(decode(b"a", None), Ok('a'));
        assert_eq!(decode(b"x", None), Ok(Subject("x".into())));
        assert_eq!(decode(b"10.0.0.1", None), Ok(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(encode(&"x").unwrap(), "x");
        assert_eq!(encode(&'\u{e9}').unwrap(), "\u{e9}");
        assert_eq!(encode(&Subject("x".into())).unwrap(), "x");
        assert_eq!(encode(&Ipv4Addr::LOCALHOST).unwrap(), "127.0.0.1");
    }

    #[test]
    fn no_other_value_is_text() {
        assert_eq!(kind::<u32>(b"1"), Some(DecodeErrorKind::Type));
        assert_eq!(kind::<Vec<u8>>(b"1"), Some(DecodeErrorKind::Type));
        assert_eq!(encode(&1), Err(EncodeErrorKind::Unsupported));
        assert_eq!(encode(&Some("x")), Err(EncodeErrorKind::Unsupported));
        assert_eq!(encode(&["x"]), Err(EncodeErrorKind::Unsupported));
        assert_eq!(encode(&()), Err(EncodeErrorKind::Unsupported));
    }

    /// Rules: P-20.
    #[test]
    fn an_empty_body_is_the_empty_string() {
        assert_eq!(decode(b"", None), Ok(""));
        assert_eq!(decode(b"", None), Ok(None::<String>));
        assert_eq!(decode(b"", None), Ok(()));
        assert_eq!(kind::<()>(b"x"), Some(DecodeErrorKind::Type));
    }
}
