use std::{
    sync::Arc,
    task::{Context, Poll},
};

use super::turns::{Ticket, Turns};

/// The place of one message among those of its key. Dropped, it lets the next one start.
pub(super) struct Place {
    turns: Arc<Turns>,
    key: Option<u64>,
    /// Until it is left.
    ticket: Option<Arc<Ticket>>,
}

impl Place {
    pub(super) fn take(turns: &Arc<Turns>, key: Option<u64>) -> Self {
        Self { turns: Arc::clone(turns), key, ticket: Some(turns.enter(key)) }
    }

    /// Waits until the message may start.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ticket) = &self.ticket else { return Poll::Pending };
        if ticket.may_run() {
            return Poll::Ready(());
        }
        ticket.waker.register(cx.waker());
        if ticket.may_run() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Lets the next one start.
    pub(super) fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.turns.leave(self.key, &ticket);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}
