use tower::BoxError;

use crate::{
    Disposition,
    middleware::{expiry::LockExpired, lock_renewal::LockLost},
    settlement::{Changes, Undecodable},
};

/// An answer of a handler after which the message would be abandoned.
pub(super) enum Failure {
    Abandon(Changes),
    Error(BoxError),
}

impl Failure {
    /// Whether a further attempt has any sense, whatever the user says.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Abandon(_) => true,
            Self::Error(error) => !error.is::<Undecodable>() && !error.is::<LockLost>() && !error.is::<LockExpired>(),
        }
    }

    /// The answer, as it was.
    pub(super) fn into_answer(self) -> Result<Disposition, BoxError> {
        match self {
            Self::Abandon(changes) => Ok(Disposition::Abandon(changes)),
            Self::Error(error) => Err(error),
        }
    }
}
