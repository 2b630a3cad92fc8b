use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{
    ConsumeError, Options, Stats,
    deadline::Deadline,
    drain::Drain,
    gathered::Gathered,
    health::{ConsumerState, Failure, Share},
    pace::Pace,
    slot::{Ended, Held, Slot, caught, lock_of},
    woken::WokenSet,
};
use crate::{
    Disposition, Message,
    transport::{Delivery, ErrorKind, Lease, ReceiveError, Receiver},
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
    /// The slot that is polled first the next time.
    first: usize,
    /// What was received and no handler has seen, the oldest last.
    pub(super) batch: Vec<Delivery<R::Lease>>,
    /// When the batch was received, if it may have to wait.
    batch_at: Option<Instant>,
    pub(super) pace: Pace,
    pub(super) gathered: Gathered<R::Lease>,
    pub(super) releases: FuturesUnordered<<R::Lease as Lease>::Settle>,
    paused_until: Option<Instant>,
    receive_failures: u32,
    pub(super) deadline: Deadline,
    pub(super) drain: Option<Drain>,
    share: Share,
}

/// One poll of the driver. Its time is read once, and only if something is left waiting.
#[derive(Default)]
pub(super) struct Turn {
    now: Option<Instant>,
}

impl Turn {
    pub(super) fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(Instant::now)
    }
}

/// Messages that are handed out or given back before the task yields.
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
            first: 0,
            batch: Vec::with_capacity(count + options.prefetch),
            batch_at: None,
            pace: Pace::default(),
            gathered: Gathered::with_capacity(count + options.prefetch),
            releases: FuturesUnordered::new(),
            paused_until: None,
            receive_failures: 0,
            deadline: Deadline::new(),
            drain: None,
            share: Share::default(),
            options,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// One poll of the driver.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stats, ConsumeError>> {
        let mut turn = Turn::default();
        let mut left = TURN;
        if self.drain.is_none() && self.shutdown.as_mut().poll(cx).is_ready() {
            self.begin_drain(None);
        }
        // Timers first: while messages keep coming nothing below is reached, and handlers may leave nothing of what tokio
        // grants a task.
        self.poll_deadline(cx, &mut turn);
        if let Poll::Ready(result) = self.poll_drain(cx) {
            return Poll::Ready(result);
        }
        self.poll_woken(&mut turn);
        loop {
            if self.drain.is_none() {
                let is_fed = !self.free.is_empty() && self.receive(cx, &mut turn);
                let is_ready = is_fed && self.hand_out(cx, &mut turn, &mut left);
                if left == 0 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if is_ready && self.drain.is_none() && !self.free.is_empty() {
                    if !self.is_idle() {
                        self.poll_woken(&mut turn);
                    }
                    continue;
                }
            }
            if let Poll::Ready(result) = self.poll_drain(cx) {
                return Poll::Ready(result);
            }
            self.woken.register(cx.waker());
            if !self.woken.is_empty() {
                // A handler that wakes itself must not keep the thread.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !self.poll_deadline(cx, &mut turn) {
                return Poll::Pending;
            }
            self.poll_woken(&mut turn);
        }
    }

    /// Polls the slots that were woken. Each time another one is the first: tokio grants a task a number of operations
    /// in each poll, and one handler may take them all.
    fn poll_woken(&mut self, turn: &mut Turn) {
        // What goes on may hold the thread, and nothing says that it is quick.
        self.complete_gathered();
        let (words, first) = (self.woken.words(), self.first);
        for word in 0..words {
            let word = (first / 64 + word) % words;
            let bits = self.woken.take(word);
            if bits == 0 {
                continue;
            }
            self.first = (first + 1) % self.slots.len();
            let from_first = u64::MAX << (first % 64);
            for mut bits in [bits & from_first, bits & !from_first] {
                while bits != 0 {
                    self.poll_slot(word * 64 + bits.trailing_zeros() as usize, turn);
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Fills the batch if it is empty and a slot is free. `false` if there is nothing to hand out for now.
    #[inline]
    fn receive(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        if !self.batch.is_empty() {
            return true;
        }
        if let Some(until) = self.paused_until {
            if turn.now() < until {
                self.deadline.include(until);
                return false;
            }
            self.paused_until = None;
        }
        self.complete_gathered();
        // Releases that do not end hold receiving up, rather than to pile up. Those that are left have this task's waker.
        self.poll_releases(cx);
        let wanted = (self.free.len() + self.options.prefetch).saturating_sub(self.releases.len());
        if wanted == 0 {
            self.receiver.stop();
            return false;
        }
        match self.receiver.poll_receive(cx, wanted, &mut self.batch) {
            Poll::Pending => false,
            Poll::Ready(Ok(_)) if !self.batch.is_empty() => {
                self.receive_failures = 0;
                self.batch.reverse();
                // These locks begin now, and a handler may have held the thread since the turn began.
                turn.now = None;
                // One message is handed out at once; of more, the later ones wait for the earlier, which may block.
                self.batch_at = (self.batch.len() > 1).then(|| turn.now());
                if let Some(now) = self.batch_at {
                    self.pace.received(now);
                }
                true
            }
            Poll::Ready(result) => {
                let nothing = || ReceiveError::new(ErrorKind::General).with_detail("the receiver delivered nothing");
                self.receive_failed(result.err().unwrap_or_else(nothing));
                false
            }
        }
    }

    /// A failure that may pass is met with a pause of 100 ms, doubled each time up to 10 s.
    #[cold]
    fn receive_failed(&mut self, error: ReceiveError) {
        tracing::warn!(%error, "receiving failed");
        self.options.health.failed(Failure::Receive(error.kind()));
        if !error.is_retryable() {
            self.begin_drain(Some(ConsumeError::receive(error)));
            return;
        }
        self.receiver.stop();
        let pause = Duration::from_millis(100 << self.receive_failures.min(7)).min(Duration::from_secs(10));
        self.receive_failures += 1;
        let until = Instant::now() + pause;
        self.paused_until = Some(until);
        self.deadline.include(until);
    }

    /// Hands the batch out while there are slots and the stack is ready. `false` if the stack is not.
    #[inline]
    fn hand_out(&mut self, cx: &mut Context<'_>, turn: &mut Turn, left: &mut usize) -> bool {
        while !self.batch.is_empty() && *left > 0 {
            let Some(&slot) = self.free.last() else { break };
            if self.batch_at.is_some() && self.pace.is_due() && self.give_back_if_old() {
                *left -= 1;
                continue;
            }
            let service = &mut self.service;
            match caught(|| service.poll_ready(cx)) {
                Some(Poll::Ready(Ok(()))) => {}
                Some(Poll::Pending) => {
                    self.batch_waits(turn);
                    return false;
                }
                Some(Poll::Ready(Err(error))) => {
                    self.options.health.failed(Failure::Stack);
                    self.begin_drain(Some(ConsumeError::service(error.into())));
                    return false;
                }
                None => {
                    self.options.health.failed(Failure::Stack);
                    self.begin_drain(Some(ConsumeError::service("the stack panicked in poll_ready".into())));
                    return false;
                }
            }
            let Some(Delivery { message, lease }) = self.batch.pop() else { break };
            self.free.pop();
            *left -= 1;
            self.options.stats.count_handled();
            let kept = message.clone();
            let service = &mut self.service;
            match self.slots[slot].start(|| service.call(message)) {
                Poll::Ready(Ended::Answered(Ok(Disposition::Complete))) if self.gathers(&lease) => {
                    self.free.push(slot);
                    self.gathered.push(lease);
                }
                Poll::Ready(ended) => self.ended(slot, Held { lease, message: kept }, ended),
                Poll::Pending => {
                    let place = &mut self.slots[slot];
                    place.held = Some(Held { lease, message: kept });
                    place.locked_at = self.batch_at;
                    self.still_running(slot, turn);
                }
            }
        }
        if !self.batch.is_empty() {
            self.batch_waits(turn);
        }
        true
    }

    /// Gives the oldest message of the batch back if too little of its lock is left for a handler. A handler before it
    /// may have held the thread, so the time of the turn does not do.
    fn give_back_if_old(&mut self) -> bool {
        let (Some(at), Some(oldest)) = (self.batch_at, self.batch.last()) else { return false };
        let Some(lock) = lock_of(&oldest.lease) else { return false };
        let now = Instant::now();
        self.pace.looked(now);
        if now.saturating_duration_since(at) < lock / 2 {
            return false;
        }
        self.pace.is_slow();
        if let Some(delivery) = self.batch.pop() {
            self.release(delivery);
        }
        true
    }

    /// The locks of the batch run while it waits for the stack or for slots; before they are lost the messages are given
    /// back.
    fn batch_waits(&mut self, turn: &mut Turn) {
        let at = *self.batch_at.get_or_insert_with(|| turn.now());
        if let Some(lock) = self.batch.last().and_then(|oldest| lock_of(&oldest.lease)) {
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
        while self.give_back_if_old() {}
        if !self.batch.is_empty() {
            self.batch_waits(turn);
        }
        true
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
        let polled = self.turn(cx);
        self.complete_gathered();
        if polled.is_pending() && self.poll_completions(cx) && self.drain.is_some() {
            cx.waker().wake_by_ref();
        }
        let in_use = self.slots.len() - self.free.len();
        let (waiting, is_draining) = (self.batch.len(), self.drain.is_some());
        let Self { options, share, .. } = &mut *self;
        options.health.show(share, in_use, waiting);
        options.health.is(match polled {
            Poll::Ready(_) => ConsumerState::Ended,
            Poll::Pending if is_draining => ConsumerState::Draining,
            Poll::Pending => ConsumerState::Running,
        });
        polled
    }
}

impl<R, S, F> Drop for Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
    fn drop(&mut self) {
        for slot in &mut self.slots {
            let held = slot.end_call();
            if let Some(Held { message, .. }) = held.filter(|held| held.lease.lock_duration().is_none()) {
                self.options.undeliverable(message, None);
            }
        }
        for Delivery { message, lease } in self.batch.drain(..) {
            if lease.lock_duration().is_some() {
                drop(lease.release());
            } else {
                self.options.undeliverable(message, None);
            }
        }
        self.options.health.show(&mut self.share, 0, 0);
        self.options.health.is(ConsumerState::Ended);
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
