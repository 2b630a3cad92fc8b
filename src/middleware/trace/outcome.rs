//! The outcome of a message as a code from a closed list, for spans and for the labels of counts. No text of a message
//! and no code of an application comes out of it.

use tower::BoxError;

use crate::{
    Disposition,
    middleware::{catch_panic::Panicked, expiry::LockExpired, lock_renewal::LockLost},
    settlement::{DeadLetterReason, Undecodable},
};

/// The code of every outcome without a code of its own.
pub const OTHER: &str = "_OTHER";

/// The name of a disposition: `complete`, `abandon`, `dead_letter` or `defer`; `hold` of a message that no handler has seen and
/// that a consumer keeps.
#[must_use]
pub fn name_of(disposition: &Disposition) -> &'static str {
    match disposition {
        Disposition::Complete => "complete",
        Disposition::Abandon(changes) if changes.is_hold() => "hold",
        Disposition::Abandon(_) => "abandon",
        Disposition::DeadLetter(_) => "dead_letter",
        Disposition::Defer(_) => "defer",
    }
}

/// Why a handler has failed by its disposition: `abandoned`, or the code of a dead letter. `None` if it has not.
#[must_use]
pub fn error_of(disposition: &Disposition) -> Option<&'static str> {
    match disposition {
        Disposition::Complete | Disposition::Defer(_) => None,
        Disposition::Abandon(changes) if changes.is_hold() => None,
        Disposition::Abandon(_) => Some("abandoned"),
        Disposition::DeadLetter(letter) => Some(code_of(&letter.reason)),
    }
}

/// The code of a reason. Those of an application, of which there may be any number, are [`OTHER`].
#[must_use]
pub fn code_of(reason: &DeadLetterReason) -> &'static str {
    reason.code().unwrap_or(OTHER)
}

/// The type of an error of a receiving stack: the code of an undecodable body, `Panicked`, `LockLost`, `LockExpired`,
/// `Timeout`, or [`OTHER`].
#[must_use]
pub fn error_type(error: &BoxError) -> &'static str {
    if let Some(undecodable) = error.downcast_ref::<Undecodable>() {
        code_of(&undecodable.reason())
    } else if error.is::<Panicked>() {
        "Panicked"
    } else if error.is::<LockLost>() {
        "LockLost"
    } else if error.is::<LockExpired>() {
        "LockExpired"
    } else if error.is::<tower::timeout::error::Elapsed>() {
        "Timeout"
    } else {
        OTHER
    }
}
