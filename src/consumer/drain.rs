//! How a consumer stops: it receives nothing new, waits for running handlers, then abandons the
//! rest.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::StreamExt;
use tokio::time::{Sleep, sleep};
use tower::BoxError;
use tower_service::Service;

use super::{ConsumeError, Stats, run::ConsumerRun};
use crate::{Disposition, Message, settlement::Changes, transport::Receiver};

/// How long settlements may take after the last handler was dropped.
pub(super) const SETTLE_GRACE: Duration = Duration::from_secs(1);

/// A consumer that stops.
pub(super) struct Drain {
    cause: Option<ConsumeError>,
    timer: Pin<Box<Sleep>>,
    is_over: bool,
}

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// Stops receiving and gives back what no handler has seen.
    #[cold]
    pub(super) fn begin_drain(&mut self, cause: Option<ConsumeError>) {
        self.incoming.receiver.stop();
        while let Some(delivery) = self.incoming.pop() {
            self.release(delivery);
        }
        self.release_held();
        self.give_up_place();
        let timer = Box::pin(sleep(self.options.drain));
        self.drain = Some(Drain { cause, timer, is_over: false });
    }

    /// Ends when everything is settled. It never ends while the consumer is not draining.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stats, ConsumeError>> {
        loop {
            self.poll_releases(cx);
            if self.drain.is_some() {
                self.complete_batch();
            }
            self.poll_completions(cx);
            let is_answered = self.releases.is_empty() && self.completions.is_answered();
            if self.drain.is_some() && is_answered && self.slots.is_idle() {
                return Poll::Ready(self.drained());
            }
            let Some(drain) = &mut self.drain else { return Poll::Pending };
            if drain.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if drain.is_over {
                self.give_up_all();
                return Poll::Ready(self.drained());
            }
            drain.is_over = true;
            drain.timer = Box::pin(sleep(SETTLE_GRACE));
            self.cancel_all();
        }
    }

    #[inline]
    pub(super) fn poll_releases(&mut self, cx: &mut Context<'_>) {
        if !self.releases.is_empty() {
            self.poll_open_releases(cx);
        }
    }

    #[cold]
    fn poll_open_releases(&mut self, cx: &mut Context<'_>) {
        while !self.releases.is_empty() {
            let Poll::Ready(Some(answer)) = self.releases.poll_next_unpin(cx) else { return };
            match answer {
                Ok(result) => self.released(result),
                Err(_) => self.unanswered(1, None),
            }
        }
    }

    /// Waits for no answer any more.
    #[cold]
    fn give_up_all(&mut self) {
        let mut unanswered = self.releases.len() as u64 + self.completions.give_up();
        self.releases.clear();
        for slot in self.slots.iter_mut().filter(|slot| slot.is_settling()) {
            slot.forget_settling();
            unanswered += 1;
        }
        if unanswered > 0 {
            self.unanswered(unanswered, None);
        }
    }

    fn drained(&mut self) -> Result<Stats, ConsumeError> {
        match self.drain.as_mut().and_then(|drain| drain.cause.take()) {
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
