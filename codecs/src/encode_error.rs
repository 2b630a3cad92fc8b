use std::{borrow::Cow, error, fmt};

/// The kind of an [`EncodeError`]: the reason why a value could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The value has a shape that the format cannot hold: a map with keys that are not strings in JSON, a struct as text.
    Unsupported,
    /// The value's own `Serialize` refused.
    Value,
    /// No codec of the set writes the requested media type.
    NoSuchMediaType,
    /// The set has no codec of the requested name.
    NoSuchCodec,
}

/// A value that could not be written. Nothing of it is sent.
#[derive(Debug)]
pub struct EncodeError {
    kind: EncodeErrorKind,
    detail: Option<Cow<'static, str>>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl EncodeError {
    /// Creates a refusal of the given kind.
    #[cold]
    #[must_use]
    pub fn new(kind: EncodeErrorKind) -> Self {
        Self { kind, detail: None, source: None }
    }

    /// Adds a text about the refused value.
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

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> EncodeErrorKind {
        self.kind
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            EncodeErrorKind::Unsupported => "the format cannot represent the value",
            EncodeErrorKind::Value => "the value could not be serialized",
            EncodeErrorKind::NoSuchMediaType => "no codec of the set writes the media type",
            EncodeErrorKind::NoSuchCodec => "the set has no codec of this name",
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
