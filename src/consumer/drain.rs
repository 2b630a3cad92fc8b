//! How a consumer stops: nothing new, then what runs, then what is left.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Sleep, sleep};
use tower::BoxError;
use tower_service::Service;

use super::{ConsumeError, Stats, run::Run, slot::Settling, stats::count};
use crate::{
    Disposition, Message,
    transport::{Lease, Receiver},
};

/// How long settlements may take after the last handler was dropped.
const SETTLE_GRACE: Duration = Duration::from_secs(1);

/// A consumer that stops.
pub(super) struct Drain<L: Lease> {
    cause: Option<ConsumeError>,
    releases: Vec<Pin<Box<L::Settle>>>,
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
        let releases = self.batch.drain(..).map(|delivery| Box::pin(delivery.lease.release())).collect();
        let timer = Box::pin(sleep(self.options.drain));
        self.drain = Some(Drain { cause, releases, timer, is_over: false });
    }

    /// Ends when everything is settled; pending for ever while the consumer is not draining.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stats, ConsumeError>> {
        loop {
            let Some(drain) = &mut self.drain else { return Poll::Pending };
            let mut answers = Vec::new();
            drain.releases.retain_mut(|release| match release.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    answers.push(result);
                    false
                }
            });
            let is_released = drain.releases.is_empty();
            for answer in answers {
                self.settled(Settling::Release, answer);
            }
            if is_released && self.is_idle() {
                return Poll::Ready(self.drained());
            }
            let Some(drain) = &mut self.drain else { return Poll::Pending };
            if drain.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if drain.is_over {
                for slot in self.slots.iter_mut().filter(|slot| slot.is_settling()) {
                    slot.forget_settling();
                    count::settle_failed(&self.options.stats);
                }
                return Poll::Ready(self.drained());
            }
            drain.is_over = true;
            drain.timer = Box::pin(sleep(SETTLE_GRACE));
            self.cancel_all();
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
            let Some(lease) = self.slots[slot].end_call() else { continue };
            count::cancelled(&self.options.stats);
            self.slots[slot].start_settling(Settling::Abandon, lease.settle(Disposition::ABANDON));
            self.poll_settle(slot);
        }
    }
}
