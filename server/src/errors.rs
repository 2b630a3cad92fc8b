//! Errors of the broker as errors of AMQP 1.0.

use std::borrow::Cow;

use consign_amqp::{
    codec::EncodeError,
    mapping::{MappingError, MappingErrorKind},
    types::{DeliveryState, Error, Rejected, condition},
    value::{Str, Symbol},
};
use consign_broker::TransactionError;
use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError},
};

/// Why a request of a client was refused: the condition, the status of an answer, and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) condition: Symbol,
    pub(crate) status: u16,
    pub(crate) description: Cow<'static, str>,
}

impl Failure {
    /// Creates a failure of a kind.
    pub(crate) fn new(kind: ErrorKind, description: impl Into<Cow<'static, str>>) -> Self {
        let condition = kind.condition().map_or(condition::INTERNAL_ERROR, Symbol::from_static);
        Self { condition, status: kind.status().unwrap_or(500), description: description.into() }
    }

    /// Creates a failure of an argument.
    pub(crate) fn argument(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, description)
    }

    /// Clients recognise the entity that does not exist by this text.
    pub(crate) fn no_entity(path: &str) -> Self {
        Self::new(ErrorKind::EntityNotFound, no_entity(path))
    }

    /// Creates the failure of a client that lacks a right.
    pub(crate) fn unauthorized(right: impl std::fmt::Display, path: &str) -> Self {
        let description =
            format!("Unauthorized access. '{right}' claim(s) are required to perform this operation on '{path}'.");
        Self::new(ErrorKind::Unauthorized, description)
    }

    /// Returns the error with all of its fields. Some clients wait forever if one is left out.
    pub(crate) fn error(self) -> Error {
        let description = match self.description {
            Cow::Borrowed(text) => Str::from_static(text),
            Cow::Owned(text) => Str::from(text),
        };
        Error { condition: self.condition, description: Some(description), info: None }
    }

    /// Returns the outcome of a delivery.
    pub(crate) fn rejected(self) -> DeliveryState {
        Rejected { error: Some(self.error()) }.into_state()
    }
}

/// An outcome as the state of a delivery.
pub(crate) trait IntoState {
    /// Converts it.
    fn into_state(self) -> DeliveryState;
}

impl IntoState for Rejected {
    fn into_state(self) -> DeliveryState {
        DeliveryState::Rejected(Box::new(self))
    }
}

/// Returns the text of an error of the broker, which reports little more than the path of an entity that is missing or disabled.
pub(crate) fn text(kind: ErrorKind, description: Option<&str>, error: &dyn std::fmt::Display) -> String {
    let Some(description) = description else { return error.to_string() };
    match (kind, entity_of(description)) {
        (ErrorKind::EntityNotFound, Some(path)) => no_entity(path),
        (ErrorKind::EntityDisabled, Some(path)) => format!("The entity '{path}' is disabled."),
        _ => description.to_owned(),
    }
}

fn no_entity(path: &str) -> String {
    format!("The messaging entity '{path}' could not be found.")
}

/// The entity that a description of the broker names: it is a path, or ends with the kind of the entity and its path.
fn entity_of(description: &str) -> Option<&str> {
    match description.strip_suffix('`') {
        Some(rest) => rest.rsplit_once(" `").map(|(_, path)| path),
        None => EntityPath::new(description).is_ok().then_some(description),
    }
}

macro_rules! from_operation_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.kind(), text(error.kind(), error.description(), &error))
            }
        }
    )*};
}

from_operation_errors!(SendError, ReceiveError, SettleError, ManageError);

impl From<MappingError> for Failure {
    fn from(error: MappingError) -> Self {
        let mut failure = Self::argument(error.to_string());
        if error.kind() == MappingErrorKind::Malformed {
            failure.condition = condition::DECODE_ERROR;
        }
        failure
    }
}

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Self {
        Self::argument(error.to_string())
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Self {
        let description = error.to_string();
        let mut failure = Self::new(error.kind(), description);
        if error.kind() == ErrorKind::Transaction {
            failure.condition = condition::TRANSACTION_TIMEOUT;
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_condition_and_the_status_of_its_kind() {
        let failure = Failure::from(SettleError::new(ErrorKind::MessageLockLost));
        assert_eq!((failure.condition.as_str(), failure.status), ("com.microsoft:message-lock-lost", 410));
        let failure = Failure::from(SendError::new(ErrorKind::General).with_detail("the disk failed"));
        assert_eq!((failure.condition.as_str(), failure.status), ("amqp:internal-error", 500));
        assert_eq!(failure.error().description, Some("the disk failed".into()));
    }

    #[test]
    fn the_text_of_a_missing_or_disabled_entity_is_a_sentence() {
        let text = |kind, detail: &'static str| Failure::from(SendError::new(kind).with_detail(detail)).description;
        for detail in ["a/b", "queue `a/b`", "a/b; queue `a/b`"] {
            assert_eq!(text(ErrorKind::EntityDisabled, detail), "The entity 'a/b' is disabled.");
            let missing = "The messaging entity 'a/b' could not be found.";
            assert_eq!(text(ErrorKind::EntityNotFound, detail), missing);
        }
        assert_eq!(text(ErrorKind::QuotaExceeded, "full; queue `a/b`"), "full; queue `a/b`");
    }
}
