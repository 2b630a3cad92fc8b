//! The limits of a consumer for requests of messages.

use std::time::Duration;

/// What one request may ask for: the server refuses more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    pub(crate) messages: usize,
    pub(crate) lasts: Duration,
}

impl RequestLimits {
    /// Those of the consumers of this transport.
    pub(crate) const NONE: Self = Self { messages: usize::MAX, lasts: Duration::MAX };

    /// Reads the settings of a consumer, where 0 is no limit.
    pub(crate) fn of(max_batch: i64, max_expires: Duration) -> Self {
        Self {
            messages: usize::try_from(max_batch).ok().filter(|max| *max > 0).unwrap_or(usize::MAX),
            lasts: if max_expires.is_zero() { Duration::MAX } else { max_expires },
        }
    }
}
