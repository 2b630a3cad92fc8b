//! What keeps a slot open while a caller waits for it or looks at it.

use std::{collections::BTreeMap, sync::Arc};

use consign_core::transport::{ErrorKind, ReceiveError};
use tokio::time::Instant;

use super::{Holder, Slot, Stage};
use crate::error::Failure;

/// Keeps a slot open.
pub(in crate::session) struct Pin(Arc<Slot>);

impl Pin {
    /// Of a slot that has counted it.
    pub(super) fn new(slot: Arc<Slot>) -> Self {
        Self(slot)
    }

    pub(in crate::session) fn slot(&self) -> &Arc<Slot> {
        &self.0
    }

    /// Waits until the slot is open, and returns since when. Fails if it cannot be opened.
    pub(in crate::session) async fn ready(&self) -> Result<Instant, Failure> {
        let mut stage = self.0.stage.subscribe();
        let stage = stage.wait_for(|stage| !matches!(stage, Stage::Opening)).await;
        match stage.as_deref() {
            Ok(Stage::Open(since)) => Ok(*since),
            Ok(Stage::Failed(failure)) => Err(failure.clone()),
            _ => Err(Failure::new(ErrorKind::CommunicationProblem, "the connection of the session is lost")),
        }
    }

    /// Records that an accept has looked at the first messages: the slot is not kept for another one.
    pub(in crate::session) fn seen(&self) {
        self.0.state().unseen = None;
    }

    /// Locks a session, and returns the number of this hold of the slot.
    pub(in crate::session) fn lock(&self, id: &str) -> Result<u64, ReceiveError> {
        let slot = &self.0;
        let mut state = slot.state();
        if state.is_over {
            let detail = "the connection of the session is lost";
            return Err(ReceiveError::new(ErrorKind::CommunicationProblem).with_detail(detail));
        }
        state.last_hold += 1;
        let hold = state.last_hold;
        let lock = slot.source.settings.lock_duration;
        let line = state.lines.entry(id.to_owned()).or_default();
        if line.holder.is_some() {
            return Err(ReceiveError::new(ErrorKind::SessionCannotBeLocked));
        }
        line.holder = Some(Holder {
            hold,
            until: Instant::now() + lock,
            until_utc: slot.client.now().saturating_add(lock),
            delivered: BTreeMap::new(),
            waker: None,
        });
        state.holders += 1;
        drop(state);
        slot.changed.notify_one();
        Ok(hold)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pins -= 1;
        state.stay_unseen();
        drop(state);
        self.0.changed.notify_one();
    }
}
