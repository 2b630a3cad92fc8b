//! Errors of lapin as those of consign.

use std::{borrow::Cow, fmt, time::Duration};

use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};

/// An error that any operation can return.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    detail: Cow<'static, str>,
    source: Option<lapin::Error>,
    retryable: Option<bool>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), source: None, retryable: None }
    }

    pub(crate) fn late(what: &str, deadline: Duration) -> Self {
        Self::new(ErrorKind::ServiceTimeout, format!("{what}: no answer within {deadline:?}"))
    }

    /// A connection that this crate does not open again.
    pub(crate) fn gone(detail: &'static str) -> Self {
        Self { retryable: Some(false), ..Self::new(ErrorKind::CommunicationProblem, detail) }
    }

    /// Returns whether the server has refused a declaration because of its arguments.
    pub(crate) fn is_refused_declaration(&self) -> bool {
        self.kind == ErrorKind::InvalidOperation && self.source.is_some()
    }

    pub(crate) fn of_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl From<lapin::Error> for Failure {
    fn from(error: lapin::Error) -> Self {
        Self { kind: kind_of(&error), detail: error.to_string().into(), source: Some(error), retryable: None }
    }
}

fn kind_of(error: &lapin::Error) -> ErrorKind {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => {
            let text = error.get_message().as_str();
            match error.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => ErrorKind::EntityNotFound,
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) if text.contains("exclusive") => {
                    ErrorKind::SessionCannotBeLocked
                }
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => ErrorKind::Unauthorized,
                AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) if text.contains("message size") => {
                    ErrorKind::MessageSizeExceeded
                }
                AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) if text.contains("timeout") => {
                    ErrorKind::CommunicationProblem
                }
                // An exclusive queue of another connection: here, the lock of a slot.
                AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => ErrorKind::SessionCannotBeLocked,
                AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)
                | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => ErrorKind::InvalidOperation,
                AMQPErrorKind::Hard(AMQPHardError::RESOURCEERROR) => ErrorKind::ServiceBusy,
                AMQPErrorKind::Hard(AMQPHardError::NOTIMPLEMENTED) => ErrorKind::NotSupported,
                _ => ErrorKind::CommunicationProblem,
            }
        }
        lapin::ErrorKind::AuthProviderError(_) => ErrorKind::Unauthorized,
        lapin::ErrorKind::SerialisationError(_) => ErrorKind::Serialization,
        lapin::ErrorKind::ChannelsLimitReached => ErrorKind::Throttled,
        _ => ErrorKind::CommunicationProblem,
    }
}

macro_rules! from_failure {
    ($($error:ident),*) => {$(
        impl From<Failure> for $error {
            fn from(failure: Failure) -> Self {
                let mut error = Self::new(failure.kind).with_detail(failure.detail);
                if let Some(retryable) = failure.retryable {
                    error = error.with_retryable(retryable);
                }
                match failure.source {
                    Some(source) => error.with_source(source),
                    None => error,
                }
            }
        }
    )*};
}

from_failure!(SendError, ReceiveError, SettleError, ManageError);

/// Ends an operation of lapin at its deadline.
pub(crate) async fn within<T>(
    deadline: Duration,
    what: &str,
    operation: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(deadline, operation).await {
        Ok(result) => result.map_err(Failure::from),
        Err(_) => Err(Failure::late(what, deadline)),
    }
}
