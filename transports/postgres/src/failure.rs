use std::{error, fmt};

use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};
use consign_postgres_connect::ends_connection;
use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::{
    Error,
    error::{DbError, SqlState},
};

/// Why a call of the database failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Database(Error),
    /// No connection was opened, so nothing was executed.
    NotConnected(Error),
    Pool(PoolError),
    TooLate(TooLate),
}

/// The database did not answer within the time limit. Whether it executed the call is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the database did not answer in time")
    }
}

impl error::Error for TooLate {}

impl Failure {
    /// Returns whether the connection is lost, or unusable.
    pub(crate) fn is_of_connection(&self) -> bool {
        match self {
            Self::Database(error) | Self::NotConnected(error) => error.as_db_error().is_none_or(ends_connection),
            Self::TooLate(_) => true,
            Self::Pool(_) => false,
        }
    }

    /// Returns whether the database may have executed a call that it has not answered.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_of_connection() && !matches!(self, Self::NotConnected(_))
    }

    /// Returns whether the database did nothing, and may succeed the next time.
    pub(crate) fn is_passing(&self) -> bool {
        self.state().is_some_and(|state| matches!(state, "40001" | "40P01" | "55P03" | "57014") || is_short(state))
            || matches!(self, Self::Pool(PoolError::Timeout(_)))
    }

    /// Returns whether the next attempt may succeed without a change.
    pub(crate) fn is_temporary(&self) -> bool {
        self.is_of_connection() || self.is_passing()
    }

    /// Returns whether a row with this key exists.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.state() == Some("23505")
    }

    /// Returns the database's code of the failure.
    pub(crate) fn state(&self) -> Option<&str> {
        match self {
            Self::Database(error) | Self::NotConnected(error) => error.code().map(SqlState::code),
            Self::Pool(_) | Self::TooLate(_) => None,
        }
    }

    /// Returns the kind of the failure, and whether the same call may succeed later if that is not the same for all of this
    /// kind.
    fn kind(&self) -> (ErrorKind, Option<bool>) {
        match self {
            Self::Database(error) | Self::NotConnected(error) => match error.as_db_error() {
                Some(error) => of_error(error),
                None => (ErrorKind::CommunicationProblem, None),
            },
            Self::Pool(PoolError::Timeout(_)) => (ErrorKind::ServiceBusy, None),
            Self::Pool(PoolError::Closed) => (ErrorKind::CommunicationProblem, Some(false)),
            Self::Pool(_) => (ErrorKind::CommunicationProblem, None),
            Self::TooLate(_) => (ErrorKind::ServiceTimeout, None),
        }
    }

    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Database(error) | Self::NotConnected(error) => match error.as_db_error() {
                Some(error) if is_missing(error.code()) => {
                    format!("{}; Postgres::migrate makes the tables", error.message())
                }
                Some(error) => error.message().to_owned(),
                None => with_causes(error),
            },
            Self::Pool(PoolError::Timeout(_)) => "no connection was free, or could be opened, in time".into(),
            Self::Pool(error) => error.to_string(),
            Self::TooLate(error) => error.to_string(),
        }
    }
}

/// Returns the texts of an error and of its causes: the driver's own text has none of them.
fn with_causes(error: &dyn error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// Whether resources are short, or the server cannot read or write its files.
fn is_short(state: &str) -> bool {
    state.starts_with("53") || state.starts_with("58")
}

fn is_missing(state: &SqlState) -> bool {
    [&SqlState::UNDEFINED_TABLE, &SqlState::UNDEFINED_FUNCTION, &SqlState::INVALID_SCHEMA_NAME].contains(&state)
}

/// The states that begin with `CN` are those of the functions of the schema.
fn of_error(error: &DbError) -> (ErrorKind, Option<bool>) {
    let kind = match error.code().code() {
        "CN404" => ErrorKind::EntityNotFound,
        "CN409" => ErrorKind::InvalidOperation,
        "CN410" => ErrorKind::MessageNotFound,
        "CN411" => ErrorKind::SessionLockLost,
        "CN412" => ErrorKind::SessionCannotBeLocked,
        "CN413" => ErrorKind::MessageSizeExceeded,
        "CN423" => ErrorKind::EntityDisabled,
        "CN430" => ErrorKind::Transaction,
        // PostgreSQL has ended a deadlock or a conflict, a lock took too long, or resources were short. Nothing was done, and
        // the next attempt may succeed.
        "40001" | "40P01" | "55P03" => ErrorKind::ServiceBusy,
        code if code.starts_with("53") => ErrorKind::ServiceBusy,
        _ if ends_connection(error) => ErrorKind::CommunicationProblem,
        code if is_short(code) => ErrorKind::ServiceBusy,
        "57014" => ErrorKind::ServiceTimeout,
        "23505" => ErrorKind::AlreadyExists,
        "42501" => ErrorKind::Unauthorized,
        code if code.starts_with("28") => ErrorKind::Unauthorized,
        _ => return (ErrorKind::General, Some(false)),
    };
    (kind, None)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Self::NotConnected(error)
            }
            error => Self::Pool(error),
        }
    }
}

impl From<Failure> for std::io::Error {
    fn from(failure: Failure) -> Self {
        Self::other(failure.detail())
    }
}

macro_rules! into_operation_error {
    ($($error:ident $(, $state:literal is $own:expr)?;)*) => {$(
        impl From<Failure> for $error {
            fn from(failure: Failure) -> Self {
                $(if failure.state() == Some($state) {
                    return $own;
                })?
                let (kind, retryable) = failure.kind();
                let error = Self::new(kind).with_detail(failure.detail());
                let error = match retryable {
                    Some(retryable) => error.with_retryable(retryable),
                    None => error,
                };
                match failure {
                    Failure::Database(source) | Failure::NotConnected(source) => error.with_source(source),
                    Failure::Pool(source) => error.with_source(source),
                    Failure::TooLate(source) => error.with_source(source),
                }
            }
        }
    )*};
}

into_operation_error! {
    // `send.sql` uses it for nothing else.
    SendError, "CN409" is SendError::session_required();
    ReceiveError;
    SettleError;
    ManageError;
}

/// Converts the error of a lookup into that of a send.
pub(crate) fn send_error(error: ManageError) -> SendError {
    let detail = error.description().unwrap_or_default().to_owned();
    SendError::new(error.kind()).with_detail(detail).with_retryable(error.is_retryable()).with_source(error)
}

/// Converts the error of a lookup into that of a receive.
pub(crate) fn receive_error(error: ManageError) -> ReceiveError {
    let detail = error.description().unwrap_or_default().to_owned();
    ReceiveError::new(error.kind()).with_detail(detail).with_retryable(error.is_retryable()).with_source(error)
}
