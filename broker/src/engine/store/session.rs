use bytes::Bytes;
use consign_core::{administration::QueueSettings, time::Timestamp};

use super::{Ticks, locks::Locks};

/// One session: it exists while it has a message, a state or a holder.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Box<str>,
    pub(super) state: Option<Bytes>,
    /// When the state was set last.
    pub(super) updated: Timestamp,
    /// Messages in any place but scheduled.
    pub(super) messages: usize,
    /// The number of the holder's lock, or 0.
    pub(super) lock: u64,
    pub(super) until: Ticks,
    pub(super) locks: Locks,
    /// Its place among the sessions that are available.
    pub(super) listed: Option<u64>,
}

impl Session {
    /// Creates a session that is empty.
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            state: None,
            updated: Timestamp::from_millis(0),
            messages: 0,
            lock: 0,
            until: 0,
            locks: Locks::default(),
            listed: None,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// Returns the size of the state of a session. Even an empty one keeps its session.
pub(super) fn size_of_state(state: Option<&Bytes>) -> u64 {
    state.map_or(0, |it| it.len() as u64 + QueueSettings::OVERHEAD)
}
