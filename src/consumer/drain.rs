//! How a consumer stops: it receives nothing new, waits for running handlers, then abandons the
//! rest.

use std::{
    future::Future,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::{error::ConsumeError, run::ConsumerRun, slot::Settling, stats::Stats, timers::Expired};
use crate::{Disposition, Message, settlement::Changes, transport::Receiver};

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// Stops receiving and releases what no handler has seen.
    #[cold]
    pub(super) fn begin_drain(&mut self, cause: Option<ConsumeError>) {
        self.incoming.stop();
        while let Some(delivery) = self.incoming.pop() {
            #[cfg(sabotage)]
            if consign_core::sabotage::has("KeepPrefetched") {
                std::mem::forget(delivery);
                continue;
            }
            self.release(delivery);
        }
        self.release_held();
        self.give_up_place();
        self.timers.begin_drain(cause, self.options.drain);
    }

    /// Ends when everything is settled. It never ends while the consumer is not draining.
    #[inline]
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stats, ConsumeError>> {
        if self.timers.is_draining() || !self.settlements.is_answered() {
            return self.poll_answers_and_drain(cx);
        }
        Poll::Pending
    }

    #[inline(never)]
    fn poll_answers_and_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stats, ConsumeError>> {
        loop {
            self.poll_releases(cx);
            if self.timers.is_draining() {
                self.complete_batch();
            }
            self.poll_completions(cx);
            if !self.timers.is_draining() {
                return Poll::Pending;
            }
            let is_stopped = self.poll_stopped(cx);
            if is_stopped && self.settlements.is_answered() && self.slots.is_idle() {
                return Poll::Ready(self.drained());
            }
            match self.timers.poll_drain(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Expired::Handlers) => self.cancel_all(),
                Poll::Ready(Expired::Settlements) => {
                    self.give_up_all();
                    return Poll::Ready(self.drained());
                }
            }
        }
    }

    /// Waits until the receiver has released what it had locked ahead, up to the operation timeout.
    pub(super) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> bool {
        match self.incoming.poll_stopped(cx, self.options.operation) {
            Poll::Pending => return false,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => self.report().unanswered(1, None),
        }
        true
    }

    #[inline]
    pub(super) fn poll_releases(&mut self, cx: &mut Context<'_>) {
        if self.settlements.releases() > 0 {
            self.poll_open_releases(cx);
        }
    }

    #[cold]
    fn poll_open_releases(&mut self, cx: &mut Context<'_>) {
        while let Some((answer, delayed)) = self.settlements.poll_release(cx) {
            let message = delayed.as_ref().map(|delayed| &delayed.message);
            match (answer, &delayed) {
                (Ok(result), None) => self.released(result),
                (Ok(result), Some(delayed)) => {
                    self.report().settled(Settling::Abandon, result, message, delayed.cause.as_ref());
                }
                (Err(_), _) => self.report().unanswered(1, message),
            }
        }
    }

    /// Waits for no answer any more.
    #[cold]
    fn give_up_all(&mut self) {
        let mut unanswered = self.settlements.give_up() + u64::from(self.incoming.give_up_stop());
        for slot in self.slots.iter_mut().filter(|slot| slot.is_settling()) {
            slot.forget_settling();
            unanswered += 1;
        }
        if unanswered > 0 {
            self.report().unanswered(unanswered, None);
        }
    }

    fn drained(&mut self) -> Result<Stats, ConsumeError> {
        match self.timers.take_cause() {
            Some(error) => Err(error),
            None => Ok(self.options.stats.clone()),
        }
    }

    /// Drops the handlers that still run and abandons their messages.
    fn cancel_all(&mut self) {
        let handlers = self.slots.iter().filter(|slot| slot.is_calling()).count();
        if handlers > 0 {
            self.options.log.drain_timed_out(&self.incoming.receiver.entity_info(), handlers);
        }
        for slot in 0..self.slots.len() {
            if let Some(held) = self.slots[slot].end_call() {
                self.options.stats.count_cancelled();
                self.settle(
                    slot,
                    held,
                    Disposition::Abandon(Changes::because("the drain timeout passed before the handler ended")),
                );
            }
        }
    }
}
