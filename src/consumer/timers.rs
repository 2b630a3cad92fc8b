//! When a run has to act without a message or a handler: at a deadline, at the shutdown, and at the ends of the drain.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

use super::{deadline::Deadline, error::ConsumeError};

/// How long settlements may take after the last handler was dropped.
pub(super) const SETTLE_GRACE: Duration = Duration::from_secs(1);

/// The timers of one run.
pub(super) struct Timers<F> {
    pub(super) deadline: Deadline,
    shutdown: Pin<Box<F>>,
    drain: Option<Drain>,
}

struct Drain {
    /// The failure that the run stops for.
    cause: Option<ConsumeError>,
    timer: Pin<Box<Sleep>>,
    is_over: bool,
}

/// What a drain waits for no longer.
pub(super) enum Expired {
    Handlers,
    Settlements,
}

impl<F> Timers<F> {
    pub(super) fn new(shutdown: F) -> Self {
        Self { deadline: Deadline::new(), shutdown: Box::pin(shutdown), drain: None }
    }

    /// Includes an instant at which the run has to act.
    #[inline]
    pub(super) fn include(&mut self, at: Instant) {
        self.deadline.include(at);
    }

    pub(super) fn include_some(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.include(at);
        }
    }

    #[inline]
    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    pub(super) fn begin_drain(&mut self, cause: Option<ConsumeError>, timeout: Duration) {
        self.drain = Some(Drain { cause, timer: Box::pin(sleep(timeout)), is_over: false });
    }

    /// The end of the drain timeout, then that of the time for settlements.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Expired> {
        let Some(drain) = &mut self.drain else { return Poll::Pending };
        std::task::ready!(drain.timer.as_mut().poll(cx));
        if drain.is_over {
            return Poll::Ready(Expired::Settlements);
        }
        drain.is_over = true;
        drain.timer = Box::pin(sleep(SETTLE_GRACE));
        Poll::Ready(Expired::Handlers)
    }

    /// The failure that the run has stopped for.
    pub(super) fn take_cause(&mut self) -> Option<ConsumeError> {
        self.drain.as_mut().and_then(|drain| drain.cause.take())
    }
}

impl<F: Future> Timers<F> {
    /// Whether the run is to begin its drain.
    #[inline]
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> bool {
        self.drain.is_none() && self.shutdown.as_mut().poll(cx).is_ready()
    }
}
