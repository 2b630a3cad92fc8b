//! The errors of settlements in a session.

use consign_core::transport::{ErrorKind, SettleError};

/// Returns the error of a settlement after the end of the session's lock.
pub(super) fn lost() -> SettleError {
    SettleError::new(ErrorKind::SessionLockLost)
}

/// Messages of a session have no locks of their own.
pub(super) fn of_session(error: SettleError) -> SettleError {
    match error.kind() {
        ErrorKind::MessageLockLost => SettleError::new(ErrorKind::SessionLockLost).with_source(error),
        _ => error,
    }
}
