use std::{error, fmt};

use tower::BoxError;

use crate::transport::{ErrorKind, ReceiveError};

/// The error of a consumer that stopped. The messages that it had received are settled or released.
#[derive(Debug)]
pub struct ConsumeError(Cause);

#[derive(Debug)]
enum Cause {
    Receive(ReceiveError),
    Service(BoxError),
}

/// Which side failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumeErrorKind {
    /// The receiver failed in a way that does not pass.
    Receive,
    /// The stack answered its readiness with an error, which it does not recover from.
    Service,
}

impl ConsumeError {
    pub(super) fn receive(error: ReceiveError) -> Self {
        Self(Cause::Receive(error))
    }

    pub(super) fn service(error: BoxError) -> Self {
        Self(Cause::Service(error))
    }

    /// Whether the session that was received from is not this consumer's any more.
    pub(super) fn is_session_lost(&self) -> bool {
        matches!(&self.0, Cause::Receive(error) if error.kind() == ErrorKind::SessionLockLost)
    }

    /// Returns which side failed.
    #[must_use]
    pub fn kind(&self) -> ConsumeErrorKind {
        match self.0 {
            Cause::Receive(_) => ConsumeErrorKind::Receive,
            Cause::Service(_) => ConsumeErrorKind::Service,
        }
    }
}

impl fmt::Display for ConsumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Cause::Receive(_) => "the consumer stopped because its receiver failed",
            Cause::Service(_) => "the consumer stopped because its stack failed to become ready",
        })
    }
}

impl error::Error for ConsumeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(match &self.0 {
            Cause::Receive(error) => error,
            Cause::Service(error) => &**error,
        })
    }
}
