//! The messages that were delivered over HTTP and are locked.

use std::collections::HashMap;

use consign_core::{
    Message,
    message::{LockToken, SequenceNumber},
    time::Timestamp,
};
use parking_lot::Mutex;

/// The names of the messages, by lock token: a client settles by a name and the token.
#[derive(Default)]
pub(super) struct Delivered(Mutex<State>);

#[derive(Default)]
struct State {
    names: HashMap<LockToken, Names>,
    /// The number at which those that have run out are removed.
    prune_at: usize,
}

struct Names {
    sequence_number: SequenceNumber,
    message_id: Box<str>,
    until: Timestamp,
}

/// The least number at which names are removed.
const MIN_PRUNE: usize = 64;

impl Delivered {
    pub(super) fn insert(&self, token: LockToken, message: &Message, until: Timestamp, now: Timestamp) {
        let sequence_number = message.received().map(|received| received.sequence_number).unwrap_or_default();
        let names = Names { sequence_number, message_id: message.message_id().unwrap_or_default().into(), until };
        let mut state = self.0.lock();
        if state.names.len() >= state.prune_at.max(MIN_PRUNE) {
            state.names.retain(|_, names| names.until > now);
            state.prune_at = state.names.len() * 2;
        }
        state.names.insert(token, names);
    }

    /// Returns whether the message of a lock has a name. It has any if it was delivered over AMQP.
    pub(super) fn has(&self, token: LockToken, name: &str) -> bool {
        let state = self.0.lock();
        state.names.get(&token).is_none_or(|names| {
            *names.message_id == *name
                || name.parse().is_ok_and(|number| names.sequence_number == SequenceNumber::new(number))
        })
    }

    pub(super) fn renew(&self, token: LockToken, until: Timestamp) {
        if let Some(names) = self.0.lock().names.get_mut(&token) {
            names.until = until;
        }
    }

    pub(super) fn remove(&self, token: LockToken) {
        self.0.lock().names.remove(&token);
    }
}
