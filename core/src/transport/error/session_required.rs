use std::{error, fmt};

use super::{ErrorKind, SendError};

/// The source by which an error is recognized.
#[derive(Debug)]
struct SessionRequired;

impl fmt::Display for SessionRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the entity requires sessions and the message has no SessionId")
    }
}

impl error::Error for SessionRequired {}

impl SendError {
    /// Creates the error with which a transport refuses a message without a `SessionId` for an entity that requires sessions.
    /// Its kind is [`ErrorKind::InvalidOperation`].
    #[cold]
    #[must_use]
    pub fn session_required() -> Self {
        Self::new(ErrorKind::InvalidOperation).with_detail(SessionRequired.to_string()).with_source(SessionRequired)
    }

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
