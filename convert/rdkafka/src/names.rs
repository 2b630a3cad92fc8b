//! The names of headers.

use consign_core::wire::fields::{PREFIX, PROPERTY};

pub(crate) const CONTENT_TYPE: &str = "content-type";
pub(crate) const CONTENT_ENCODING: &str = "content-encoding";
pub(crate) const SECTIONS: &str = "Sb-Sections";
pub(crate) const BODY: &str = "Sb-Body";
/// The application property that `count_delivery` writes.
pub(crate) const COUNT: &str = "x-delivery-count";

/// The application property that holds the key of a record which cannot be a partition key: bytes that are not text, or more than
/// 128 characters.
pub const KEY: &str = "x-kafka-key";

/// What a header holds.
pub(crate) enum Meaning<'a> {
    ContentType,
    ContentEncoding,
    /// A header of this crate.
    Own,
    /// An application property of this crate, by the token of its name.
    Typed(&'a str),
    /// An application property of its name.
    Property,
}

pub(crate) fn meaning(name: &str) -> Meaning<'_> {
    if name.eq_ignore_ascii_case(CONTENT_TYPE) {
        Meaning::ContentType
    } else if name.eq_ignore_ascii_case(CONTENT_ENCODING) {
        Meaning::ContentEncoding
    } else if let Some(token) = name.strip_prefix(PROPERTY) {
        Meaning::Typed(token)
    } else if name.starts_with(PREFIX) {
        Meaning::Own
    } else {
        Meaning::Property
    }
}

/// Whether a text property can be a header of its name. librdkafka ends a name at its first NUL.
pub(crate) fn is_plain(name: &str) -> bool {
    matches!(meaning(name), Meaning::Property) && !name.is_empty() && !name.contains('\0')
}

/// Returns the name of a property as part of a header's: letters, digits and `-` stay, other bytes become `=XX`, an empty name
/// `=`.
pub(crate) fn token(name: &str) -> String {
    if name.is_empty() {
        return "=".into();
    }
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            out.push(byte.into());
        } else {
            let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default().to_ascii_uppercase();
            out.extend(['=', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// Reverses [`token`].
pub(crate) fn untoken(token: &str) -> Option<String> {
    if token == "=" {
        return Some(String::new());
    }
    let mut out = Vec::with_capacity(token.len());
    let mut bytes = token.bytes();
    let number = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|value| u8::try_from(value).ok());
    while let Some(byte) = bytes.next() {
        out.push(if byte == b'=' { number(bytes.next())? << 4 | number(bytes.next())? } else { byte });
    }
    String::from_utf8(out).ok()
}
