use std::{fmt, sync::Arc};

use super::InteropError;
use crate::{
    Message,
    dead_letters::RESUBMIT_COUNT,
    time::{Clock, SystemClock, Timestamp},
};

/// Holds back what has expired by its sender's word.
#[derive(Clone)]
pub(super) struct Deadline {
    clock: Arc<dyn Clock>,
}

impl Deadline {
    pub(super) fn new(clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock) }
    }

    /// The message, which expires no later than `at`. Nothing expires in a dead-letter sub-queue, or after it was resubmitted.
    pub(super) fn check(&self, message: Message, at: Timestamp) -> Result<Message, InteropError> {
        let received = message.received().copied();
        if received.is_some_and(|received| received.dead_lettered)
            || message.application_properties().get(RESUBMIT_COUNT).is_some()
        {
            return Ok(message);
        }
        if at <= self.clock.now().utc {
            return Err(InteropError::Expired);
        }
        match received {
            Some(mut received) if at < received.expires_at => {
                received.expires_at = at;
                Ok(message.with_received(received))
            }
            _ => Ok(message),
        }
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::new(SystemClock::new())
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").finish_non_exhaustive()
    }
}
