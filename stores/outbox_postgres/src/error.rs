use std::{borrow::Cow, error, fmt, iter::successors};

use consign_core::{message::InvalidArgument, transport::SendError};
use tokio_postgres::error::{DbError, SqlState};

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
    /// The encoding of the database is not UTF8. It cannot store or return each id and each error.
    Encoding,
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
            OutboxErrorKind::Encoding => "the encoding of the database of the outbox is not UTF8",
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
        let detail = error.as_db_error().map_or_else(|| causes(&error), described);
        Self { kind: OutboxErrorKind::Database, detail: detail.into(), source: Some(error.into()) }
    }
}

/// The classes of errors whose messages name tables, roles, databases and settings, and never a value of a row: what the schema or the
/// role does not permit, the login, a server that is read-only, and what it has too little of or is about to end.
const WITHOUT_VALUES: [&str; 7] = ["25", "28", "3D", "3F", "42", "53", "57"];

/// Returns the text of an error of the server, without values of rows.
pub(crate) fn described(error: &DbError) -> String {
    let code = error.code().code();
    let text = format!("SQLSTATE {code}");
    if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(error.code()) {
        let message = error.message();
        return format!("{text}: {message}; see `Outbox::create_table`, and the search_path of the connection");
    }
    if WITHOUT_VALUES.iter().any(|class| code.starts_with(class)) {
        return format!("{text}: {}", error.message());
    }
    let parts = [("table", error.table()), ("column", error.column()), ("constraint", error.constraint())];
    let parts = parts.into_iter().filter_map(|(what, name)| Some(format!(", {what} {}", name?)));
    parts.fold(text, |text, part| text + &part)
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
