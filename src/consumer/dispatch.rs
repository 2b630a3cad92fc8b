//! Receives messages and dispatches them to the stack.

use std::{
    future::Future,
    mem,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::{
    buffered_receiver::Pause,
    error::ConsumeError,
    health::ConsumerFailure,
    log::Receiving,
    run::ConsumerRun,
    slot::{Ended, Unsettled},
    turn::Turn,
};
use crate::{
    Disposition, Message,
    transport::{Delivery, ReceiveError, Receiver},
};

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// Fills the batch if it is empty and a slot is free. `false` if there is nothing to dispatch for now.
    #[inline]
    pub(super) fn receive(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        if !self.incoming.is_empty() {
            return !self.is_attended || !self.incoming.is_suspended();
        }
        if let Some(pause) = self.incoming.paused(turn) {
            if let Pause::Until(until) = pause {
                self.timers.include(until);
            }
            return false;
        }
        self.complete_batch();
        // Releases that do not end hold receiving up, rather than to pile up. Those that are left have this task's waker.
        self.poll_releases(cx);
        let wanted = (self.slots.free() + self.options.prefetch).saturating_sub(self.settlements.releases());
        if wanted == 0 {
            self.incoming.receiver.stop();
            return false;
        }
        match self.incoming.poll_receive(cx, wanted, turn) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => {
                if let Some(failures) = self.incoming.take_failures() {
                    self.receives_again(failures);
                }
                true
            }
            Poll::Ready(Err(error)) => {
                self.receive_failed(error);
                false
            }
        }
    }

    #[cold]
    fn receives_again(&mut self, failures: u32) {
        self.options.log.receives_again(&self.incoming.receiver.entity_info(), failures);
    }

    /// A failure that may pass is met with a pause.
    #[cold]
    fn receive_failed(&mut self, error: ReceiveError) {
        self.options.health.failed(ConsumerFailure::Receive(error.kind()));
        let info = self.incoming.receiver.entity_info();
        if !error.is_retryable() {
            if !self.options.log.session_lost(&info, &error) {
                self.options.log.receive_failed(&info, Receiving::Messages, &error, None);
            }
            self.begin_drain(Some(ConsumeError::Receive(error)));
            return;
        }
        let (pause, until) = self.incoming.pause();
        self.options.log.receive_failed(&info, Receiving::Messages, &error, Some(pause));
        self.timers.include(until);
    }

    /// Dispatches the batch while there are slots and the stack is ready. `false` if the stack is not. The stack is called
    /// from nowhere else, so that its code can be part of this.
    #[inline]
    pub(super) fn dispatch(&mut self, cx: &mut Context<'_>, turn: &mut Turn, left: &mut usize) -> bool {
        while !self.incoming.is_empty() && *left > 0 {
            let Some(slot) = self.slots.next_free() else { break };
            if self.incoming.is_look_due() && self.release_if_old() {
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
            let Some(next) = self.incoming.next_mut() else { break };
            let is_first = next.message.hand_out(self.settlements.held.holding());
            if is_first {
                self.options.stats.count_handled();
            }
            let Some(Delivery { message, lease }) = self.incoming.pop() else { break };
            self.slots.take_free();
            *left -= 1;
            let kept = message.clone();
            let service = &mut self.stack.service;
            match self.slots[slot].start(|| service.call(message)) {
                Poll::Ready(Ended::Answered(Ok(done @ Disposition::Complete))) if self.is_batched(&lease) => {
                    // Nothing in it is to be dropped. The drop of any disposition would look for that first.
                    mem::forget(done);
                    self.incoming.take_held(is_first);
                    self.slots.set_free(slot);
                    self.settlements.completions.push(lease);
                }
                Poll::Ready(ended) => {
                    let before = self.incoming.take_held(is_first);
                    self.ended(slot, Unsettled { lease, message: kept, before }, ended);
                }
                Poll::Pending => {
                    let before = self.incoming.take_held(is_first);
                    let place = &mut self.slots[slot];
                    place.held = Some(Unsettled { lease, message: kept, before });
                    place.locked_at = before.map_or(self.incoming.received_at(), |before| Some(before.locked_at));
                    self.still_running(slot, turn);
                }
            }
        }
        if !self.incoming.is_empty() {
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
        self.report().stack_failed(&error);
        self.begin_drain(Some(ConsumeError::Service(error)));
        Poll::Ready(false)
    }

    /// Releases the oldest message of the batch if too little of its lock is left for a handler.
    pub(super) fn release_if_old(&mut self) -> bool {
        let Some(old) = self.incoming.take_old() else { return false };
        self.release(old);
        if self.incoming.is_empty() {
            self.give_up_place();
        }
        true
    }

    /// The locks of the batch run while it waits for the stack or for slots; before they are lost the messages are
    /// released.
    pub(super) fn batch_waits(&mut self, turn: &mut Turn) {
        if let Some(until) = self.incoming.wait(turn) {
            self.timers.include(until);
        }
    }
}
