//! Errors of the protocol as those of consign.

use std::{borrow::Cow, error, fmt, sync::Arc};

use consign_amqp::{
    client, codec,
    engine::{CommandError, Reason, Violation},
    mapping::MappingError,
    types::{self, SaslCode},
};
use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};

use crate::CredentialError;

/// An error that any operation can return.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    detail: Cow<'static, str>,
    condition: Option<String>,
    source: Option<Arc<dyn error::Error + Send + Sync>>,
    /// Whether the link, the session or the connection has ended.
    has_ended: bool,
    retryable: Option<bool>,
    /// Whether it is certain that the call had no effect, whatever the kind says.
    had_no_effect: bool,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            condition: None,
            source: None,
            has_ended: false,
            retryable: None,
            had_no_effect: false,
        }
    }

    /// The transport was closed by the application.
    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::CommunicationProblem, "the transport is closed").for_good()
    }

    /// A link ended before its peer has answered.
    pub(crate) fn no_answer() -> Self {
        let detail = "the link ended before the server has answered";
        Self { has_ended: true, ..Self::new(ErrorKind::CommunicationProblem, detail) }
    }

    /// A failure after which calling again is useless.
    pub(crate) fn for_good(self) -> Self {
        Self { retryable: Some(false), ..self }
    }

    /// A failure before anything was handed to the server.
    pub(crate) fn without_effect(self) -> Self {
        Self { had_no_effect: true, ..self }
    }

    /// Whether the call certainly had no effect.
    pub(crate) fn had_no_effect(&self) -> bool {
        self.had_no_effect || !self.kind.is_outcome_unknown()
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the session has ended, with an error of the server or without one.
    pub(crate) fn is_end_of_session(&self) -> bool {
        matches!(self.client_error(), Some(client::Error::Ended(_)))
    }

    /// Whether this end has detached the link for a message over the limit of [`Options`](crate::Options::max_message_size). The
    /// server would send the message again.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.client_error().is_some_and(is_over_limit)
    }

    fn client_error(&self) -> Option<&client::Error> {
        self.source.as_deref().and_then(|source| source.downcast_ref())
    }

    pub(crate) fn condition(&self) -> Option<&str> {
        self.condition.as_deref()
    }

    /// Whether the same call may succeed later.
    pub(crate) fn is_retryable(&self) -> bool {
        self.retryable.unwrap_or(self.kind.is_transient())
    }

    /// Returns the failure of a call that has handed something to the server: without an answer to it, its outcome is unknown,
    /// whatever ended the link.
    pub(crate) fn unanswered(error: client::Error) -> Self {
        let failure = Self::from(error);
        if failure.has_ended {
            return Self { kind: ErrorKind::CommunicationProblem, condition: None, ..failure };
        }
        failure
    }

    /// Returns the failure of a call that has handed nothing to the server. What ended the link, such as a message that is too
    /// large, may be about another call: the next attach has the reason if it still applies.
    pub(crate) fn unsent(error: client::Error) -> Self {
        let failure = Self::from(error).without_effect();
        if failure.has_ended && !failure.is_retryable() {
            return Self { kind: ErrorKind::CommunicationProblem, condition: None, ..failure };
        }
        failure
    }

    /// Returns the failure of a delivery that the server has rejected.
    pub(crate) fn rejected(error: Option<&types::Error>) -> Self {
        let Some(error) = error else {
            return Self::new(ErrorKind::General, "the server rejected the message without a reason").for_good();
        };
        Self::reported(error.condition.as_str(), error.description.as_ref().map(consign_amqp::value::Str::as_str))
    }

    /// Returns the failure of a condition that the server has reported.
    pub(crate) fn reported(condition: &str, description: Option<&str>) -> Self {
        let kind = kind_of(condition);
        let detail = match description {
            Some(description) if !description.is_empty() => description.to_owned(),
            _ => condition.to_owned(),
        };
        let failure = Self { condition: Some(condition.to_owned()), ..Self::new(kind, detail) };
        // The same message would be rejected again, unless the condition says otherwise.
        let is_known = ErrorKind::from_condition(condition).is_some();
        if kind == ErrorKind::General && !is_known { failure.for_good() } else { failure }
    }

    /// Returns the failure of an answer with a status.
    pub(crate) fn answered(status: i64, condition: Option<&str>, description: Option<&str>) -> Self {
        if let Some(condition) = condition {
            return Self::reported(condition, description);
        }
        let kind = u16::try_from(status).map_or(ErrorKind::General, ErrorKind::from_status);
        let text = description.filter(|text| !text.is_empty());
        Self::new(kind, text.map_or_else(|| format!("the server answered with the status {status}"), str::to_owned))
    }
}

/// The kind of a condition that the server has reported.
fn kind_of(condition: &str) -> ErrorKind {
    match condition {
        "amqp:resource-deleted" => ErrorKind::EntityNotFound,
        "amqp:precondition-failed" | "amqp:illegal-state" | "amqp:resource-locked" => ErrorKind::InvalidOperation,
        "amqp:invalid-field" | "amqp:decode-error" => ErrorKind::InvalidArgument,
        condition => ErrorKind::from_condition(condition).unwrap_or(ErrorKind::General),
    }
}

fn kind(error: &client::Error) -> ErrorKind {
    let reported = || error.condition().map(|condition| kind_of(condition.as_str()));
    match error {
        // Nothing was sent.
        client::Error::TimedOut { waiting_for: "credit", .. } => ErrorKind::ServiceBusy,
        client::Error::TimedOut { .. } => ErrorKind::ServiceTimeout,
        client::Error::Closed(Reason::SaslRefused(code)) => refusal(*code),
        client::Error::Closed(_) => match reported() {
            Some(kind @ (ErrorKind::Unauthorized | ErrorKind::EntityNotFound | ErrorKind::ServiceBusy)) => kind,
            // Too many connections: another attempt may succeed.
            Some(ErrorKind::QuotaExceeded) => ErrorKind::ServiceBusy,
            _ => ErrorKind::CommunicationProblem,
        },
        error if is_over_limit(error) => ErrorKind::MessageSizeExceeded,
        client::Error::Ended(_) | client::Error::Detached(_) => reported().unwrap_or(ErrorKind::CommunicationProblem),
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

/// Whether the server has sent a message that is larger than [`Options::max_message_size`](crate::Options::max_message_size).
fn is_over_limit(error: &client::Error) -> bool {
    let client::Error::Detached(Reason::Violation(violation)) = error else { return false };
    matches!(**violation, Violation::MessageSize { .. })
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
        let reported = error.reported();
        let condition = reported.map(|error| error.condition.as_str().to_owned());
        let description = reported.and_then(|error| error.description.as_ref());
        let detail = description.map_or_else(|| error.to_string(), |text| text.as_str().to_owned());
        let failure = Self::new(kind(&error), detail);
        Self { condition, has_ended: has_ended(&error), source: Some(Arc::new(error)), ..failure }
    }
}

impl From<MappingError> for Failure {
    fn from(error: MappingError) -> Self {
        let failure = Self::new(ErrorKind::InvalidArgument, error.to_string());
        Self { source: Some(Arc::new(error)), ..failure }
    }
}

impl From<codec::EncodeError> for Failure {
    fn from(error: codec::EncodeError) -> Self {
        let failure = Self::new(ErrorKind::Serialization, "the message cannot be encoded");
        Self { source: Some(Arc::new(error)), ..failure }
    }
}

impl From<codec::DecodeError> for Failure {
    fn from(error: codec::DecodeError) -> Self {
        let failure = Self::new(ErrorKind::General, "the answer of the server cannot be decoded");
        Self { source: Some(Arc::new(error)), ..failure }.for_good()
    }
}

impl From<CredentialError> for Failure {
    fn from(error: CredentialError) -> Self {
        let kind = if error.is_temporary() { ErrorKind::ServiceBusy } else { ErrorKind::Unauthorized };
        let failure = Self::new(kind, error.to_string());
        Self { source: Some(Arc::new(error)), ..failure }
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

#[cfg(test)]
mod tests {
    use consign_amqp::{types::Error, value::Symbol};

    use super::*;

    fn detached(condition: &'static str) -> client::Error {
        let error = Error::new(Symbol::from_static(condition), "why");
        client::Error::Detached(Reason::Peer(Some(Box::new(error))))
    }

    #[test]
    fn a_condition_has_its_kind_and_says_whether_to_try_again() {
        for (condition, kind, retryable) in [
            ("amqp:not-found", ErrorKind::EntityNotFound, false),
            ("com.microsoft:server-busy", ErrorKind::ServiceBusy, true),
            ("amqp:link:detach-forced", ErrorKind::CommunicationProblem, true),
            ("com.microsoft:session-cannot-be-locked", ErrorKind::SessionCannotBeLocked, false),
            ("amqp:unauthorized-access", ErrorKind::Unauthorized, false),
            ("amqp:internal-error", ErrorKind::General, true),
            ("com.example:own", ErrorKind::General, true),
        ] {
            let failure = Failure::from(detached(condition));
            assert_eq!((failure.kind(), failure.is_retryable()), (kind, retryable), "{condition}");
            let error = SendError::from(failure);
            assert_eq!((error.condition(), error.description()), (Some(condition), Some("why")));
        }
        let failure = Failure::reported("com.example:own", Some("why"));
        assert_eq!((failure.kind(), failure.is_retryable()), (ErrorKind::General, false));
    }

    #[test]
    fn what_was_handed_over_and_not_answered_has_an_unknown_outcome() {
        let failure = Failure::unanswered(detached("amqp:link:detach-forced"));
        assert!(failure.has_ended() && SendError::from(failure).is_outcome_unknown());
        let failure = Failure::unanswered(detached("com.microsoft:server-busy"));
        assert_eq!((failure.kind(), failure.condition()), (ErrorKind::CommunicationProblem, None));
        // The condition is that of the link. An earlier transfer may have been accepted.
        for condition in ["amqp:link:message-size-exceeded", "amqp:not-found", "amqp:unauthorized-access"] {
            let failure = Failure::unanswered(detached(condition));
            assert!(!failure.had_no_effect(), "{condition}");
            let error = SendError::from(failure);
            assert!(error.is_outcome_unknown() && error.description() == Some("why"), "{condition}");
        }
        // The link ended before there was credit.
        for (condition, kind) in [
            ("com.microsoft:server-busy", ErrorKind::ServiceBusy),
            ("amqp:link:message-size-exceeded", ErrorKind::CommunicationProblem),
            ("amqp:unauthorized-access", ErrorKind::CommunicationProblem),
        ] {
            let failure = Failure::unsent(detached(condition));
            assert!(failure.had_no_effect() && failure.is_retryable() && failure.kind() == kind, "{condition}");
        }
        // Without credit nothing was sent.
        let after = std::time::Duration::from_secs(1);
        let failure = Failure::unanswered(client::Error::TimedOut { waiting_for: "credit", after });
        assert_eq!(failure.kind(), ErrorKind::ServiceBusy);
    }

    /// Rules: G-12.
    #[test]
    fn an_answer_without_a_condition_has_the_kind_of_its_status() {
        assert_eq!(Failure::answered(503, None, Some("busy")).kind(), ErrorKind::ServiceBusy);
        assert_eq!(Failure::answered(410, None, None).kind(), ErrorKind::MessageLockLost);
        assert_eq!(Failure::answered(-1, None, None).to_string(), "the server answered with the status -1");
        let lost = Failure::answered(410, Some("com.microsoft:session-lock-lost"), None);
        assert_eq!(lost.kind(), ErrorKind::SessionLockLost);
    }

    /// Rules: A-50.
    #[test]
    fn a_system_error_of_the_server_is_not_one_of_the_credentials() {
        for (code, kind, retryable) in [
            (SaslCode::Auth, ErrorKind::Unauthorized, false),
            (SaslCode::Sys, ErrorKind::CommunicationProblem, true),
            (SaslCode::SysPerm, ErrorKind::InvalidOperation, false),
            (SaslCode::SysTemp, ErrorKind::CommunicationProblem, true),
        ] {
            let failure = Failure::from(client::Error::Closed(Reason::SaslRefused(code)));
            assert_eq!((failure.kind(), failure.is_retryable()), (kind, retryable), "{code:?}");
            assert_eq!(failure.to_string().contains("refused the credentials"), code == SaslCode::Auth, "{failure}");
        }
    }

    #[test]
    fn a_refused_command_has_its_cause() {
        let failure = Failure::from(client::Error::Command(CommandError::TooManyLinks));
        assert_eq!(failure.to_string(), "the command was refused: no further link is accepted in the session");
    }
}
