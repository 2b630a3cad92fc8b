use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::{
    buffered_receiver::BufferedReceiver,
    completion_batch::CompletionBatch,
    error::ConsumeError,
    failed_again::FailedAgain,
    health::{ConsumerState, Share},
    held::{HeldMessage, HeldMessages, Next},
    options::Options,
    renewal::Answered,
    report::Report,
    settlements::Settlements,
    slot::Unsettled,
    slots::Slots,
    stack::Stack,
    stats::Stats,
    timers::Timers,
    turn::Turn,
};
use crate::{
    Disposition, Message,
    transport::{Delivery, Lease, Receiver},
};

/// A running consumer: a future that ends when the consumer has drained. Dropped, it drops its handlers, abandons their
/// messages, and releases what no handler has seen.
#[must_use = "a consumer runs only while its future is polled"]
pub struct ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
    pub(super) incoming: BufferedReceiver<R>,
    pub(super) stack: Stack<S>,
    pub(super) options: Options,
    pub(super) slots: Slots<S::Future, R::Lease>,
    pub(super) settlements: Settlements<R::Lease>,
    pub(super) timers: Timers<F>,
    pub(super) failed_again: FailedAgain,
    /// Whether [`ConsumerRun::attend`] has something to do.
    pub(super) is_attended: bool,
    share: Share,
}

/// Messages that are dispatched or released before the task yields.
const TURN: usize = 128;

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    pub(super) fn new(
        receiver: R,
        service: S,
        clone_service: Option<fn(&S) -> S>,
        options: Options,
        shutdown: F,
    ) -> Self {
        let count = options.concurrency;
        let slots = Slots::new(count);
        options.control.attach(slots.woken(), count, &options.health);
        Self {
            incoming: BufferedReceiver::new(receiver, count + options.prefetch),
            stack: Stack::new(service, clone_service),
            slots,
            settlements: Settlements::new(CompletionBatch::new(options.operation), HeldMessages::new(options.max_held)),
            timers: Timers::new(shutdown),
            failed_again: FailedAgain::default(),
            is_attended: false,
            share: Share::default(),
            options,
        }
    }

    #[inline]
    pub(super) fn report(&mut self) -> Report<'_, R> {
        Report { options: &mut self.options, receiver: &self.incoming.receiver }
    }

    /// A handler was polled and goes on.
    #[inline]
    pub(super) fn still_running(&mut self, slot: usize, turn: &mut Turn) {
        let mut report = Report { options: &mut self.options, receiver: &self.incoming.receiver };
        self.slots.still_running(slot, turn, &mut self.timers.deadline, &mut report);
    }

    /// One poll of the driver.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stats, ConsumeError>> {
        let mut turn = Turn::default();
        let mut left = TURN;
        if self.timers.poll_shutdown(cx) {
            self.begin_drain(None);
        }
        if self.slots.take_changed() {
            self.apply_control();
        }
        // Timers first: while messages keep coming nothing below is reached, and handlers may leave nothing of what tokio
        // grants a task.
        self.poll_deadline(cx, &mut turn);
        if let Poll::Ready(result) = self.poll_drain(cx) {
            return Poll::Ready(result);
        }
        self.poll_woken(&mut turn);
        self.poll_held(cx);
        loop {
            if !self.timers.is_draining() {
                if self.is_attended {
                    self.attend(cx);
                }
                let is_held = self.settlements.held.is_due() && self.bring_held(cx);
                if self.timers.is_draining() {
                    continue;
                }
                let is_fed = is_held || self.slots.has_free() && self.receive(cx, &mut turn);
                // Held messages that are due come before the batch, one at a time.
                let later = if is_held { left - 1 } else { 0 };
                left -= later;
                let is_ready = is_fed && self.dispatch(cx, &mut turn, &mut left);
                left += later;
                if left == 0 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if is_ready && !self.timers.is_draining() && (is_held || self.slots.has_free()) {
                    if !self.slots.is_idle() {
                        self.poll_woken(&mut turn);
                    }
                    continue;
                }
            }
            if let Poll::Ready(result) = self.poll_drain(cx) {
                return Poll::Ready(result);
            }
            if let Some(due) = self.options.log.due() {
                self.timers.include(due);
            }
            if self.slots.register(cx.waker()) {
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
        self.complete_batch();
        let (words, first) = self.slots.poll_order();
        for word in 0..words {
            let word = (first / 64 + word) % words;
            let bits = self.slots.take_woken(word, first);
            if bits == 0 {
                continue;
            }
            let from_first = u64::MAX << (first % 64);
            for mut bits in [bits & from_first, bits & !from_first] {
                while bits != 0 {
                    self.poll_slot(word * 64 + bits.trailing_zeros() as usize, turn);
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Gives up the place that the stack may hold, unless a held message is due, which needs it.
    pub(super) fn give_up_place(&mut self) {
        if !self.settlements.held.is_due() {
            self.stack.give_up_place();
        }
    }

    /// Whether a timer has run out, and what was due has been done.
    #[inline]
    fn poll_deadline(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        self.timers.deadline.next.is_some() && self.poll_next_deadline(cx, turn)
    }

    #[inline(never)]
    fn poll_next_deadline(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        if !self.timers.deadline.poll(cx) {
            return false;
        }
        let now = turn.read_again();
        self.timers.deadline.next = None;
        if self.options.log.due().is_some() {
            self.options.log.summaries();
        }
        let mut report = Report { options: &mut self.options, receiver: &self.incoming.receiver };
        for answered in self.slots.renew_due(now, &mut self.timers.deadline, &mut report) {
            let Answered { slot, settling, result, message } = answered;
            self.settled(slot, settling, result, message.as_ref());
        }
        self.held_due(now, cx);
        while self.release_if_old() {}
        if !self.incoming.is_empty() {
            self.batch_waits(turn);
        }
        true
    }
}

/// No field is structurally pinned: what must not move is in boxes.
impl<R, S, F> Unpin for ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
}

impl<R, S, F> Future for ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    type Output = Result<Stats, ConsumeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.turn(cx);
        self.complete_batch();
        if polled.is_pending() && self.poll_completions(cx) && self.timers.is_draining() {
            cx.waker().wake_by_ref();
        }
        let in_use = self.slots.in_use();
        let (waiting, is_draining) = (self.incoming.len() + self.settlements.held.len(), self.timers.is_draining());
        let is_paused = self.is_attended && self.incoming.is_suspended();
        let Self { options, share, .. } = &mut *self;
        options.health.show(share, in_use, waiting);
        options.health.is(match polled {
            Poll::Ready(_) => ConsumerState::Ended,
            Poll::Pending if is_draining => ConsumerState::Draining,
            Poll::Pending if is_paused => ConsumerState::Paused,
            Poll::Pending => ConsumerState::Running,
        });
        polled
    }
}

impl<R, S, F> Drop for ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
    fn drop(&mut self) {
        let batch = self.incoming.take_all();
        // What waits for a delay has failed: its lease abandons it as it is dropped here.
        let held = self.settlements.held.take_all().into_iter().filter(|held| matches!(held.next, Next::Call));
        let held: Vec<_> = held.map(HeldMessage::into_delivery).collect();
        let mut report = Report { options: &mut self.options, receiver: &self.incoming.receiver };
        for slot in self.slots.iter_mut() {
            let unsettled = slot.end_call().filter(|unsettled| !unsettled.lease.must_settle());
            if let Some(Unsettled { message, .. }) = unsettled {
                report.unlocked(&message);
            }
        }
        for Delivery { message, lease } in held.into_iter().chain(batch) {
            if lease.must_settle() {
                drop(lease.release());
            } else {
                report.unlocked(&message);
            }
        }
        self.options.control.detach(self.slots.woken());
        self.options.log.end();
        self.options.health.show(&mut self.share, 0, 0);
        self.options.health.is(ConsumerState::Ended);
    }
}

impl<R, S, F> fmt::Debug for ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerRun")
            .field("slots", &self.slots.len())
            .field("free", &self.slots.free())
            .field("draining", &self.timers.is_draining())
            .finish_non_exhaustive()
    }
}
