use std::{error, fmt, io, time::Duration};

use crate::{
    engine::{CommandError, Reason},
    types::{self, SaslCode},
    value::Symbol,
};

/// Why a call of a client failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The host could not be reached.
    Connect(io::Error),
    /// The call took longer than [`Options::timeout`](super::Options::timeout).
    TimedOut {
        /// What it was waiting for.
        waiting_for: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The connection is closed.
    Closed(Reason),
    /// The session has ended.
    Ended(Reason),
    /// The link is detached.
    Detached(Reason),
    /// The engine refused the command, and nothing was sent.
    Command(CommandError),
}

impl Error {
    /// Returns the error that the peer has reported, if it has.
    #[must_use]
    pub fn reported(&self) -> Option<&types::Error> {
        match self {
            Self::Closed(reason) | Self::Ended(reason) | Self::Detached(reason) => match reason {
                Reason::Local(error) | Reason::Peer(error) => error.as_deref(),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the condition that the peer has reported, such as `amqp:not-found`.
    #[must_use]
    pub fn condition(&self) -> Option<&Symbol> {
        self.reported().map(|error| &error.condition)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, reason) = match self {
            Self::Connect(_) => return f.write_str("cannot connect"),
            Self::TimedOut { waiting_for, after } => return write!(f, "no {waiting_for} within {after:?}"),
            Self::Command(error) => return write!(f, "the command was refused: {error}"),
            Self::Closed(reason) => ("the connection is closed", reason),
            Self::Ended(reason) => ("the session has ended", reason),
            Self::Detached(reason) => ("the link is detached", reason),
        };
        f.write_str(what)?;
        match reason {
            Reason::Local(None) => f.write_str(" by this end"),
            Reason::Peer(None) => f.write_str(" by the peer"),
            Reason::Local(Some(error)) | Reason::Peer(Some(error)) => {
                write!(f, " by the peer: {}", error.condition)?;
                error.description.as_ref().map_or(Ok(()), |description| write!(f, " ({description})"))
            }
            Reason::Violation(violation) => write!(f, ": {violation}"),
            Reason::SaslRefused(code) => write!(f, ": {}", refusal(*code)),
            Reason::Disconnected => f.write_str(": the stream ended without a close"),
        }
    }
}

/// What a server has reported by a SASL code.
const fn refusal(code: SaslCode) -> &'static str {
    match code {
        SaslCode::Ok | SaslCode::Auth => "the server refused the credentials",
        SaslCode::Sys => "the server could not check the credentials: a system error",
        SaslCode::SysPerm => {
            "the server could not check the credentials: a system error that needs a change at the server"
        }
        SaslCode::SysTemp => "the server could not check the credentials: a transient system error",
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Command(error) => Some(error),
            Self::Closed(Reason::Violation(violation))
            | Self::Ended(Reason::Violation(violation))
            | Self::Detached(Reason::Violation(violation)) => Some(&**violation),
            _ => None,
        }
    }
}

impl From<CommandError> for Error {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_command_has_its_cause() {
        let refused = |error| Error::from(error).to_string();
        let too_large = refused(CommandError::MessageTooLarge { max: 100 });
        assert_eq!(too_large, "the command was refused: the message is larger than 100 bytes");
        let too_many = refused(CommandError::TooManyLinks);
        assert_eq!(too_many, "the command was refused: no further link is accepted in the session");
    }
}
