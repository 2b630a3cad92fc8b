//! How a consumer stops: nothing new, then what runs, then what is left.

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

use super::{ConsumeError, Stats, run::Run, slot::Settling};
use crate::{Disposition, Message, transport::Receiver};

/// How long settlements may take after the last handler was dropped.
const SETTLE_GRACE: Duration = Duration::from_secs(1);

/// A consumer that stops.
pub(super) struct Drain {
    cause: Option<ConsumeError>,
    timer: Pin<Box<Sleep>>,
    is_over: bool,
}

impl<R, S, F> Run<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// Stops receiving and gives back what no handler has seen.
    #[cold]
    pub(super) fn begin_drain(&mut self, cause: Option<ConsumeError>) {
        self.receiver.stop();
        while let Some(delivery) = self.batch.pop() {
            self.release(delivery);
        }
        let timer = Box::pin(sleep(self.options.drain));
        self.drain = Some(Drain { cause, timer, is_over: false });
    }

    /// Ends when everything is settled; pending for ever while the consumer is not draining.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stats, ConsumeError>> {
        loop {
            self.poll_releases(cx);
            if self.drain.is_some() {
                self.complete_gathered();
            }
            self.poll_completions(cx);
            let is_answered = self.releases.is_empty() && self.gathered.is_answered();
            if self.drain.is_some() && is_answered && self.is_idle() {
                return Poll::Ready(self.drained());
            }
            let Some(drain) = &mut self.drain else { return Poll::Pending };
            if drain.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if drain.is_over {
                for _ in 0..self.releases.len() {
                    self.options.stats.count_settle_failed();
                }
                self.releases.clear();
                self.options.stats.count_all_settle_failed(self.gathered.give_up());
                for slot in self.slots.iter_mut().filter(|slot| slot.is_settling()) {
                    slot.forget_settling();
                    self.options.stats.count_settle_failed();
                }
                return Poll::Ready(self.drained());
            }
            drain.is_over = true;
            drain.timer = Box::pin(sleep(SETTLE_GRACE));
            self.cancel_all();
        }
    }

    pub(super) fn poll_releases(&mut self, cx: &mut Context<'_>) {
        while !self.releases.is_empty() {
            let Poll::Ready(Some(result)) = self.releases.poll_next_unpin(cx) else { return };
            self.settled(Settling::Release, result);
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
        for slot in 0..self.slots.len() {
            if let Some(held) = self.slots[slot].end_call() {
                self.options.stats.count_cancelled();
                self.settle(slot, held, Disposition::ABANDON);
            }
        }
    }
}
