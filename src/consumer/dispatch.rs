//! The received messages that are not dispatched yet. The batch releases them before their locks are lost.

use std::{
    future::Future,
    mem,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{
    ConsumeError, ConsumerRun,
    health::Failure,
    log::Receiving,
    run::Turn,
    slot::{Ended, Unsettled, caught, lock_of},
};
use crate::{
    Disposition, Message,
    transport::{Delivery, ErrorKind, ReceiveError, Receiver},
};

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// Fills the batch if it is empty and a slot is free. `false` if there is nothing to hand out for now.
    #[inline]
    pub(super) fn receive(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
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
        self.complete_batch();
        // Releases that do not end hold receiving up, rather than to pile up. Those that are left have this task's waker.
        self.poll_releases(cx);
        let wanted = (self.slots.free() + self.options.prefetch).saturating_sub(self.releases.len());
        if wanted == 0 {
            self.receiver.stop();
            return false;
        }
        match self.receiver.poll_receive(cx, wanted, &mut self.batch) {
            Poll::Pending => false,
            Poll::Ready(Ok(_)) if !self.batch.is_empty() => {
                if self.receive_failures > 0 {
                    self.receives_again();
                }
                self.batch.reverse();
                // These locks begin now, and not when the turn began.
                turn.forget();
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

    #[cold]
    fn receives_again(&mut self) {
        let failures = std::mem::take(&mut self.receive_failures);
        self.options.log.receives_again(&self.receiver.entity_info(), failures);
    }

    /// A failure that may pass is met with a pause of 100 ms, doubled each time up to 10 s.
    #[cold]
    fn receive_failed(&mut self, error: ReceiveError) {
        self.options.health.failed(Failure::Receive(error.kind()));
        let info = self.receiver.entity_info();
        if !error.is_retryable() {
            self.options.log.receive_failed(&info, Receiving::Messages, &error, None);
            self.begin_drain(Some(ConsumeError::receive(error)));
            return;
        }
        self.receiver.stop();
        let pause = Duration::from_millis(100 << self.receive_failures.min(7)).min(Duration::from_secs(10));
        self.receive_failures += 1;
        self.options.log.receive_failed(&info, Receiving::Messages, &error, Some(pause));
        let until = Instant::now() + pause;
        self.paused_until = Some(until);
        self.deadline.include(until);
    }

    /// Hands the batch out while there are slots and the stack is ready. `false` if the stack is not. The stack is called
    /// from nowhere else, so that its code can be part of this.
    #[inline]
    pub(super) fn dispatch(&mut self, cx: &mut Context<'_>, turn: &mut Turn, left: &mut usize) -> bool {
        while !self.batch.is_empty() && *left > 0 {
            let Some(slot) = self.slots.next_free() else { break };
            if self.batch_at.is_some() && self.pace.is_due() && self.release_if_old() {
                *left -= 1;
                continue;
            }
            match self.poll_stack(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return false,
                Poll::Pending => {
                    self.batch_waits(turn);
                    return false;
                }
            }
            let Some(next) = self.batch.last_mut() else { break };
            if next.message.hand_out(self.holding) {
                self.options.stats.count_handled();
            }
            let Some(Delivery { message, lease }) = self.batch.pop() else { break };
            self.slots.take_free();
            *left -= 1;
            let kept = message.clone();
            let service = &mut self.stack.service;
            match self.slots[slot].start(|| service.call(message)) {
                Poll::Ready(Ended::Answered(Ok(done @ Disposition::Complete))) if self.is_batched(&lease) => {
                    // Nothing in it is to be dropped. The drop of any disposition would look for that first.
                    mem::forget(done);
                    self.slots.set_free(slot);
                    self.completions.push(lease);
                }
                Poll::Ready(ended) => {
                    let before = self.slots[slot].before(&kept);
                    self.ended(slot, Unsettled { lease, message: kept, before }, ended);
                }
                Poll::Pending => {
                    let place = &mut self.slots[slot];
                    let before = place.before(&kept);
                    place.held = Some(Unsettled { lease, message: kept, before });
                    place.locked_at = before.map_or(self.batch_at, |before| Some(before.locked_at));
                    self.still_running(slot, turn);
                }
            }
        }
        if !self.batch.is_empty() {
            self.batch_waits(turn);
        }
        true
    }

    /// Makes the stack ready. `false` if it never will be: then the consumer stops.
    #[inline]
    pub(super) fn poll_stack(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.stack.poll_ready(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => self.stack_failed(error),
        }
    }

    #[cold]
    fn stack_failed(&mut self, error: BoxError) -> Poll<bool> {
        self.options.health.failed(Failure::Stack);
        let (log, info) = (&mut self.options.log, self.receiver.entity_info());
        // Showing the error is the user's code.
        caught(|| log.stack_failed(&info, &*error));
        self.begin_drain(Some(ConsumeError::service(error)));
        Poll::Ready(false)
    }

    /// Gives the oldest message of the batch back if too little of its lock is left for a handler. A handler before it
    /// may have held the thread, so the time of the turn does not do.
    pub(super) fn release_if_old(&mut self) -> bool {
        let (Some(at), Some(oldest)) = (self.batch_at, self.batch.last()) else { return false };
        let Some(lock) = lock_of(&oldest.lease) else { return false };
        let held = self.slots.next_free().and_then(|slot| self.slots[slot].before(&oldest.message));
        // The lock of a held message is not that of the batch, and the stack was ready for it.
        let (at, longest) = held.map_or((at, lock / 2), |held| (held.locked_at, lock));
        let now = Instant::now();
        self.pace.looked(now);
        if now.saturating_duration_since(at) < longest {
            return false;
        }
        self.pace.is_slow();
        if let Some(delivery) = self.batch.pop() {
            self.release(delivery);
        }
        if self.batch.is_empty() {
            self.give_up_place();
        }
        true
    }

    /// The locks of the batch run while it waits for the stack or for slots; before they are lost the messages are given
    /// back.
    pub(super) fn batch_waits(&mut self, turn: &mut Turn) {
        let at = *self.batch_at.get_or_insert_with(|| turn.now());
        if let Some(lock) = self.batch.last().and_then(|oldest| lock_of(&oldest.lease)) {
            self.deadline.include(at + lock / 2);
        }
    }
}
