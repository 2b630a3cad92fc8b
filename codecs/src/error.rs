use std::{borrow::Cow, error, fmt};

/// Why a codec refused a body. The name of a kind is also its code in a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes are not this format.
    Syntax,
    /// The body ends inside the value.
    Truncated,
    /// Bytes follow the value.
    Trailing,
    /// A well-formed value that is not of the asked type: a missing field, a string for a number.
    Type,
    /// A key or a field stands twice.
    DuplicateKey,
    /// A string is not valid in its charset.
    Utf8,
    /// The body is empty, and the asked type has no value for that.
    EmptyBody,
    /// The declared charset is not one the codec reads.
    UnsupportedCharset,
    /// A declared parameter of the media type has a value that the codec does not know.
    UnsupportedParameter,
    /// Over [`Limits::bytes`](crate::Limits::bytes).
    Size,
    /// Over [`Limits::depth`](crate::Limits::depth).
    Depth,
    /// A declared length is beyond the end of the body.
    Length,
    /// Over [`Limits::elements`](crate::Limits::elements), or more elements than the body has bytes.
    Count,
    /// The decoder panicked.
    Panic,
}

impl DecodeErrorKind {
    /// The code that stands in a trail: the name of the variant.
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

    /// Whether a limit was exceeded, and not the format or the type violated.
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
            Self::DuplicateKey => "a key stands twice",
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

/// Where in the body a decoder stopped.
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

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column } => write!(f, "{line}:{column}"),
            Self::Offset(offset) => write!(f, "{offset}"),
        }
    }
}

/// One codec's refusal of one body. It never holds bytes of the body.
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Refusal>);

#[derive(Clone, PartialEq, Eq)]
struct Refusal {
    kind: DecodeErrorKind,
    position: Option<Position>,
    detail: Option<Cow<'static, str>>,
}

impl DecodeError {
    /// A refusal of the given kind.
    #[cold]
    #[must_use]
    pub fn new(kind: DecodeErrorKind) -> Self {
        Self(Box::new(Refusal { kind, position: None, detail: None }))
    }

    /// Adds where the decoder stopped.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Adds what the type or the limit says. It must not quote the body.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Why.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        self.0.kind
    }

    /// Where, if the format can tell.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// What the type or the limit said, without bytes of the body.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().describe())?;
        if let Some(detail) = self.detail() {
            write!(f, ": {detail}")?;
        }
        match self.position() {
            Some(Position::Text { line, column }) => write!(f, " at line {line}, column {column}"),
            Some(Position::Offset(offset)) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeError")
            .field("kind", &self.kind())
            .field("position", &self.position())
            .field("detail", &self.detail())
            .finish()
    }
}

impl error::Error for DecodeError {}

/// Why a value could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The value has a shape that the format cannot hold: a map with keys that are not strings in JSON, a struct as text.
    Unsupported,
    /// The value's own `Serialize` refused.
    Value,
    /// No codec of the set writes the asked media type.
    NoSuchMediaType,
}

/// A value that could not be written. Nothing of it is sent.
#[derive(Debug)]
pub struct EncodeError {
    kind: EncodeErrorKind,
    detail: Option<Cow<'static, str>>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl EncodeError {
    /// A refusal of the given kind.
    #[cold]
    #[must_use]
    pub fn new(kind: EncodeErrorKind) -> Self {
        Self { kind, detail: None, source: None }
    }

    /// Adds what was refused.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the format's own error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Why.
    #[must_use]
    pub fn kind(&self) -> EncodeErrorKind {
        self.kind
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            EncodeErrorKind::Unsupported => "the format cannot hold the value",
            EncodeErrorKind::Value => "the value refused to be written",
            EncodeErrorKind::NoSuchMediaType => "no codec of the set writes the media type",
        })?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl error::Error for EncodeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
