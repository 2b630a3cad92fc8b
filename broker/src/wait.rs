use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Sleep;

use super::{
    engine::{Engine, Line, Now, Ticks},
    shared::Shared,
};

/// One place in a line of receivers that wait for something of an entity.
///
/// While it waits it may have the broker's timer for the next event that is due. It is therefore polled in a tokio
/// runtime with time enabled.
pub(super) struct Wait {
    pub(super) shared: Arc<Shared>,
    line: Line,
    /// New with each wait.
    id: u64,
    /// Whether it was in the line when it was last polled.
    waiting: bool,
    timer: Option<Timer>,
}

/// A timer, and the instant of the broker's clock that it is set for.
struct Timer {
    at: Ticks,
    sleep: Pin<Box<Sleep>>,
}

enum Outcome<T> {
    Done(T),
    Until(Option<Ticks>, u64),
}

impl Wait {
    pub(super) fn new(shared: Arc<Shared>, line: Line) -> Self {
        Self { shared, line, id: 0, waiting: false, timer: None }
    }

    /// Is ready with the result of `attempt`, or waits until there may be one.
    #[inline]
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&mut Engine, Now) -> Option<T>,
    ) -> Poll<T> {
        loop {
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
                (Outcome::Until(state.waiters.needs_timer(id, state.engine.next_deadline()), id), replaced)
            });
            // Not under the lock: the last clone of a waker may own a delivery, which settles when it is dropped.
            drop(waker);
            match outcome {
                Outcome::Done(found) => {
                    self.waiting = false;
                    return Poll::Ready(found);
                }
                Outcome::Until(deadline, id) => {
                    (self.waiting, self.id) = (true, id);
                    if self.poll_timer(cx, deadline).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Pending until `deadline`; ready if that has passed meanwhile.
    fn poll_timer(&mut self, cx: &mut Context<'_>, deadline: Option<Ticks>) -> Poll<()> {
        let Some(deadline) = deadline else {
            self.timer = None;
            return Poll::Pending;
        };
        match &mut self.timer {
            // It is set for the right instant as long as no other clock may have moved.
            Some(timer) if timer.at == deadline && self.shared.follows_tokio() => timer.sleep.as_mut().poll(cx),
            _ => self.set_timer(cx, deadline),
        }
    }

    #[inline(never)]
    fn set_timer(&mut self, cx: &mut Context<'_>, deadline: Ticks) -> Poll<()> {
        // The time counts from now, not from the start of the attempt, which may have waited for the lock. tokio's
        // timers tick in milliseconds and round up.
        let wait = Duration::from_nanos(deadline.saturating_sub(self.shared.now().ticks));
        let timer = match &mut self.timer {
            Some(timer) => {
                timer.sleep.as_mut().reset(tokio::time::Instant::now() + wait);
                timer.at = deadline;
                timer
            }
            None => self.timer.insert(Timer { at: deadline, sleep: Box::pin(tokio::time::sleep(wait)) }),
        };
        timer.sleep.as_mut().poll(cx)
    }

    /// Leaves the line. If it had been woken, and there is more, the next is woken in its place.
    pub(super) fn stop(&mut self, has_more: impl FnOnce(&Engine) -> bool) {
        self.timer = None;
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
