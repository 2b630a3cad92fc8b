//! The charsets of text bodies.

use std::{borrow::Cow, str};

use crate::{DecodeError, DecodeErrorKind, content_type::excerpt};

/// A charset that text bodies may declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Utf8,
    Ascii,
    Latin1,
    /// The byte order mark decides; without one, big-endian (RFC 2781, section 4.3).
    Utf16,
    Utf16Le,
    Utf16Be,
}

impl Charset {
    /// Returns the charset of a `charset` parameter; UTF-8 without one.
    pub(crate) fn named(parameter: Option<&str>) -> Result<Self, DecodeError> {
        const NAMES: [(&str, Charset); 8] = [
            ("utf-8", Charset::Utf8),
            ("utf8", Charset::Utf8),
            ("us-ascii", Charset::Ascii),
            ("ascii", Charset::Ascii),
            ("iso-8859-1", Charset::Latin1),
            ("utf-16", Charset::Utf16),
            ("utf-16le", Charset::Utf16Le),
            ("utf-16be", Charset::Utf16Be),
        ];
        let Some(parameter) = parameter else { return Ok(Self::Utf8) };
        NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(parameter))
            .map(|&(_, charset)| charset)
            .ok_or_else(|| unsupported(parameter, "utf-8, us-ascii, iso-8859-1, utf-16, utf-16le or utf-16be"))
    }

    /// Returns the text, without a byte order mark. It borrows unless the bytes are not UTF-8.
    pub(crate) fn read(self, body: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
        let invalid = || DecodeError::new(DecodeErrorKind::Utf8);
        match self {
            Self::Utf8 => str::from_utf8(strip_bom(body)).map(Cow::Borrowed).map_err(|_| invalid()),
            Self::Ascii if body.is_ascii() => str::from_utf8(body).map(Cow::Borrowed).map_err(|_| invalid()),
            Self::Ascii => Err(invalid()),
            Self::Latin1 => match str::from_utf8(body) {
                Ok(text) if text.is_ascii() => Ok(Cow::Borrowed(text)),
                _ => Ok(Cow::Owned(body.iter().map(|&byte| char::from(byte)).collect())),
            },
            Self::Utf16 => match body {
                [0xff, 0xfe, ..] => utf_16(body, u16::from_le_bytes),
                _ => utf_16(body, u16::from_be_bytes),
            },
            Self::Utf16Le => utf_16(body, u16::from_le_bytes),
            Self::Utf16Be => utf_16(body, u16::from_be_bytes),
        }
    }
}

/// The refusal of a declared charset, and what would be read.
#[cold]
pub(crate) fn unsupported(charset: &str, expected: &str) -> DecodeError {
    let detail = format!("`{}`, expected {expected}", excerpt(charset));
    DecodeError::new(DecodeErrorKind::UnsupportedCharset).with_detail(detail)
}

/// Returns the body without the byte order mark that some senders put before UTF-8.
#[inline]
pub(crate) fn strip_bom(body: &[u8]) -> &[u8] {
    match body {
        [0xef, 0xbb, 0xbf, text @ ..] | text => text,
    }
}

fn utf_16(body: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Result<Cow<'static, str>, DecodeError> {
    let invalid = || DecodeError::new(DecodeErrorKind::Utf8);
    let (pairs, rest) = body.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid());
    }
    let mut units = pairs.iter().map(|&pair| unit(pair)).peekable();
    units.next_if_eq(&0xfeff);
    char::decode_utf16(units).collect::<Result<String, _>>().map(Cow::Owned).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(charset: &str, body: &'a [u8]) -> Result<Cow<'a, str>, DecodeErrorKind> {
        Charset::named(Some(charset)).and_then(|charset| charset.read(body)).map_err(|error| error.kind())
    }

    /// Rules: P-18.
    #[test]
    fn charsets_are_honoured() {
        assert_eq!(Charset::named(None), Ok(Charset::Utf8));
        assert_eq!(read("UTF-8", "\u{fc}".as_bytes()).unwrap(), "\u{fc}");
        assert_eq!(read("us-ascii", b"u").unwrap(), "u");
        assert_eq!(read("us-ascii", b"\xfc"), Err(DecodeErrorKind::Utf8));
        assert_eq!(read("ISO-8859-1", b"\xfc").unwrap(), "\u{fc}");
        assert_eq!(read("utf-16le", b"\xfc\0").unwrap(), "\u{fc}");
        assert_eq!(read("utf-16be", b"\0\xfc").unwrap(), "\u{fc}");
        assert_eq!(read("utf-16", b"\0\xfc").unwrap(), "\u{fc}");
        assert_eq!(read("utf-16", b"\xd8\x3d\xde\x00").unwrap(), "\u{1f600}");
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        assert_eq!(read("utf-8", b"\xef\xbb\xbfa").unwrap(), "a");
        assert_eq!(read("utf-16", b"\xff\xfea\0").unwrap(), "a");
        assert_eq!(read("utf-16", b"\xfe\xff\0a").unwrap(), "a");
        assert_eq!(read("utf-16le", b"\xff\xfea\0").unwrap(), "a");
        assert_eq!(read("utf-16be", b"\xfe\xff\0a").unwrap(), "a");
    }

    #[test]
    fn bytes_that_are_not_of_the_charset_are_utf_8_errors() {
        assert_eq!(read("utf-8", b"a\xff"), Err(DecodeErrorKind::Utf8));
        assert_eq!(read("utf-16", b"\0a\0"), Err(DecodeErrorKind::Utf8));
        assert_eq!(read("utf-16be", b"\xd8\0\0a"), Err(DecodeErrorKind::Utf8));
    }

    /// Attacks: 39.
    #[test]
    fn other_charsets_are_unsupported() {
        for charset in ["utf-7", "ibm037", "utf-32", "", "utf-8 "] {
            assert_eq!(read(charset, b"a"), Err(DecodeErrorKind::UnsupportedCharset), "{charset}");
        }
    }
}
