//! The names of message attributes, and the characters that SQS takes.

use consign_core::wire::fields::{PREFIX, PROPERTY};

pub(crate) const CONTENT_TYPE: &str = "Content-Type";
pub(crate) const CONTENT_ENCODING: &str = "Content-Encoding";
pub(crate) const BODY: &str = "Sb-Body";
pub(crate) const SECTIONS: &str = "Sb-Sections";
pub(crate) const SCHEDULED: &str = "Sb-Scheduled-Time";
/// A JSON object with what has no attribute of its own.
pub(crate) const PACKED: &str = "Sb-Packed";

/// The most message attributes of a message.
pub(crate) const MOST: usize = 10;
/// The longest name.
const LONGEST: usize = 256;

/// What an attribute holds.
pub(crate) enum Meaning<'a> {
    ContentType,
    ContentEncoding,
    /// An attribute of this crate.
    Own,
    /// An application property of this crate, by its name: only in [`PACKED`].
    Typed(&'a str),
    /// An application property of its name.
    Property,
}

pub(crate) fn meaning(name: &str) -> Meaning<'_> {
    if name.eq_ignore_ascii_case(CONTENT_TYPE) {
        Meaning::ContentType
    } else if name.eq_ignore_ascii_case(CONTENT_ENCODING) {
        Meaning::ContentEncoding
    } else if let Some(name) = name.strip_prefix(PROPERTY) {
        Meaning::Typed(name)
    } else if name.starts_with(PREFIX) {
        Meaning::Own
    } else {
        Meaning::Property
    }
}

/// Whether an application property can be an attribute of its name.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_reserved = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    matches!(meaning(name), Meaning::Property)
        && (1..=LONGEST).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && !is_reserved("AWS.")
        && !is_reserved("Amazon.")
}

/// Whether SQS takes a text as a body or as the value of an attribute.
pub(crate) fn is_text(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_permitted)
}

/// The characters of XML 1.0.
fn is_permitted(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Returns a JSON text with escapes for the characters that SQS does not take. `serde_json` has escaped the others.
pub(crate) fn json(text: String) -> String {
    if text.contains(['\u{fffe}', '\u{ffff}']) {
        return text.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
    }
    text
}
