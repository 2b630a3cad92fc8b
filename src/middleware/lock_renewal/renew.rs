use std::{error, fmt, future::Future};

use crate::{Message, transport::SettleError};

/// Renews the lock of a message: a closure `Fn(&Message) -> Future`, or your own type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not renew locks",
    note = "give a closure `Fn(&Message) -> impl Future<Output = Result<(), SettleError>>` whose future does not borrow the message, or implement `Renew`"
)]
pub trait Renew {
    /// The future of a renewal.
    type Future: Future<Output = Result<(), SettleError>>;

    /// Extends the lock to its full duration from now. A lock that is lost is an error of the kind
    /// [`MessageLockLost`](crate::transport::ErrorKind::MessageLockLost).
    fn renew(&self, message: &Message) -> Self::Future;
}

impl<F, Fut> Renew for F
where
    F: Fn(&Message) -> Fut,
    Fut: Future<Output = Result<(), SettleError>>,
{
    type Future = Fut;

    fn renew(&self, message: &Message) -> Fut {
        self(message)
    }
}

/// The lock of a message was lost while it was handled, and the handler was cancelled. The message will be, or has been,
/// delivered again.
#[derive(Debug)]
pub struct LockLost(Option<SettleError>);

impl LockLost {
    /// The lock ran out while a renewal was under way.
    pub(super) fn unanswered() -> Self {
        Self(None)
    }
}

impl From<SettleError> for LockLost {
    fn from(error: SettleError) -> Self {
        Self(Some(error))
    }
}

impl fmt::Display for LockLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock of the message was lost while it was handled")
    }
}

impl error::Error for LockLost {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.as_ref().map(|error| error as _)
    }
}
