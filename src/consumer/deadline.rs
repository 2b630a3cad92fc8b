use std::{future::Future, pin::Pin, task::Context};

use tokio::time::{Instant, Sleep};

/// One timer for the earliest thing that is due: a renewal, the end of a lock, of a batch's patience, or of a pause.
pub(super) struct Deadline {
    pub(super) next: Option<Instant>,
    set_for: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    pub(super) epoch: Instant,
}

impl Deadline {
    pub(super) fn new() -> Self {
        Self { next: None, set_for: None, timer: None, epoch: Instant::now() }
    }

    pub(super) fn include(&mut self, at: Instant) {
        if self.next.is_none_or(|next| at < next) {
            self.next = Some(at);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(next) = self.next else { return false };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
        if self.set_for != Some(next) {
            timer.as_mut().reset(next);
            self.set_for = Some(next);
        }
        let is_due = timer.as_mut().poll(cx).is_ready();
        if is_due {
            self.set_for = None;
        }
        is_due
    }
}
