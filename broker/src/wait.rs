use std::{
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    engine::{Engine, Line, Now},
    shared::Shared,
};

/// One place in a line of receivers that wait for something of an entity.
///
/// It may have to make the broker's timer for the next event that is due. It is therefore polled in a tokio runtime with
/// time enabled.
pub(super) struct Wait {
    pub(super) shared: Arc<Shared>,
    line: Line,
    /// New with each wait.
    id: u64,
    /// Whether it was in the line when it was last polled.
    waiting: bool,
}

enum Outcome<T> {
    Done(T),
    Waits { id: u64, makes_timer: bool },
}

impl Wait {
    pub(super) fn new(shared: Arc<Shared>, line: Line) -> Self {
        Self { shared, line, id: 0, waiting: false }
    }

    /// Is ready with the result of `attempt`, or waits until there may be one.
    #[inline]
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&mut Engine, Now) -> Option<T>,
    ) -> Poll<T> {
        let now = self.shared.now();
        let (line, id, waiting) = (self.line, self.id, self.waiting);
        let (outcome, waker) = self.shared.with(|state| {
            if let Some(found) = attempt(&mut state.engine, now) {
                if !waiting {
                    return (Outcome::Done(found), None);
                }
                state.engine.end_waiting(now, line.store());
                return (Outcome::Done(found), state.waiters.leave(line, id));
            }
            let id = if waiting { id } else { state.waiters.new_id() };
            if !waiting {
                state.engine.begin_waiting(line.store());
            }
            let replaced = state.waiters.wait(line, id, cx.waker());
            (Outcome::Waits { id, makes_timer: state.waiters.makes_timer(state.engine.next_deadline()) }, replaced)
        });
        // Not under the lock: the last clone of a waker may own a delivery, which settles when it is dropped.
        drop(waker);
        match outcome {
            Outcome::Done(found) => {
                self.waiting = false;
                Poll::Ready(found)
            }
            Outcome::Waits { id, makes_timer } => {
                (self.waiting, self.id) = (true, id);
                if makes_timer {
                    self.shared.make_timer();
                } else if !self.shared.follows_tokio() {
                    // Its clock may have moved otherwise than the timer's.
                    self.shared.set_timer();
                }
                Poll::Pending
            }
        }
    }

    /// Leaves the line. If it had been woken, and there is more, the next is woken in its place.
    pub(super) fn stop(&mut self, has_more: impl FnOnce(&Engine) -> bool) {
        if !std::mem::take(&mut self.waiting) {
            return;
        }
        let (line, id) = (self.line, self.id);
        let now = self.shared.now();
        let waker = self.shared.with(|state| {
            state.engine.end_waiting(now, line.store());
            let waker = state.waiters.leave(line, id);
            if waker.is_none() && has_more(&state.engine) {
                state.waiters.owe(line, 1);
            }
            waker
        });
        drop(waker);
    }
}
