use std::{error, fmt};

use super::{ErrorKind, SendError};

/// The entity requires sessions, and the message has no `SessionId`. Transports refuse such a message with it: it
/// converts into a [`SendError`] of the kind [`ErrorKind::InvalidOperation`], which
/// [reports it](SendError::is_session_required).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRequired;

impl fmt::Display for SessionRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the entity requires sessions and the message has no SessionId")
    }
}

impl error::Error for SessionRequired {}

impl From<SessionRequired> for SendError {
    #[cold]
    fn from(error: SessionRequired) -> Self {
        Self::new(ErrorKind::InvalidOperation).with_detail(error.to_string()).with_source(error)
    }
}

impl SendError {
    /// Returns whether the message was refused because its entity requires sessions and it has no `SessionId`.
    #[must_use]
    pub fn is_session_required(&self) -> bool {
        let mut source = error::Error::source(self);
        while let Some(error) = source {
            if error.is::<SessionRequired>() {
                return true;
            }
            source = error.source();
        }
        false
    }
}
