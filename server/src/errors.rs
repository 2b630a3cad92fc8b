//! Errors of the broker as errors of AMQP 1.0.

use std::borrow::Cow;

use consign_amqp::{
    codec::EncodeError,
    mapping::{MappingError, MappingErrorKind},
    types::{DeliveryState, Error, Rejected, condition},
    value::{Str, Symbol},
};
use consign_broker::TransactionError;
use consign_core::transport::{ErrorKind, ManageError, ReceiveError, SendError, SettleError};

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
        Self::new(ErrorKind::EntityNotFound, format!("The messaging entity '{path}' could not be found."))
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

fn described(kind: ErrorKind, description: Option<&str>, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(kind, description.map_or_else(|| error.to_string(), str::to_owned))
}

macro_rules! from_operation_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                described(error.kind(), error.description(), &error)
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
}
