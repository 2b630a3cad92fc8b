use std::{error, fmt};

/// A document that is not built. `Display` states in one sentence what to change.
#[derive(Clone, PartialEq, Eq)]
pub struct AsyncApiError {
    kind: AsyncApiErrorKind,
    advice: Box<str>,
}

/// What is wrong with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AsyncApiErrorKind {
    /// A schema is registered for a message that no pipeline has.
    UnknownMessage,
    /// Two schemas are registered for one message.
    DuplicateSchema,
    /// Two servers have one name.
    DuplicateServer,
    /// The host of a server has a scheme, a path or credentials.
    Host,
    /// Two pipelines of one side have one destination.
    DuplicateOperation,
}

impl AsyncApiError {
    pub(super) fn new(kind: AsyncApiErrorKind, advice: String) -> Self {
        Self { kind, advice: advice.into() }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> AsyncApiErrorKind {
        self.kind
    }
}

impl fmt::Display for AsyncApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.advice)
    }
}

impl fmt::Debug for AsyncApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncApiError({:?}: {})", self.kind, self.advice)
    }
}

impl error::Error for AsyncApiError {}
