use std::{error, fmt};

use tower::BoxError;

use crate::transport::{ErrorKind, ReceiveError};

/// The error of a consumer that stopped. The messages that it had received are settled or released.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsumeError {
    /// The receiver failed in a way that does not pass.
    Receive(ReceiveError),
    /// The stack answered its readiness with an error, which it does not recover from.
    Service(BoxError),
}

impl ConsumeError {
    /// Whether the session that was received from is not this consumer's any more.
    pub(super) fn is_session_lost(&self) -> bool {
        matches!(self, Self::Receive(error) if error.kind() == ErrorKind::SessionLockLost)
    }
}

impl fmt::Display for ConsumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Receive(_) => "the consumer stopped because its receiver failed",
            Self::Service(_) => "the consumer stopped because its stack failed to become ready",
        })
    }
}

impl error::Error for ConsumeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(match self {
            Self::Receive(error) => error,
            Self::Service(error) => &**error,
        })
    }
}
