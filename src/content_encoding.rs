//! The meaning of a content encoding for the bytes of a body.

use std::{fmt, ops::RangeInclusive};

use crate::Message;

/// Names that say nothing of the bytes: those of MIME's transfer encodings, and the empty one of a list.
const PLAIN: [&str; 5] = ["", "identity", "binary", "7bit", "8bit"];

/// The charsets that are a superset of US-ASCII, as IANA and Python write them, with `-` for `_`; those with a number are in
/// [`NUMBERED`].
const CHARSETS: [&str; 38] = [
    "utf-8",
    "utf8",
    "utf-8-sig",
    "us-ascii",
    "ascii",
    "646",
    "ansi-x3.4-1968",
    "latin-1",
    "latin1",
    "macintosh",
    "mac-roman",
    "mac-latin2",
    "mac-cyrillic",
    "mac-greek",
    "mac-turkish",
    "mac-iceland",
    "koi8-r",
    "koi8-u",
    "koi8-t",
    "kz1048",
    "ptcp154",
    "gb18030",
    "gbk",
    "gb2312",
    "big5",
    "big5-hkscs",
    "big5hkscs",
    "shift-jis",
    "shift-jis-2004",
    "shift-jisx0213",
    "windows-31j",
    "euc-jp",
    "euc-jis-2004",
    "euc-jisx0213",
    "euc-kr",
    "euc-tw",
    "johab",
    "tis-620",
];

/// The numbers of code pages of DOS and Windows that are a superset of US-ASCII. Those of EBCDIC have other numbers.
const CODE_PAGES: &[RangeInclusive<u16>] = &[
    437..=437,
    720..=720,
    737..=737,
    775..=775,
    850..=850,
    852..=852,
    855..=863,
    865..=866,
    869..=869,
    874..=874,
    932..=932,
    936..=936,
    949..=950,
    1006..=1006,
    1125..=1125,
    1250..=1258,
];

/// Prefixes, and the numbers that follow them.
const NUMBERED: [(&str, &[RangeInclusive<u16>]); 5] = [
    ("iso-8859-", &[1..=16]),
    ("iso8859-", &[1..=16]),
    ("windows-", CODE_PAGES),
    ("cp", CODE_PAGES),
    ("ibm", CODE_PAGES),
];

/// The encodings that a body was really encoded with, in the order in which they were applied.
///
/// Producers write the charset of a text body into this property (kombu, Spring AMQP), or a transfer encoding of MIME. These
/// are left out, in any case of letters and in lists. Spring AMQP before 2.3 writes lists with a colon: `gzip:UTF-8`.
pub(crate) fn encodings(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ':']).map(|name| name.trim_matches([' ', '\t'])).filter(|name| !is_plain(name))
}

/// The content encoding of a message whose bytes are not those of its ContentType.
pub(crate) fn encoding_of(message: &Message) -> Option<&str> {
    let encoding = message.pass_through()?.content_encoding.as_deref()?;
    encodings(encoding).next().map(|_| encoding)
}

/// An encoding for the text of an error: at most 64 characters, escaped. If a list names one encoding beside names that do not
/// change the bytes, it is that one.
#[cold]
pub(crate) fn shown(encoding: &str) -> Box<str> {
    let mut names = encodings(encoding);
    let name = match (names.next(), names.next()) {
        (Some(only), None) => only,
        _ => encoding,
    };
    name.chars().take(64).flat_map(char::escape_debug).collect()
}

/// Writes why a body with this encoding, as [`shown`], is not read.
pub(crate) fn write_refusal(f: &mut fmt::Formatter<'_>, encoding: &str) -> fmt::Result {
    match feature(encoding) {
        Some(feature) => {
            write!(f, "the content encoding `{encoding}` needs a `DecompressLayer` (feature `{feature}` of consign)")
        }
        None => write!(f, "the content encoding `{encoding}` is not supported"),
    }
}

fn is_plain(name: &str) -> bool {
    PLAIN.iter().chain(&CHARSETS).any(|known| is_same(known, name)) || is_numbered(name)
}

/// Whether `name` is `known` in any case, with `_` for `-`.
fn is_same(known: &str, name: &str) -> bool {
    let normal = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    known.len() == name.len() && known.bytes().zip(name.bytes()).all(|(known, byte)| known == normal(byte))
}

fn is_numbered(name: &str) -> bool {
    NUMBERED.iter().any(|(prefix, ranges)| {
        let Some((start, number)) = name.split_at_checked(prefix.len()) else { return false };
        let is_number = (1..=4).contains(&number.len()) && number.bytes().all(|digit| digit.is_ascii_digit());
        let is_known = |number| ranges.iter().any(|range| range.contains(&number));
        is_same(prefix, start) && is_number && number.parse().is_ok_and(is_known)
    })
}

/// The feature of this crate that reads an encoding.
pub(crate) fn feature(name: &str) -> Option<&'static str> {
    const FEATURES: [(&str, &str); 4] =
        [("gzip", "gzip"), ("x-gzip", "gzip"), ("zstd", "zstd"), ("deflate", "deflate")];
    FEATURES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, feature)| feature)
}

#[cfg(test)]
mod tests {
    use super::encodings;

    /// Rules: H-100.
    #[test]
    fn charsets_and_transfer_encodings_say_nothing_of_the_bytes() {
        for text in [
            "",
            " ",
            "utf-8",
            "UTF-8",
            "utf8",
            "us-ascii",
            "ASCII",
            "latin-1",
            "ISO-8859-1",
            "iso8859-15",
            "cp1252",
            "Windows-1251",
            "binary",
            "7bit",
            "8bit",
            "Identity",
            "identity, utf-8",
            "utf-8,binary,",
            "utf_8",
            "Latin_1",
            "iso8859_15",
            "iso_8859-1",
            "ANSI_X3.4-1968",
            "646",
            "shift_jis",
            "euc_jp",
            "koi8_r",
            "cp437",
            "CP866",
            "IBM850",
            "windows-874",
            "identity:UTF-8",
            "\tutf-8 ,, 8BIT",
        ] {
            assert_eq!(encodings(text).next(), None, "{text}");
        }
        for text in [
            "gzip",
            "br",
            "base64",
            "quoted-printable",
            "utf-16",
            "utf-32le",
            "ibm037",
            "utf-7",
            "utf-9",
            "iso-8859-0",
            "iso-8859-17",
            "iso-8859-",
            "iso-8859-+1",
            "iso-8859-00001",
            "cp37",
            "cp864",
            "cp500",
            "cp1026",
            "windows-1259",
            "utf_16",
            "utf--8",
            "utf-8;q=1",
            "u",
            "cp\u{e9}1252",
            "c\u{e9}",
        ] {
            assert_eq!(encodings(text).collect::<Vec<_>>(), [text]);
        }
        assert_eq!(encodings("utf-8, gzip ,identity,zstd").collect::<Vec<_>>(), ["gzip", "zstd"]);
        assert_eq!(encodings("gzip:UTF-8").collect::<Vec<_>>(), ["gzip"]);
    }
}
