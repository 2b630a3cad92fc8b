use std::{error, fmt};

use consign_core::wire;

use crate::durable::{StorageError, StorageErrorKind};

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(super) problem: Problem,
    /// The offset in the record where it was detected.
    pub(super) at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    UnknownVersion(u8),
    Truncated,
    Trailing,
    /// A part that is not valid.
    Invalid(&'static str),
}

impl From<wire::Malformed> for Malformed {
    fn from(error: wire::Malformed) -> Self {
        let problem = match error.problem() {
            wire::Problem::Truncated => Problem::Truncated,
            wire::Problem::Trailing => Problem::Trailing,
            wire::Problem::TooDeep => Problem::Invalid("depth of a value"),
            _ => Problem::Invalid(error.expected()),
        };
        Self { problem, at: error.at() }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            Problem::UnknownVersion(version) => write!(f, "version {version} of the record is unknown")?,
            Problem::Truncated => f.write_str("the record is truncated")?,
            Problem::Trailing => f.write_str("bytes follow the record")?,
            Problem::Invalid(what) => write!(f, "invalid {what}")?,
        }
        write!(f, " at byte {}", self.at)
    }
}

impl error::Error for Malformed {}

impl From<Malformed> for StorageError {
    fn from(malformed: Malformed) -> Self {
        let kind = match malformed.problem {
            Problem::UnknownVersion(_) => StorageErrorKind::NewerFormat,
            _ => StorageErrorKind::Corrupted,
        };
        Self::new(kind, malformed.to_string())
    }
}
