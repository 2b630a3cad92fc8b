//! The meaning of a content encoding for the bytes of a body.

/// Names that say nothing of the bytes: those of MIME's transfer encodings, and the empty one of a list.
const PLAIN: [&str; 5] = ["", "identity", "binary", "7bit", "8bit"];

/// The charsets that are a superset of US-ASCII, as IANA and Python write them; those with a number are in [`NUMBERED`].
const CHARSETS: [&str; 17] = [
    "utf-8",
    "utf8",
    "us-ascii",
    "ascii",
    "latin-1",
    "latin1",
    "macintosh",
    "koi8-r",
    "koi8-u",
    "gb18030",
    "gbk",
    "gb2312",
    "big5",
    "shift_jis",
    "euc-jp",
    "euc-kr",
    "tis-620",
];

/// Prefixes, and the numbers that follow them.
const NUMBERED: [(&str, std::ops::RangeInclusive<u16>); 5] = [
    ("iso-8859-", 1..=16),
    ("iso8859-", 1..=16),
    ("iso_8859-", 1..=16),
    ("windows-", 1250..=1258),
    ("cp", 1250..=1258),
];

/// The encodings that a body was really encoded with, in the order in which they were applied.
///
/// Producers write the charset of a text body into this property (kombu, Spring AMQP), or a transfer encoding of MIME. These
/// are left out, in any case of letters and in lists.
pub(crate) fn encodings(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(|name| name.trim_matches([' ', '\t'])).filter(|name| !is_plain(name))
}

fn is_plain(name: &str) -> bool {
    PLAIN.iter().chain(&CHARSETS).any(|known| known.eq_ignore_ascii_case(name)) || is_numbered(name)
}

fn is_numbered(name: &str) -> bool {
    NUMBERED.iter().any(|(prefix, numbers)| {
        let Some((start, number)) = name.split_at_checked(prefix.len()) else { return false };
        let is_number = (1..=4).contains(&number.len()) && number.bytes().all(|digit| digit.is_ascii_digit());
        start.eq_ignore_ascii_case(prefix) && is_number && number.parse().is_ok_and(|number| numbers.contains(&number))
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
            "cp437",
            "windows-1259",
            "utf-8;q=1",
            "u",
            "cp\u{e9}1252",
            "c\u{e9}",
        ] {
            assert_eq!(encodings(text).collect::<Vec<_>>(), [text]);
        }
        assert_eq!(encodings("utf-8, gzip ,identity,zstd").collect::<Vec<_>>(), ["gzip", "zstd"]);
    }
}
