use std::{cell::Cell, io, str};

use ::bincode::{BincodeRead, DefaultOptions, Deserializer, Error, ErrorKind, Options};
use bytes::BytesMut;
use serde::{Deserialize, Serialize, de::Visitor};

use super::{empty, sink::Sink};
use crate::serde_error;
use crate::{
    Codec, ContentType, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, Limits, MediaType, Position,
    content_type::excerpt,
    explain::{Trace, explain},
    limits::guard::{Guard, Watch},
};

const ESSENCE: &str = "application/x-bincode";

/// bincode, as version 1 of the crate writes it: `application/x-bincode`.
///
/// There are two encodings of integers, and the parameter `encoding` selects one. Absent or `fixint` is what bincode 1 calls
/// `serialize` and bincode 2 `legacy()`. `varint` is bincode 1's `DefaultOptions` and bincode 2's `standard()`. Both are
/// little-endian. A body whose ContentType is absent or of another type is read as this codec writes. An `encoding` that is
/// neither is [`DecodeErrorKind::UnsupportedParameter`].
///
/// The bytes mean nothing without the Rust type: [`Format::Positional`]. A change of the type changes the format, and
/// types that need names in the bytes (`serde_json::Value`, `#[serde(flatten)]`, `#[serde(tag)]`) cannot be read.
/// The crate is no longer maintained; this codec is for peers that write it. `MessagePack` and `Postcard` are maintained.
///
/// An empty body is only none and unit.
///
/// ```
/// use bytes::BytesMut;
/// use consign_codecs::{Bincode, Codec, DecodeContext, Limits};
///
/// let mut out = BytesMut::new();
/// Bincode::varint().encode(&("order", 7), &mut out)?;
///
/// let limits = Limits::default();
/// let (name, id): (&str, i32) = Bincode::varint().decode(&out, &DecodeContext::new(&limits))?;
/// assert_eq!((name, id), ("order", 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bincode {
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Encoding {
    #[default]
    Fixint,
    Varint,
}

impl Bincode {
    /// Writes integers in their full width. The default.
    #[must_use]
    pub const fn fixint() -> Self {
        Self { encoding: Encoding::Fixint }
    }

    /// Writes integers in as few bytes as they take, as `application/x-bincode;encoding=varint`.
    #[must_use]
    pub const fn varint() -> Self {
        Self { encoding: Encoding::Varint }
    }

    fn declared(self, content_type: Option<&ContentType>) -> Result<Encoding, DecodeError> {
        match content_type {
            Some(declared) if declared.essence() == Some(ESSENCE) => parameter(declared.parameter("encoding")),
            _ => Ok(self.encoding),
        }
    }
}

impl Codec for Bincode {
    fn name(&self) -> &'static str {
        "bincode"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const FIXINT: &[MediaType] = &[MediaType::exact(ESSENCE)];
        const VARINT: &[MediaType] =
            &[MediaType::exact("application/x-bincode;encoding=varint"), MediaType::exact(ESSENCE)];
        match self.encoding {
            Encoding::Fixint => FIXINT,
            Encoding::Varint => VARINT,
        }
    }

    fn format(&self) -> Format {
        Format::Positional
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        let encoding = self.declared(cx.content_type())?;
        if body.is_empty() {
            return empty::decode();
        }
        match encoding {
            Encoding::Fixint => decode(body, cx.limits(), options().with_fixint_encoding()),
            Encoding::Varint => decode(body, cx.limits(), options().with_varint_encoding()),
        }
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self.encoding {
            Encoding::Fixint => options().with_fixint_encoding().serialize_into(Sink(out), value),
            Encoding::Varint => options().with_varint_encoding().serialize_into(Sink(out), value),
        }
        .map_err(refused_value)
    }
}

fn options() -> impl Options + Copy {
    DefaultOptions::new().with_little_endian()
}

fn parameter(encoding: Option<&str>) -> Result<Encoding, DecodeError> {
    match encoding {
        None => Ok(Encoding::Fixint),
        Some(name) if name.eq_ignore_ascii_case("fixint") => Ok(Encoding::Fixint),
        Some(name) if name.eq_ignore_ascii_case("varint") => Ok(Encoding::Varint),
        Some(other) => {
            let detail = format!("encoding `{}`, expected fixint or varint", excerpt(other));
            Err(DecodeError::new(DecodeErrorKind::UnsupportedParameter).with_detail(detail))
        }
    }
}

fn decode<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    limits: &Limits,
    options: impl Options + Copy,
) -> Result<T, DecodeError> {
    let watch = Watch::new(limits, body);
    let left = Cell::new(body);
    let mut decoder = decoder(body, &left, limits, options);
    let value = T::deserialize(Guard::new(&mut decoder, &watch));
    drop(decoder);
    let at = Position::Offset(body.len() - left.get().len());
    match value {
        Ok(_) if !left.get().is_empty() => Err(DecodeError::new(DecodeErrorKind::Trailing).at(at)),
        Ok(value) => Ok(value),
        Err(error) => {
            let error = watch.breach().unwrap_or_else(|| refusal(&error)).at(at);
            Err(explained::<T>(error, body, limits, options))
        }
    }
}

/// Returns a decoder that leaves what it has not read in `end` when it is dropped.
fn decoder<'c, 'de>(
    body: &'de [u8],
    end: &'c Cell<&'de [u8]>,
    limits: &Limits,
    options: impl Options,
) -> Deserializer<Reader<'c, 'de>, impl Options> {
    let reader = Reader { left: body, allowed: limits.bytes.saturating_sub(body.len()), end };
    // Bincode's own limit counts every integer, so none is set: the reader checks a length before anything is allocated.
    Deserializer::with_bincode_read(reader, options.with_no_limit())
}

#[cold]
#[inline(never)]
fn explained<'de, T: Deserialize<'de>>(
    error: DecodeError,
    body: &'de [u8],
    limits: &Limits,
    options: impl Options + Copy,
) -> DecodeError {
    let read = |trace: &Trace| {
        let (watch, left) = (Watch::new(limits, body), Cell::new(body));
        trace.read::<T, _>(Guard::new(&mut decoder(body, &left, limits, options), &watch));
    };
    explain(error, read, |_| None)
}

/// Reads from a slice, and leaves its position to the caller when it is dropped: the decoder owns it and returns nothing of
/// it.
struct Reader<'c, 'de> {
    left: &'de [u8],
    /// How many bytes a body may have beyond this one.
    allowed: usize,
    end: &'c Cell<&'de [u8]>,
}

impl Drop for Reader<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.end.set(self.left);
    }
}

impl<'de> Reader<'_, 'de> {
    #[expect(clippy::inline_always, reason = "measured: the reader of bincode itself is inlined too")]
    #[inline(always)]
    fn take(&mut self, len: usize) -> Result<&'de [u8], Error> {
        match self.left.split_at_checked(len) {
            Some((taken, left)) => {
                self.left = left;
                Ok(taken)
            }
            None => Err(self.refuse(len).into()),
        }
    }

    /// Distinguishes a length that no allowed body can hold from one that exceeds this body.
    #[cold]
    fn refuse(&self, len: usize) -> ErrorKind {
        if len > self.left.len() + self.allowed {
            return ErrorKind::SizeLimit;
        }
        ErrorKind::Io(io::ErrorKind::UnexpectedEof.into())
    }
}

impl io::Read for Reader<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read_exact(out).map(|()| out.len())
    }

    #[expect(clippy::inline_always, reason = "measured: the reader of bincode itself is inlined too")]
    #[inline(always)]
    fn read_exact(&mut self, out: &mut [u8]) -> io::Result<()> {
        let (taken, left) = self.left.split_at_checked(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.left = left;
        out.copy_from_slice(taken);
        Ok(())
    }
}

impl<'de> BincodeRead<'de> for Reader<'_, 'de> {
    fn forward_read_str<V: Visitor<'de>>(&mut self, len: usize, visitor: V) -> Result<V::Value, Error> {
        match str::from_utf8(self.take(len)?) {
            Ok(text) => visitor.visit_borrowed_str(text),
            Err(error) => Err(ErrorKind::InvalidUtf8Encoding(error).into()),
        }
    }

    #[expect(clippy::inline_always, reason = "measured: the reader of bincode itself is inlined too")]
    #[inline(always)]
    fn get_byte_buffer(&mut self, len: usize) -> Result<Vec<u8>, Error> {
        Ok(self.take(len)?.to_vec())
    }

    fn forward_read_bytes<V: Visitor<'de>>(&mut self, len: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_bytes(self.take(len)?)
    }
}

#[cold]
fn refusal(error: &ErrorKind) -> DecodeError {
    match error {
        ErrorKind::Io(_) => DecodeError::new(DecodeErrorKind::Truncated),
        ErrorKind::SizeLimit => DecodeError::new(DecodeErrorKind::Length),
        ErrorKind::InvalidUtf8Encoding(_) => DecodeError::new(DecodeErrorKind::Utf8),
        ErrorKind::DeserializeAnyNotSupported => needs_names(),
        ErrorKind::Custom(message) if message.starts_with("Bincode does not support ") => needs_names(),
        ErrorKind::Custom(message) => serde_error::refusal(message),
        // The texts of these hold bytes of the body.
        ErrorKind::InvalidBoolEncoding(_)
        | ErrorKind::InvalidCharEncoding
        | ErrorKind::InvalidTagEncoding(_)
        | ErrorKind::SequenceMustHaveLength => DecodeError::new(DecodeErrorKind::Syntax),
    }
}

fn needs_names() -> DecodeError {
    DecodeError::new(DecodeErrorKind::Type).with_detail("the type needs a self-describing format")
}

#[cold]
fn refused_value(error: Error) -> EncodeError {
    match *error {
        ErrorKind::Custom(_) => serde_error::refused_value(error),
        _ => serde_error::unsupported(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: P-32.
    #[test]
    fn the_parameter_says_which_encoding() {
        assert_eq!(parameter(None), Ok(Encoding::Fixint));
        assert_eq!(parameter(Some("fixint")), Ok(Encoding::Fixint));
        assert_eq!(parameter(Some("VarInt")), Ok(Encoding::Varint));
        for other in ["", "zigzag", "big-endian"] {
            let kind = parameter(Some(other)).map_err(|error| error.kind());
            assert_eq!(kind, Err(DecodeErrorKind::UnsupportedParameter), "{other}");
        }
    }

    /// Rules: P-32.
    #[test]
    fn only_a_bincode_type_has_the_parameter() {
        let declared = |text| Bincode::varint().declared(Some(&ContentType::parse(text)));
        assert_eq!(declared("Application/X-Bincode"), Ok(Encoding::Fixint));
        assert_eq!(declared("application/octet-stream"), Ok(Encoding::Varint));
        // A comment is not a part of the type.
        let comment = ContentType::parse("application/x-bincode (v1); encoding=varint");
        assert_eq!(Bincode::fixint().declared(Some(&comment)), Ok(Encoding::Varint));
        assert_eq!(Bincode::varint().declared(None), Ok(Encoding::Varint));
        assert_eq!(Bincode::fixint().declared(None), Ok(Encoding::Fixint));
    }
}
