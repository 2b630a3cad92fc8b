//! Errors of the protocol as those of consign.

use std::{borrow::Cow, fmt, sync::Arc};

use consign_amqp::{
    client,
    engine::{CommandError, Reason, Violation},
    types::{self, SaslCode},
};
use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};

/// An error that any operation can return.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    detail: Cow<'static, str>,
    condition: Option<String>,
    source: Option<Arc<client::Error>>,
    retryable: Option<bool>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), condition: None, source: None, retryable: None }
    }

    /// The transport was closed by the application.
    pub(crate) fn closed() -> Self {
        let closed = Self::new(ErrorKind::CommunicationProblem, "the transport is closed");
        Self { retryable: Some(false), ..closed }
    }

    /// A failure after which calling again is useless.
    pub(crate) fn for_good(self) -> Self {
        Self { retryable: Some(false), ..self }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether this end has detached the link for a message over the limit of [`Options`](crate::Options::max_message_size). The
    /// broker would send the message again.
    pub(crate) fn is_over_limit(&self) -> bool {
        match self.source.as_deref() {
            Some(client::Error::Detached(Reason::Violation(violation))) => is_over_limit(violation),
            _ => false,
        }
    }

    /// Returns the failure of a call that has handed something to the broker: without an answer to it, its outcome is unknown,
    /// whatever ended the link.
    pub(crate) fn unanswered(error: client::Error) -> Self {
        let failure = Self::from(error);
        if failure.source.as_deref().is_some_and(has_ended) {
            return Self { kind: ErrorKind::CommunicationProblem, condition: None, ..failure };
        }
        failure
    }

    /// Returns the failure of a call that has handed nothing to the broker. What ended the link may be about another call: the next
    /// attach has the reason if it still applies.
    pub(crate) fn unsent(error: client::Error) -> Self {
        let failure = Self::from(error);
        if failure.source.as_deref().is_some_and(has_ended) {
            return Self { kind: ErrorKind::ServiceBusy, ..failure };
        }
        failure
    }

    /// Returns the failure that a broker gives for a message that it does not accept.
    pub(crate) fn rejected(error: Option<&types::Error>) -> Self {
        match error {
            None => Self::new(ErrorKind::General, "the broker rejected the message without a reason").for_good(),
            Some(error) => {
                let kind = kind_of(error);
                let failure = Self::new(kind, text(error));
                let failure = Self { condition: Some(error.condition.as_str().to_owned()), ..failure };
                // The same message would be rejected again, unless the condition says otherwise.
                if kind == ErrorKind::General { failure.for_good() } else { failure }
            }
        }
    }
}

fn text(error: &types::Error) -> String {
    match &error.description {
        Some(description) => format!("{}: {description}", error.condition),
        None => error.condition.to_string(),
    }
}

/// The kind of a condition that the broker has reported.
fn kind_of(error: &types::Error) -> ErrorKind {
    match error.condition.as_str() {
        "amqp:resource-deleted" => ErrorKind::EntityNotFound,
        "amqp:precondition-failed" | "amqp:illegal-state" | "amqp:resource-locked" => ErrorKind::InvalidOperation,
        "amqp:invalid-field" | "amqp:decode-error" => ErrorKind::InvalidArgument,
        condition => ErrorKind::from_condition(condition).unwrap_or(ErrorKind::General),
    }
}

fn kind(error: &client::Error) -> ErrorKind {
    match error {
        // Nothing was sent.
        client::Error::TimedOut { waiting_for: "credit", .. } => ErrorKind::ServiceBusy,
        client::Error::TimedOut { .. } => ErrorKind::ServiceTimeout,
        client::Error::Closed(Reason::SaslRefused(code)) => refusal(*code),
        client::Error::Closed(_) => match error.reported().map(kind_of) {
            Some(kind @ (ErrorKind::Unauthorized | ErrorKind::EntityNotFound)) => kind,
            _ => ErrorKind::CommunicationProblem,
        },
        client::Error::Detached(Reason::Violation(violation)) if is_over_limit(violation) => {
            ErrorKind::MessageSizeExceeded
        }
        client::Error::Ended(_) | client::Error::Detached(_) => {
            error.reported().map_or(ErrorKind::CommunicationProblem, kind_of)
        }
        client::Error::Command(CommandError::MessageTooLarge { .. }) => ErrorKind::MessageSizeExceeded,
        client::Error::Command(CommandError::FrameTooLarge { .. } | CommandError::TagTooLong) => {
            ErrorKind::InvalidArgument
        }
        client::Error::Command(CommandError::Encode(_)) => ErrorKind::Serialization,
        client::Error::Command(CommandError::TooManySessions | CommandError::TooManyLinks) => ErrorKind::Throttled,
        _ => ErrorKind::CommunicationProblem,
    }
}

/// The kind of a SASL code. The credentials were not checked unless the code is about them.
fn refusal(code: SaslCode) -> ErrorKind {
    match code {
        SaslCode::Ok | SaslCode::Auth => ErrorKind::Unauthorized,
        SaslCode::Sys | SaslCode::SysTemp => ErrorKind::CommunicationProblem,
        SaslCode::SysPerm => ErrorKind::InvalidOperation,
    }
}

/// Whether the peer has sent a message that is larger than [`Options::max_message_size`](crate::Options::max_message_size).
fn is_over_limit(violation: &Violation) -> bool {
    matches!(violation, Violation::MessageSize { .. })
}

/// Whether the link, the session or the connection has ended, or this end has begun to end it.
pub(crate) fn has_ended(error: &client::Error) -> bool {
    use CommandError::{Closed, UnknownLink, UnknownSession};

    match error {
        client::Error::Closed(_) | client::Error::Ended(_) | client::Error::Detached(_) => true,
        client::Error::Command(error) => matches!(error, Closed | UnknownLink | UnknownSession),
        _ => false,
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let condition = error.condition().map(|condition| condition.as_str().to_owned());
        let failure = Self::new(kind(&error), error.to_string());
        Self { condition, source: Some(Arc::new(error)), ..failure }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

macro_rules! from_failure {
    ($($error:ident),*) => {$(
        impl From<Failure> for $error {
            fn from(failure: Failure) -> Self {
                let mut error = Self::new(failure.kind).with_detail(failure.detail);
                if let Some(condition) = failure.condition {
                    error = error.with_condition(condition);
                }
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
