use std::{error, fmt};

use tower::BoxError;

/// Why a store did not do what it was asked.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<BoxError>,
}

/// The kinds of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// As many ids are known as the store may keep. It has room again when the window of the oldest is over.
    Full,
    /// The lease was over, and somebody else has reserved the id since.
    Superseded,
    /// The store cannot be reached, or failed. Whether it did what it was asked is unknown.
    Unavailable,
}

impl StoreError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// With what is behind it.
    #[must_use]
    pub fn with_source(self, source: impl Into<BoxError>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Full => "the store of handled ids is full",
            StoreErrorKind::Superseded => "the lease of the id was over, and somebody else has reserved it",
            StoreErrorKind::Unavailable => "the store of handled ids failed",
        })
    }
}

impl error::Error for StoreError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
