use std::{borrow::Cow, error, fmt, iter::successors};

use consign_core::{message::InvalidArgument, transport::SendError};

/// The error of an [`Outbox`](crate::Outbox) or a [`Relay`](crate::Relay).
#[derive(Debug)]
pub struct OutboxError {
    kind: OutboxErrorKind,
    detail: Cow<'static, str>,
    source: Option<Source>,
}

type Source = Box<dyn error::Error + Send + Sync>;

/// The kind of an [`OutboxError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboxErrorKind {
    /// The message or its destination is invalid, or cannot be stored. The transaction is still usable.
    InvalidMessage,
    /// The database refused a statement, or the connection is lost. After it, a transaction can only be rolled back.
    Database,
    /// The table has the schema of another version of this crate.
    Version,
}

impl OutboxError {
    pub(crate) fn new(kind: OutboxErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), source: None }
    }

    pub(crate) fn invalid(source: impl Into<Source>) -> Self {
        let source = source.into();
        Self { kind: OutboxErrorKind::InvalidMessage, detail: source.to_string().into(), source: Some(source) }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> OutboxErrorKind {
        self.kind
    }
}

impl fmt::Display for OutboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            OutboxErrorKind::InvalidMessage => "the message cannot be stored in the outbox",
            OutboxErrorKind::Database => "the database of the outbox failed",
            OutboxErrorKind::Version => "the table of the outbox has another version",
        };
        if self.detail.is_empty() { f.write_str(what) } else { write!(f, "{what}: {}", self.detail) }
    }
}

impl error::Error for OutboxError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

impl From<tokio_postgres::Error> for OutboxError {
    fn from(error: tokio_postgres::Error) -> Self {
        // The message of the server may quote a value: the code and the source have what is needed.
        let detail = match error.code() {
            Some(code) => format!("SQLSTATE {}", code.code()),
            None => causes(&error),
        };
        Self { kind: OutboxErrorKind::Database, detail: detail.into(), source: Some(error.into()) }
    }
}

/// Returns the texts of an error and its causes.
fn causes(error: &(dyn error::Error + 'static)) -> String {
    successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl From<InvalidArgument> for OutboxError {
    fn from(error: InvalidArgument) -> Self {
        Self::invalid(error)
    }
}

impl From<SendError> for OutboxError {
    fn from(error: SendError) -> Self {
        Self::invalid(error)
    }
}
