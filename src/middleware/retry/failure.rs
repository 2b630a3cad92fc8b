use std::{fmt, time::Duration};

use tower::BoxError;

use crate::{
    Disposition,
    middleware::{expiry::LockExpired, lock_renewal::LockLost},
    settlement::{Changes, Undecodable, cause_of},
};

/// An answer of a handler after which the message would be abandoned.
#[doc(hidden)]
#[derive(Debug)]
pub enum HandlerFailure {
    Abandon(Changes),
    Error(BoxError),
}

impl HandlerFailure {
    /// Whether a further attempt has any sense, whatever the user says.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Abandon(_) => true,
            Self::Error(error) => is_transient(error),
        }
    }

    /// How long the handler wants the message not to be delivered. Zero if it does not say.
    pub(super) fn asked_delay(&self) -> Duration {
        self.changes().delay().unwrap_or(Duration::ZERO)
    }

    pub(super) fn changes(&self) -> &Changes {
        match self {
            Self::Abandon(changes) => changes,
            Self::Error(_) => &Changes::NONE,
        }
    }

    /// The message is abandoned so that it is delivered again after `delay`.
    pub(super) fn into_delayed(self, delay: Duration) -> Disposition {
        Disposition::Abandon(self.to_changes().after(delay))
    }

    /// The changes of the failure, with its cause.
    pub(super) fn to_changes(&self) -> Changes {
        match self {
            Self::Abandon(changes) => changes.clone(),
            Self::Error(error) => Changes::because(cause_of(&**error)),
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

/// Whether a further attempt may succeed, unless the user knows better.
#[cold]
pub(in crate::middleware) fn is_transient(error: &BoxError) -> bool {
    !error.is::<Undecodable>() && !error.is::<LockLost>() && !error.is::<LockExpired>()
}

/// Why an attempt failed.
pub(super) struct Cause<'f>(pub(super) &'f HandlerFailure);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            HandlerFailure::Abandon(changes) => {
                f.write_str(changes.cause().unwrap_or("the handler abandoned the message"))
            }
            HandlerFailure::Error(error) => f.write_str(&cause_of(&**error)),
        }
    }
}
