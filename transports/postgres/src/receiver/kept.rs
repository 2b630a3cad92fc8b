//! The answers of receives that no caller waits for.

use std::sync::Arc;

use consign_core::transport::{BoxFuture, Lease};
use futures_util::future::join_all;
use parking_lot::Mutex;

use super::Deliveries;
use crate::{fetch::Locked, log};

/// The answer of a receive.
pub(super) struct Answer {
    pub(super) deliveries: Deliveries,
    /// Where the deliveries go if they are received and deleted, and no caller waits for them.
    pub(super) kept: Option<Arc<Kept>>,
}

impl Locked for Answer {
    fn give_back(self) -> BoxFuture<()> {
        let Some(kept) = self.kept else {
            // Each begins when it is called.
            let releases: Vec<_> = self.deliveries.into_iter().map(|delivery| delivery.lease.release()).collect();
            return Box::pin(async { drop(join_all(releases).await) });
        };
        kept.add(self.deliveries);
        Box::pin(std::future::ready(()))
    }
}

/// Messages that were received and deleted for a receive that was cancelled. They exist nowhere else, so the next receive
/// returns them.
pub(super) struct Kept {
    path: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    deliveries: Deliveries,
    /// Whether the receiver is dropped.
    is_closed: bool,
}

impl Kept {
    pub(super) fn new(path: String) -> Arc<Self> {
        Arc::new(Self { path, state: Mutex::default() })
    }

    fn add(&self, more: Deliveries) {
        let mut state = self.state.lock();
        if state.is_closed {
            log::lost(&self.path, more.len());
        } else {
            state.deliveries.extend(more);
        }
    }

    pub(super) fn take(&self) -> Deliveries {
        std::mem::take(&mut self.state.lock().deliveries)
    }

    /// Reports the messages that are lost with their receiver: these, `spare` others, and those that a call in flight receives.
    pub(super) fn close(&self, spare: usize) {
        let mut state = self.state.lock();
        state.is_closed = true;
        log::lost(&self.path, std::mem::take(&mut state.deliveries).len() + spare);
    }
}
