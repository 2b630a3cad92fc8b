use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;
use tower_service::Service;

use super::{ConsumeError, Options, Stats, drain::Drain, slot::Slot, stats::count, woken::WokenSet};
use crate::{
    Disposition, Message,
    transport::{Delivery, Lease, ReceiveError, Receiver},
};

/// A running consumer: a future that ends when the consumer has drained. Dropped, it drops its handlers, abandons their
/// messages, and gives back what no handler has seen.
#[must_use = "a consumer runs only while its future is polled"]
pub struct Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
    pub(super) receiver: R,
    service: S,
    pub(super) options: Options,
    shutdown: Pin<Box<F>>,
    pub(super) slots: Box<[Slot<S::Future, R::Lease>]>,
    pub(super) free: Vec<usize>,
    pub(super) woken: Arc<WokenSet>,
    /// What was received and no handler has seen, the oldest last.
    pub(super) batch: Vec<Delivery<R::Lease>>,
    /// When the batch was received, if it may have to wait.
    batch_at: Option<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
    receive_failures: u32,
    pub(super) deadline: Deadline,
    pub(super) drain: Option<Drain<R::Lease>>,
}

/// One timer for the earliest thing that is due: a renewal, the end of a lock, or the end of a batch's patience.
pub(super) struct Deadline {
    pub(super) next: Option<Instant>,
    set_for: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    pub(super) epoch: Instant,
}

/// One poll of the driver. The clock is read at most once in it, and only if something is left waiting.
#[derive(Default)]
pub(super) struct Turn {
    now: Option<Instant>,
}

impl Turn {
    pub(super) fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(Instant::now)
    }
}

/// Messages that are handed out before the task yields.
const TURN: usize = 128;

impl<R, S, F> Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    pub(super) fn new(receiver: R, service: S, options: Options, shutdown: F) -> Self {
        let count = options.concurrency;
        let woken = WokenSet::new(count);
        Self {
            receiver,
            service,
            shutdown: Box::pin(shutdown),
            slots: (0..count).map(|slot| Slot::new(&woken, slot)).collect(),
            free: (0..count).rev().collect(),
            woken,
            batch: Vec::with_capacity(count + options.prefetch),
            batch_at: None,
            pause: None,
            receive_failures: 0,
            deadline: Deadline { next: None, set_for: None, timer: None, epoch: Instant::now() },
            drain: None,
            options,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    pub(super) fn poll_woken(&mut self, turn: &mut Turn) {
        if self.is_idle() {
            return;
        }
        for word in 0..self.woken.words() {
            let mut bits = self.woken.take(word);
            while bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.poll_slot(slot, turn);
            }
        }
    }

    /// Fills the batch if it is empty and a slot is free. `false` if there is nothing to hand out for now.
    #[inline]
    fn receive(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        if !self.batch.is_empty() {
            return true;
        }
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.pause = None;
        }
        let wanted = self.free.len() + self.options.prefetch;
        match self.receiver.poll_receive(cx, wanted, &mut self.batch) {
            Poll::Pending => false,
            Poll::Ready(Ok(_)) => {
                self.receive_failures = 0;
                self.batch.reverse();
                self.batch_at = (self.options.prefetch > 0).then(|| turn.now());
                true
            }
            Poll::Ready(Err(error)) => {
                self.receive_failed(error);
                // The pause has to be polled for its waker.
                self.drain.is_none() && self.receive(cx, turn)
            }
        }
    }

    /// A failure that may pass is met with a pause of 100 ms, doubled each time up to 10 s.
    #[cold]
    fn receive_failed(&mut self, error: ReceiveError) {
        tracing::warn!(%error, "receiving failed");
        if !error.is_retryable() {
            self.begin_drain(Some(ConsumeError::receive(error)));
            return;
        }
        let pause = Duration::from_millis(100 << self.receive_failures.min(7)).min(Duration::from_secs(10));
        self.receive_failures += 1;
        self.pause = Some(Box::pin(sleep(pause)));
    }

    /// Hands the batch out while there are slots and the stack is ready. `false` if the stack is not.
    #[inline]
    fn hand_out(&mut self, cx: &mut Context<'_>, turn: &mut Turn, left: &mut usize) -> bool {
        while !self.batch.is_empty() && *left > 0 {
            let Some(&slot) = self.free.last() else { break };
            if self.batch_at.is_some() && self.give_back_if_old(turn) {
                continue;
            }
            let service = &mut self.service;
            match catch_unwind(AssertUnwindSafe(|| service.poll_ready(cx))) {
                Ok(Poll::Ready(Ok(()))) => {}
                Ok(Poll::Pending) => {
                    self.wait_for_the_stack(turn);
                    return false;
                }
                Ok(Poll::Ready(Err(error))) => {
                    self.begin_drain(Some(ConsumeError::service(error.into())));
                    return false;
                }
                Err(_) => {
                    self.begin_drain(Some(ConsumeError::service("the stack panicked in poll_ready".into())));
                    return false;
                }
            }
            let Some(Delivery { message, lease }) = self.batch.pop() else { break };
            self.free.pop();
            *left -= 1;
            count::handled(&self.options.stats);
            let place = &mut self.slots[slot];
            place.message = Some(message.clone());
            place.lease = Some(lease);
            place.locked_at = self.batch_at;
            let service = &mut self.service;
            if place.start(|| service.call(message)) {
                self.poll_slot(slot, turn);
            } else {
                self.call_panicked(slot);
            }
        }
        true
    }

    /// Drops or gives back the oldest message of the batch if too little of its lock is left for a handler.
    fn give_back_if_old(&mut self, turn: &mut Turn) -> bool {
        let (Some(at), Some(oldest)) = (self.batch_at, self.batch.last()) else { return false };
        let Some(lock) = oldest.lease.lock_duration() else { return false };
        if turn.now().saturating_duration_since(at) * 2 < lock {
            return false;
        }
        if let Some(delivery) = self.batch.pop() {
            self.release(delivery);
        }
        true
    }

    /// The locks of the batch run while the stack is not ready; before they are lost the messages are given back.
    fn wait_for_the_stack(&mut self, turn: &mut Turn) {
        let at = *self.batch_at.get_or_insert_with(|| turn.now());
        if let Some(lock) = self.batch.last().and_then(|oldest| oldest.lease.lock_duration()) {
            self.deadline.include(at + lock / 2);
        }
    }

    /// Whether a timer has run out, and what was due has been done.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        if !self.deadline.poll(cx) {
            return false;
        }
        let now = *turn.now.insert(Instant::now());
        self.deadline.next = None;
        self.renew_due(now);
        if self.drain.is_none() {
            while self.batch_at.is_some() && self.give_back_if_old(turn) {}
            if !self.batch.is_empty() && self.batch_at.is_some() {
                self.wait_for_the_stack(turn);
            }
        }
        true
    }
}

impl Deadline {
    pub(super) fn include(&mut self, at: Instant) {
        if self.next.is_none_or(|next| at < next) {
            self.next = Some(at);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
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

/// Nothing in it is pinned in place: what must not move is in boxes.
impl<R, S, F> Unpin for Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
}

impl<R, S, F> Future for Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    type Output = Result<Stats, ConsumeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let run = &mut *self;
        let mut turn = Turn::default();
        let mut left = TURN;
        if run.drain.is_none() && run.shutdown.as_mut().poll(cx).is_ready() {
            run.begin_drain(None);
        }
        loop {
            run.poll_woken(&mut turn);
            if run.drain.is_none() {
                let is_fed = !run.free.is_empty() && run.receive(cx, &mut turn);
                let is_ready = is_fed && run.hand_out(cx, &mut turn, &mut left);
                if left == 0 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if is_ready && run.drain.is_none() && !run.free.is_empty() {
                    continue;
                }
            }
            if let Poll::Ready(result) = run.poll_drain(cx) {
                return Poll::Ready(result);
            }
            run.woken.register(cx.waker());
            if !run.woken.is_empty() || run.poll_deadline(cx, &mut turn) {
                continue;
            }
            return Poll::Pending;
        }
    }
}

impl<R, S, F> Drop for Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
    fn drop(&mut self) {
        for delivery in self.batch.drain(..) {
            drop(delivery.lease.release());
        }
    }
}

impl<R, S, F> fmt::Debug for Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("slots", &self.slots.len())
            .field("free", &self.free.len())
            .field("draining", &self.drain.is_some())
            .finish_non_exhaustive()
    }
}
