use std::{borrow::Cow, error, fmt};

use crate::{Limits, ValueKind};

/// The kind of a [`DecodeError`]: the reason why a codec refused a body. The name of a kind is also its code in a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes are not this format.
    Syntax,
    /// The body ends inside the value.
    Truncated,
    /// Bytes follow the value.
    Trailing,
    /// A well-formed value that is not of the requested type: a missing field, a string for a number.
    Type,
    /// A key or a field occurs twice.
    DuplicateKey,
    /// A string is not valid in its charset.
    Utf8,
    /// The body is empty, and the requested type has no value for that.
    EmptyBody,
    /// The declared charset is not one the codec reads.
    UnsupportedCharset,
    /// A declared parameter of the media type has a value that the codec does not support.
    UnsupportedParameter,
    /// Over [`Limits::bytes`](crate::Limits::bytes).
    Size,
    /// Over [`Limits::depth`](crate::Limits::depth).
    Depth,
    /// A declared length is beyond the end of the body.
    Length,
    /// Over [`Limits::elements`](crate::Limits::elements), which counts those of the whole body.
    Count,
    /// The decoder panicked.
    Panic,
}

impl DecodeErrorKind {
    /// Returns the code for a trail: the name of the variant.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Syntax => "Syntax",
            Self::Truncated => "Truncated",
            Self::Trailing => "Trailing",
            Self::Type => "Type",
            Self::DuplicateKey => "DuplicateKey",
            Self::Utf8 => "Utf8",
            Self::EmptyBody => "EmptyBody",
            Self::UnsupportedCharset => "UnsupportedCharset",
            Self::UnsupportedParameter => "UnsupportedParameter",
            Self::Size => "Size",
            Self::Depth => "Depth",
            Self::Length => "Length",
            Self::Count => "Count",
            Self::Panic => "Panic",
        }
    }

    /// Returns whether a limit was exceeded, as opposed to a violation of the format or the type.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Size | Self::Depth | Self::Length | Self::Count)
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::Syntax => "not well-formed",
            Self::Truncated => "the body ends inside the value",
            Self::Trailing => "bytes follow the value",
            Self::Type => "the value is not of the expected type",
            Self::DuplicateKey => "a key occurs twice",
            Self::Utf8 => "not valid text in its charset",
            Self::EmptyBody => "the body is empty",
            Self::UnsupportedCharset => "the declared charset is not supported",
            Self::UnsupportedParameter => "a declared parameter is not supported",
            Self::Size => "the body is larger than the limit",
            Self::Depth => "nested deeper than the limit",
            Self::Length => "a declared length is beyond the end of the body",
            Self::Count => "more elements than the limit, or than the body can hold",
            Self::Panic => "the decoder panicked",
        }
    }
}

/// The position in the body at which a decoder stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Position {
    /// Line and column of a text format, both from 1.
    Text {
        /// The line.
        line: usize,
        /// The column, in bytes.
        column: usize,
    },
    /// Byte offset of a binary format, from 0.
    Offset(usize),
}

impl Position {
    /// Returns the same position in a text with this many more bytes before its first line.
    #[cfg(any(feature = "json", feature = "dotnet"))]
    pub(crate) fn behind(self, bytes: usize) -> Self {
        match self {
            Self::Text { line: 1, column } => Self::Text { line: 1, column: column + bytes },
            other => other,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column } => write!(f, "{line}:{column}"),
            Self::Offset(offset) => write!(f, "{offset}"),
        }
    }
}

/// One codec's refusal of one body. It never holds bytes of the body.
///
/// `Display` is one line: the error, what the type expected and which kind of value it found, and the position.
///
/// ```
/// # #[cfg(feature = "json")] {
/// use consign_codecs::{Codec, DecodeContext, Json, Limits, ValueKind};
/// use serde::Deserialize;
///
/// #[derive(Debug, Deserialize)]
/// struct Order {
///     lines: Vec<Line>,
/// }
///
/// #[derive(Debug, Deserialize)]
/// struct Line {
///     price: f64,
/// }
///
/// let (body, limits) = (br#"{"lines":[{"price":1.5},{"price":"free"}]}"#, Limits::default());
/// let error = Json::default().decode::<Order>(body, &DecodeContext::new(&limits)).unwrap_err();
/// assert_eq!(error.path(), Some("lines[1].price"));
/// assert_eq!((error.expected(), error.found()), (Some("f64"), Some(ValueKind::Text)));
/// assert_eq!(
///     error.to_string(),
///     "the value is not of the expected type: expected f64, found text at `lines[1].price`, line 1, column 39"
/// );
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Refusal>);

#[derive(Clone, PartialEq, Eq)]
struct Refusal {
    kind: DecodeErrorKind,
    position: Option<Position>,
    path: Option<Box<str>>,
    detail: Option<Cow<'static, str>>,
    expected: Option<Cow<'static, str>>,
    found: Option<ValueKind>,
}

impl DecodeError {
    /// The longest text of [`path`](Self::path), [`expected`](Self::expected) and [`detail`](Self::detail), in bytes: 256.
    pub const MAX_TEXT: usize = 256;

    /// Creates a refusal of the given kind.
    #[cold]
    #[must_use]
    pub fn new(kind: DecodeErrorKind) -> Self {
        Self(Box::new(Refusal { kind, position: None, path: None, detail: None, expected: None, found: None }))
    }

    /// Adds the position in the body at which the decoder stopped.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Returns the same refusal for a text whose first line begins with a byte order mark of this many bytes.
    #[cfg(any(feature = "json", feature = "dotnet"))]
    #[cold]
    pub(crate) fn behind_mark(mut self, bytes: usize) -> Self {
        self.0.position = self.0.position.map(|position| position.behind(bytes));
        self
    }

    /// Adds the place in the type at which the decoder stopped, in the form of [`path`](Self::path). It must not quote the
    /// body.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.0.path = Some(bounded(path.into().into()).into_owned().into());
        self
    }

    /// Adds the text of the type or the limit. It must not quote the body.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = Some(bounded(detail.into()));
        self
    }

    /// Adds the limit that was exceeded, if there is no detail.
    #[cold]
    pub(crate) fn name_limit(&mut self, limits: &Limits) {
        let (limit, of) = match self.kind() {
            DecodeErrorKind::Depth => (limits.depth, "levels"),
            DecodeErrorKind::Count => (limits.elements, "elements"),
            _ => return,
        };
        self.0.detail.get_or_insert_with(|| format!("{limit} {of}").into());
    }

    /// Adds what the type expected. It must not quote the body.
    #[must_use]
    pub fn with_expected(mut self, expected: impl Into<Cow<'static, str>>) -> Self {
        self.0.expected = Some(bounded(expected.into()));
        self
    }

    /// Adds the kind of the value that was found instead.
    #[must_use]
    pub fn with_found(mut self, found: ValueKind) -> Self {
        self.0.found = Some(found);
        self
    }

    /// Returns the same refusal with the detail, the expectation and the finding of another.
    #[cfg(any(
        feature = "avro",
        feature = "json",
        feature = "msgpack",
        feature = "cbor",
        feature = "bincode",
        feature = "postcard",
        feature = "erased",
        feature = "dotnet",
        feature = "amqp-value"
    ))]
    pub(crate) fn with_words_of(mut self, other: &Self) -> Self {
        (self.0.detail, self.0.expected, self.0.found) =
            (other.0.detail.clone(), other.0.expected.clone(), other.0.found);
        self
    }

    #[cfg(feature = "erased")]
    pub(crate) fn without_expected(mut self) -> Self {
        self.0.expected = None;
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        self.0.kind
    }

    /// Returns the position in the body, if the format has one: where the refused value starts, or where the decoder stopped.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Returns the place in the type: the path from the outermost value to the refused one. `None` for the outermost value
    /// itself, and if the format cannot determine it.
    ///
    /// | in the path | stands for |
    /// |---|---|
    /// | `price`, `.price` | a field of a struct, or a variant of an enum, by the name that the type has for it |
    /// | `["unit price"]` | the same, if the name has other characters than letters, digits, `_` and `-` |
    /// | `[3]` | the fourth element of a sequence or tuple, or field of a struct that came without names |
    /// | `{3}` | the value of the fourth entry of a map |
    /// | `{3:key}` | its key |
    ///
    /// Keys and values of the body are never part of it. A path that is too long loses its beginning, and starts with `..`.
    /// Inside a type that serde buffers (`#[serde(flatten)]`, `untagged`, `tag = ".."`) the path ends at that type.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// Returns the text of the type or the limit, without bytes of the body.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Returns what the type expected, in its own words: `u64`, ``one of `open`, `closed` ``.
    #[must_use]
    pub fn expected(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// Returns the kind of the value that was found instead. The value itself is never stored.
    #[must_use]
    pub fn found(&self) -> Option<ValueKind> {
        self.0.found
    }
}

/// Returns the text in one line and of bounded length. Types determine these texts, and an enum may have hundreds of variants.
fn bounded(mut text: Cow<'static, str>) -> Cow<'static, str> {
    if text.len() > DecodeError::MAX_TEXT {
        let end = (0..=DecodeError::MAX_TEXT - 2).rev().find(|&end| text.is_char_boundary(end));
        text = format!("{}..", &text[..end.unwrap_or_default()]).into();
    }
    if text.contains(char::is_control) {
        text = text.replace(char::is_control, " ").into();
    }
    text
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().describe())?;
        let mut separator = ": ";
        if let Some(detail) = self.detail() {
            write!(f, "{separator}{detail}")?;
            separator = ", ";
        }
        if let Some(expected) = self.expected() {
            write!(f, "{separator}expected {expected}")?;
            separator = ", ";
        }
        if let Some(found) = self.found() {
            write!(f, "{separator}found {found}")?;
        }
        let mut separator = " at ";
        if let Some(path) = self.path() {
            write!(f, "{separator}`{path}`")?;
            separator = ", ";
        }
        match self.position() {
            Some(Position::Text { line, column }) => write!(f, "{separator}line {line}, column {column}"),
            Some(Position::Offset(offset)) => write!(f, "{separator}byte {offset}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeError")
            .field("kind", &self.kind())
            .field("position", &self.position())
            .field("path", &self.path())
            .field("detail", &self.detail())
            .field("expected", &self.expected())
            .field("found", &self.found())
            .finish()
    }
}

impl error::Error for DecodeError {}
