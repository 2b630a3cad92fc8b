use std::{borrow::Cow, error, fmt};

use tower::BoxError;

/// An error of a store.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    detail: Option<Cow<'static, str>>,
    source: Option<BoxError>,
}

/// The kinds of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store holds its maximum of ids. It accepts new ones when the window of the oldest is over.
    Full,
    /// The lease was over, and the id was reserved elsewhere since.
    Superseded,
    /// The store is open already, in this process or in another one.
    InUse,
    /// The store cannot be reached, or failed. The outcome of the call is unknown.
    Unavailable,
}

impl StoreError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: StoreErrorKind) -> Self {
        Self { kind, detail: None, source: None }
    }

    /// Adds a detail for a person, which is part of the error's text.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Adds the source of the error.
    #[must_use]
    pub fn with_source(self, source: impl Into<BoxError>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Full => "the store of handled ids is full",
            StoreErrorKind::Superseded => "the lease of the id has expired, and another consumer has reserved the id",
            StoreErrorKind::InUse => "the store of handled ids is open already, in this process or in another one",
            StoreErrorKind::Unavailable => "the store of handled ids failed",
        })?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

impl error::Error for StoreError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
