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

    /// Adds why a connection is blocked to the failure of an operation without an answer.
    pub(crate) fn because(self, blocked: Option<String>) -> Self {
        match blocked {
            Some(reason) if self.kind == ErrorKind::ServiceTimeout => {
                let detail = format!("{}; RabbitMQ has blocked the connection: {reason}", self.detail);
                Self { detail: detail.into(), ..self }
            }
            _ => self,
        }
    }

    /// The same for an operation that may be repeated: the server is busy.
    pub(crate) fn explained(self, blocked: Option<String>) -> Self {
        let is_blocked = blocked.is_some() && self.kind == ErrorKind::ServiceTimeout;
        let named = if self.detail.contains("has blocked the connection") { self } else { self.because(blocked) };
        if is_blocked { named.of_kind(ErrorKind::ServiceBusy) } else { named }
    }

    /// A connection that this crate does not open again.
    pub(crate) fn gone(detail: &'static str) -> Self {
        Self { retryable: Some(false), ..Self::new(ErrorKind::CommunicationProblem, detail) }
    }

    /// Returns whether the server has refused a declaration because of its arguments.
    pub(crate) fn is_refused_declaration(&self) -> bool {
        self.kind == ErrorKind::InvalidOperation && self.source.is_some() && !self.is_exclusive()
    }

    /// Returns whether another connection has the queue for itself.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.source.as_ref().is_some_and(is_exclusive)
    }

    /// Returns the failure to take a slot of sessions. Another client may have it.
    pub(crate) fn of_slot(self) -> Self {
        if self.is_exclusive() { self.of_kind(ErrorKind::SessionCannotBeLocked) } else { self }
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

fn is_exclusive(error: &lapin::Error) -> bool {
    let lapin::ErrorKind::ProtocolError(error) = error.kind() else { return false };
    match error.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED) => true,
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => error.get_message().as_str().contains("in exclusive use"),
        _ => false,
    }
}

fn kind_of(error: &lapin::Error) -> ErrorKind {
    let is_exclusive = is_exclusive(error);
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => {
            let text = error.get_message().as_str();
            match error.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => ErrorKind::EntityNotFound,
                // The queue of another consumer, which may end.
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) if is_exclusive => ErrorKind::ServiceBusy,
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => ErrorKind::Unauthorized,
                AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) if text.contains("message size") => {
                    ErrorKind::MessageSizeExceeded
                }
                AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) if text.contains("timeout") => {
                    ErrorKind::CommunicationProblem
                }
                // An exclusive queue of another connection.
                AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED | AMQPSoftError::PRECONDITIONFAILED)
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
