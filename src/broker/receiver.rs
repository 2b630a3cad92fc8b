use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Sleep;

use super::{Queue, engine::Ticks, lease::QueueLease};
use crate::{
    Message,
    message::SequenceNumber,
    transport::{Delivery, ReceiveError, Receiver},
};

/// How a receiver takes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveMode {
    /// A message is locked until it is settled or the lock runs out.
    #[default]
    PeekLock,
    /// A message is removed when it is delivered. Settling it is an invalid operation.
    ReceiveAndDelete,
}

/// Receives from a queue of the embedded broker, in the order of sequence numbers.
///
/// While it waits it keeps one timer for the next lock that runs out or message that expires, so it must be polled in a
/// tokio runtime with time enabled.
pub struct QueueReceiver {
    queue: Queue,
    mode: ReceiveMode,
    id: u64,
    /// Whether it stood in the line when it was last polled.
    waiting: bool,
    timer: Option<Pin<Box<Sleep>>>,
    /// Where the next peek begins.
    cursor: SequenceNumber,
}

enum Waiting {
    Received(usize),
    Until(Option<Ticks>, Ticks),
}

impl QueueReceiver {
    pub(super) fn new(queue: Queue, mode: ReceiveMode) -> Self {
        let id = queue.shared.with(|state| state.waiters(queue.part).new_id());
        Self { queue, mode, id, waiting: false, timer: None, cursor: SequenceNumber::new(1) }
    }

    /// How this receiver takes messages.
    #[must_use]
    pub fn mode(&self) -> ReceiveMode {
        self.mode
    }

    /// Looks at up to `max` messages as [`Queue::peek`] does, going on after the last one that this receiver looked at;
    /// the first time from sequence number 1.
    pub fn peek(&mut self, max: usize) -> Vec<Message> {
        let peeked = self.queue.peek(self.cursor, max);
        if let Some(last) = peeked.last().and_then(Message::received) {
            self.cursor = last.sequence_number.next();
        }
        peeked
    }

    fn take(&self, cx: &mut Context<'_>, max: usize, out: &mut Vec<Delivery<QueueLease>>) -> Waiting {
        let (shared, part) = (&self.queue.shared, self.queue.part);
        let now = shared.now();
        let (waiting, waker) = shared.with(|state| {
            let taken = match self.mode {
                ReceiveMode::PeekLock => {
                    state.engine.receive(now, part, max, |locked| out.push(QueueLease::deliver(shared, locked)))
                }
                ReceiveMode::ReceiveAndDelete => state.engine.receive_and_delete(now, part, max, |message| {
                    out.push(QueueLease::deliver_removed(shared, message));
                }),
            };
            if taken > 0 {
                let waker = if self.waiting { state.waiters(part).leave(self.id) } else { None };
                return (Waiting::Received(taken), waker);
            }
            let deadline = state.engine.next_deadline();
            let waiters = state.waiters(part);
            let replaced = waiters.wait(self.id, cx.waker());
            waiters.set_timer(self.id, deadline);
            (Waiting::Until(deadline, now.ticks), replaced)
        });
        // Not under the lock: the last clone of a waker may own a delivery, which settles when it is dropped.
        drop(waker);
        waiting
    }

    /// Pending until `deadline`; ready if that has passed meanwhile.
    fn poll_timer(&mut self, cx: &mut Context<'_>, deadline: Option<Ticks>, now: Ticks) -> Poll<()> {
        let Some(deadline) = deadline else {
            self.timer = None;
            return Poll::Pending;
        };
        // tokio's timers tick in milliseconds and round up.
        let wait = Duration::from_nanos(deadline.saturating_sub(now));
        let timer = match &mut self.timer {
            Some(timer) => {
                timer.as_mut().reset(tokio::time::Instant::now() + wait);
                timer
            }
            None => self.timer.insert(Box::pin(tokio::time::sleep(wait))),
        };
        timer.as_mut().poll(cx)
    }
}

impl Receiver for QueueReceiver {
    type Lease = QueueLease;

    #[inline]
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        loop {
            match self.take(cx, max.max(1), out) {
                Waiting::Received(taken) => {
                    self.waiting = false;
                    return Poll::Ready(Ok(taken));
                }
                Waiting::Until(deadline, now) => {
                    self.waiting = true;
                    if self.poll_timer(cx, deadline, now).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn stop(&mut self) {
        self.timer = None;
        if !std::mem::take(&mut self.waiting) {
            return;
        }
        let (id, part) = (self.id, self.queue.part);
        let waker = self.queue.shared.with(|state| {
            let waker = state.waiters(part).leave(id);
            // A wake-up that this receiver will not act on goes to the next.
            if waker.is_none() && state.engine.has_ready(part) {
                state.waiters(part).owe(1);
            }
            waker
        });
        drop(waker);
    }
}

impl Drop for QueueReceiver {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for QueueReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueReceiver")
            .field("queue", &self.queue.path())
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

// Receivers of one queue share its state, and nothing else.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<QueueReceiver>();
    is_send::<Arc<QueueLease>>();
};
