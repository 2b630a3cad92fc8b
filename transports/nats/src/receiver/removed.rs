//! The messages of a receiver that the server has removed before they are dispatched.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many messages were acknowledged, and not returned by a receive. An acknowledgement without an answer counts, because the
/// server may have it.
#[derive(Clone, Default)]
pub(super) struct Removed(Arc<AtomicUsize>);

impl Removed {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, messages: usize) {
        self.0.fetch_sub(messages, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
