use std::str;

use bytes::BytesMut;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::{charset, empty, sink::Sink};
use crate::serde_error;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Format, MediaType, Position,
    explain::{Trace, explain},
    limits::{json, json_strict, text_position},
};

/// JSON (RFC 8259): `application/json`, `text/json`, `application/x-json`, `text/x-json` and every `+json`.
///
/// The text is UTF-8, whatever `charset` is declared. A UTF-8 byte order mark is dropped. A body that is not UTF-8 and
/// declares another charset is refused with [`DecodeErrorKind::UnsupportedCharset`].
/// [`Limits::depth`](crate::Limits::depth) and [`Limits::elements`](crate::Limits::elements) hold exactly, also inside
/// fields that the type ignores. (`serde_json` has a limit of its own: it accepts at most 127 levels.)
///
/// As in `serde_json`, the last of two equal keys wins in a map; a struct refuses them. A float that is NaN or infinite is
/// written as `null`, which cannot be read as a float. Every other float is read with the bits that were written. A number beyond the
/// range of `f32` is infinite as an `f32`.
/// [`Json::strict`] refuses equal keys everywhere.
///
/// ```
/// use bytes::BytesMut;
/// use consign_codecs::{Codec, DecodeContext, Json, Limits};
///
/// let mut out = BytesMut::new();
/// Json::default().encode(&("order", 7), &mut out)?;
/// assert_eq!(out, r#"["order",7]"#);
///
/// let limits = Limits::default();
/// let (name, id): (&str, u32) = Json::default().decode(&out, &DecodeContext::new(&limits))?;
/// assert_eq!((name, id), ("order", 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Json {
    strict: bool,
}

impl Json {
    /// Returns a JSON codec that also refuses a key twice in any object ([`DecodeErrorKind::DuplicateKey`]), compared after
    /// unescaping, and numbers of more than 64 characters ([`DecodeErrorKind::Syntax`]).
    ///
    /// It walks over every body before it is read, which takes about as long as the reading itself.
    #[must_use]
    pub const fn strict() -> Self {
        Self { strict: true }
    }
}

impl Json {
    #[inline]
    fn read<'de, T: Deserialize<'de>>(self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        if body.is_empty() {
            return empty::decode();
        }
        json::check(body, cx.limits())?;
        // Checking UTF-8 once is faster than `from_slice`, which checks each string.
        let text = str::from_utf8(body).map_err(|error| not_utf8(body, error))?;
        if self.strict {
            json_strict::check(text)?;
        }
        serde_json::from_str(text).map_err(|error| explained::<T>(error, text))
    }
}

impl Codec for Json {
    #[inline]
    fn name(&self) -> &'static str {
        "json"
    }

    #[inline]
    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[
            MediaType::exact("application/json"),
            MediaType::exact("text/json"),
            MediaType::exact("application/x-json"),
            MediaType::exact("text/x-json"),
            MediaType::suffix("json"),
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
        check_charset(cx.parameter("charset"), body)?;
        let text = charset::strip_bom(body);
        self.read(text, cx).map_err(|error| error.behind_mark(body.len() - text.len()))
    }

    #[inline]
    fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut BytesMut) -> Result<(), EncodeError> {
        serde_json::to_writer(Sink(out), value).map_err(refused_value)
    }
}

#[inline]
fn check_charset(charset: Option<&str>, body: &[u8]) -> Result<(), DecodeError> {
    match charset {
        None | Some("utf-8") => Ok(()),
        Some(charset) => check_other_charset(charset, body),
    }
}

/// Checks the charset of a body. RFC 8259 gives the parameter no meaning, so it only explains why bytes that are not UTF-8
/// cannot be read. UTF-16 and UTF-32 have a zero in each character of the syntax, which no JSON text has.
#[cold]
fn check_other_charset(charset: &str, body: &[u8]) -> Result<(), DecodeError> {
    let is_utf_8 = ["utf-8", "us-ascii", "utf8"].iter().any(|name| name.eq_ignore_ascii_case(charset));
    if is_utf_8 || (!body.contains(&0) && str::from_utf8(body).is_ok()) {
        return Ok(());
    }
    Err(super::charset::unsupported(charset, "utf-8"))
}

#[cold]
fn not_utf8(body: &[u8], error: str::Utf8Error) -> DecodeError {
    DecodeError::new(DecodeErrorKind::Utf8).at(text_position(body, error.valid_up_to()))
}

#[cold]
#[inline(never)]
fn explained<'de, T: Deserialize<'de>>(error: serde_json::Error, text: &'de str) -> DecodeError {
    let read = |trace: &Trace| trace.read::<T, _>(&mut serde_json::Deserializer::from_str(text));
    explain(refusal(error), read, |_| None)
}

#[cold]
#[allow(clippy::needless_pass_by_value, reason = "it is dropped here, and not where a value is read")]
fn refusal(error: serde_json::Error) -> DecodeError {
    let (line, column) = (error.line(), error.column());
    let refused = match error.classify() {
        Category::Eof => DecodeError::new(DecodeErrorKind::Truncated),
        Category::Data => serde_error::refusal(without_place(&error.to_string(), line)),
        // The texts of syntax errors are constants of the parser.
        Category::Syntax | Category::Io => match without_place(&error.to_string(), line) {
            "trailing characters" => DecodeError::new(DecodeErrorKind::Trailing),
            "recursion limit exceeded" => DecodeError::new(DecodeErrorKind::Depth),
            // serde_json's text for the rest of these three.
            "expected ident" => {
                DecodeError::new(DecodeErrorKind::Syntax).with_detail("expected null, true or false".to_owned())
            }
            message => DecodeError::new(DecodeErrorKind::Syntax).with_detail(message.to_owned()),
        },
    };
    // serde_json counts the bytes that it has read of the line; the first byte is in column 1.
    if line == 0 { refused } else { refused.at(Position::Text { line, column: column.max(1) }) }
}

/// Returns the text of an error without ` at line 1 column 2`, where the line is known.
fn without_place(text: &str, line: usize) -> &str {
    let place = if line == 0 { None } else { text.rfind(" at line ") };
    &text[..place.unwrap_or(text.len())]
}

#[cold]
fn refused_value(error: serde_json::Error) -> EncodeError {
    match error.classify() {
        Category::Data => serde_error::refused_value(error),
        Category::Syntax | Category::Eof | Category::Io => serde_error::unsupported(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: P-17.
    #[test]
    fn a_charset_has_no_effect_on_utf_8() {
        for charset in [None, Some("utf-8"), Some("UTF-8"), Some("iso-8859-1"), Some("utf-16"), Some("")] {
            assert_eq!(check_charset(charset, "[\"\u{e9}\"]".as_bytes()), Ok(()), "{charset:?}");
        }
        // That these bytes are not UTF-8 is reported when they are read.
        assert_eq!(check_charset(Some("Us-Ascii"), b"\"\xe9\""), Ok(()));
    }

    /// Attacks: 39.
    #[test]
    fn other_charsets_are_unsupported() {
        for (charset, body) in [
            ("iso-8859-1", &b"\"\xe9\""[..]),
            ("utf-16", b"\xfe\xff\0[\0]"),
            ("utf-16", b"\0[\0]"),
            ("utf-16le", b"[\0]\0"),
            ("utf-32be", b"\0\0\0[\0\0\0]"),
            ("", b"\xff"),
        ] {
            let kind = check_charset(Some(charset), body).map_err(|error| error.kind());
            assert_eq!(kind, Err(DecodeErrorKind::UnsupportedCharset), "{charset}");
        }
    }
}
