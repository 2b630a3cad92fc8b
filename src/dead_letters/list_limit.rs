use std::{error, fmt};

use super::Explained;
use crate::transport::{ErrorKind, ReceiveError};

/// A list on a transport without peek that has ended before its end: the source of the error of
/// [`DeadLetters::list`](super::DeadLetters::list).
#[derive(Debug)]
pub struct ListLimit {
    found: Vec<Explained>,
}

impl ListLimit {
    /// Most dead letters that are locked for a list: 16,384. Those that do not pass its filter are among them.
    pub const MAX: usize = 16_384;

    /// Returns the limit that is the source of an error.
    #[must_use]
    pub fn of(error: &ReceiveError) -> Option<&Self> {
        error::Error::source(error)?.downcast_ref()
    }

    /// Returns the dead letters that were found before the limit.
    #[must_use]
    pub fn found(&self) -> &[Explained] {
        &self.found
    }

    pub(super) fn error(found: Vec<Explained>) -> ReceiveError {
        let limit = Self { found };
        ReceiveError::new(ErrorKind::NotSupported).with_detail(limit.to_string()).with_source(limit)
    }
}

impl fmt::Display for ListLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there are more than {} dead letters, and a transport without peek lists no more", Self::MAX)
    }
}

impl error::Error for ListLimit {}
