use std::{borrow::Cow, error, fmt, str::FromStr};

use super::{Attempt, escape};
#[cfg(doc)]
use crate::DecodeError;
use crate::{Chosen, DecodeErrorKind, Position, ValueKind};

/// The attempts to read one body as compact text: the property `x-decode-trail`.
///
/// An attempt is `codec;chosen;code;position`, where the position is `line:column`, a byte offset, or empty. Up to three
/// fields follow: [`path`](DecodeError::path), what was [`expected`](DecodeError::expected), and the code of the kind that was
/// [`found`](DecodeError::found). Those that are absent are empty, and left out at the end. Attempts are separated by `,`.
///
/// The text is printable US-ASCII of at most [`Trail::MAX_ENTRIES`] attempts; later ones are left out. In a path and an
/// expectation `%`, `,`, `;` and all that is not printable US-ASCII is percent-encoded (RFC 3986, section 2.1). They have at
/// most [`Trail::MAX_TEXT`] characters: a longer path loses its beginning and a longer expectation its end, marked by `..`.
///
/// ```
/// use consign_codecs::{Chosen, DecodeErrorKind, Position, Trail, ValueKind};
///
/// let trail: Trail = "json;exact;Type;1:39;lines[1].price;f64;text,msgpack;fallback;Trailing;17".parse()?;
/// let [json, msgpack] = trail.entries() else { panic!("two attempts") };
/// assert_eq!((json.codec(), json.chosen()), ("json", Chosen::Exact));
/// assert_eq!((json.path(), json.expected(), json.found()), (Some("lines[1].price"), Some("f64"), Some(ValueKind::Text)));
/// assert_eq!(msgpack.kind(), Some(DecodeErrorKind::Trailing));
/// assert_eq!(msgpack.position(), Some(Position::Offset(17)));
/// # Ok::<_, consign_codecs::TrailError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    entries: Vec<TrailEntry>,
}

/// One attempt of a [`Trail`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrailEntry {
    codec: Cow<'static, str>,
    chosen: Chosen,
    code: Cow<'static, str>,
    position: Option<Position>,
    path: Option<Box<str>>,
    expected: Option<Box<str>>,
    found: Option<ValueKind>,
}

impl Trail {
    /// The maximum of attempts in a trail: 8.
    pub const MAX_ENTRIES: usize = 8;
    /// The maximum of characters of a path and of an expectation, percent-encoded: 96.
    pub const MAX_TEXT: usize = 96;

    pub(super) fn of(attempts: &[Attempt]) -> Self {
        Self { entries: attempts.iter().take(Self::MAX_ENTRIES).map(TrailEntry::of).collect() }
    }

    /// Returns the attempts, in order.
    #[must_use]
    pub fn entries(&self) -> &[TrailEntry] {
        &self.entries
    }

    /// Returns whether nothing was tried.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl TrailEntry {
    fn of(attempt: &Attempt) -> Self {
        Self {
            codec: field(attempt.codec),
            chosen: attempt.chosen,
            code: Cow::Borrowed(attempt.error.kind().code()),
            position: attempt.error.position(),
            path: attempt.error.path().map(|path| escape::tail(path, Trail::MAX_TEXT).into()),
            expected: attempt.error.expected().map(|expected| escape::head(expected, Trail::MAX_TEXT).into()),
            found: attempt.error.found(),
        }
    }

    /// Returns the codec's name.
    #[must_use]
    pub fn codec(&self) -> &str {
        &self.codec
    }

    /// Returns why it was chosen.
    #[must_use]
    pub fn chosen(&self) -> Chosen {
        self.chosen
    }

    /// Returns the code of why it refused the body.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns why it refused the body. `None` if the code is not one of this version's.
    #[must_use]
    pub fn kind(&self) -> Option<DecodeErrorKind> {
        KINDS.into_iter().find(|kind| kind.code() == self.code)
    }

    /// Returns where in the body it stopped.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns where in the type it stopped, in the form of [`DecodeError::path`].
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Returns what the type expected.
    #[must_use]
    pub fn expected(&self) -> Option<&str> {
        self.expected.as_deref()
    }

    /// Returns the kind of the value that was found instead.
    #[must_use]
    pub fn found(&self) -> Option<ValueKind> {
        self.found
    }
}

/// A text that is not a [`Trail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrailError {
    /// More than [`Trail::MAX_ENTRIES`] attempts.
    TooManyEntries,
    /// An attempt has fewer than four fields or more than seven, or one of them is invalid.
    InvalidEntry,
}

const KINDS: [DecodeErrorKind; 14] = [
    DecodeErrorKind::Syntax,
    DecodeErrorKind::Truncated,
    DecodeErrorKind::Trailing,
    DecodeErrorKind::Type,
    DecodeErrorKind::DuplicateKey,
    DecodeErrorKind::Utf8,
    DecodeErrorKind::EmptyBody,
    DecodeErrorKind::UnsupportedCharset,
    DecodeErrorKind::UnsupportedParameter,
    DecodeErrorKind::Size,
    DecodeErrorKind::Depth,
    DecodeErrorKind::Length,
    DecodeErrorKind::Count,
    DecodeErrorKind::Panic,
];

const MAX_FIELD: usize = 32;

fn is_field_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
}

/// Returns whether a name can be in a trail unchanged.
pub(super) fn is_field(text: &str) -> bool {
    (1..=MAX_FIELD).contains(&text.len()) && text.chars().all(is_field_character)
}

/// Returns a name for a trail. A set refuses names that are not fields, but the format of a type may have one.
fn field(name: &'static str) -> Cow<'static, str> {
    if is_field(name) {
        return Cow::Borrowed(name);
    }
    let replace = |character| if is_field_character(character) { character } else { '_' };
    let replaced: String = name.chars().take(MAX_FIELD).map(replace).collect();
    if replaced.is_empty() { Cow::Borrowed("_") } else { Cow::Owned(replaced) }
}

impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, entry) in self.entries.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            write!(f, "{separator}{};{};{};", entry.codec, entry.chosen, entry.code)?;
            if let Some(position) = entry.position {
                write!(f, "{position}")?;
            }
            let path = entry.path.as_deref().map(escape::percent).unwrap_or_default();
            let expected = entry.expected.as_deref().map(escape::percent).unwrap_or_default();
            let found = entry.found.map_or("", ValueKind::code);
            let fields = [path.as_str(), &expected, found];
            let kept = fields.iter().rposition(|field| !field.is_empty()).map_or(0, |last| last + 1);
            for field in &fields[..kept] {
                write!(f, ";{field}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Trail {
    type Err = TrailError;

    fn from_str(text: &str) -> Result<Self, TrailError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut entries = Vec::new();
        for entry in text.split(',') {
            if entries.len() == Self::MAX_ENTRIES {
                return Err(TrailError::TooManyEntries);
            }
            entries.push(parse_entry(entry).ok_or(TrailError::InvalidEntry)?);
        }
        Ok(Self { entries })
    }
}

fn parse_entry(text: &str) -> Option<TrailEntry> {
    let mut fields = text.split(';');
    let codec = fields.next().filter(|name| is_field(name))?;
    let chosen = fields.next()?;
    let chosen = Chosen::ALL.into_iter().find(|candidate| candidate.code() == chosen)?;
    let code = fields.next().filter(|code| is_field(code))?;
    let position = match fields.next()? {
        "" => None,
        text => Some(parse_position(text)?),
    };
    let rest: Vec<_> = fields.collect();
    // Empty fields at the end are left out.
    if rest.len() > 3 || rest.last() == Some(&"") {
        return None;
    }
    let text = |at: usize| rest.get(at).copied().filter(|field| !field.is_empty());
    Some(TrailEntry {
        codec: Cow::Owned(codec.to_owned()),
        chosen,
        code: Cow::Owned(code.to_owned()),
        position,
        path: text(0).map(parse_text).transpose().ok()?,
        expected: text(1).map(parse_text).transpose().ok()?,
        found: match text(2) {
            None => None,
            Some(code) => Some(ValueKind::from_code(code)?),
        },
    })
}

fn parse_text(text: &str) -> Result<Box<str>, TrailError> {
    let text = if text.len() <= Trail::MAX_TEXT { escape::parse(text) } else { None };
    text.map(Into::into).ok_or(TrailError::InvalidEntry)
}

fn parse_position(text: &str) -> Option<Position> {
    match text.split_once(':') {
        Some((line, column)) => Some(Position::Text { line: parse_number(line)?, column: parse_number(column)? }),
        None => Some(Position::Offset(parse_number(text)?)),
    }
}

/// Parses a number as `Display` writes it, without a sign or a leading zero.
fn parse_number(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

impl fmt::Display for TrailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyEntries => "a trail has at most 8 attempts",
            Self::InvalidEntry => "an attempt of a trail is `codec;chosen;code;position;path;expected;found`",
        })
    }
}

impl error::Error for TrailError {}
