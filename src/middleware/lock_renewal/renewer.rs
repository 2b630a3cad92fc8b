use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use super::{LockLost, Renew};
use crate::{
    Message,
    middleware::renewal::Renewal,
    time::{Clock, SystemClock},
};

/// What all calls of one layer share.
pub(super) struct Shared<N> {
    pub(super) renew: N,
    pub(super) policy: Renewal,
    pub(super) clock: SystemClock,
}

pin_project! {
    /// Keeps the lock of one message.
    pub(super) struct Renewer<N: Renew> {
        shared: Arc<Shared<N>>,
        message: Message,
        #[pin]
        timer: Option<Sleep>,
        #[pin]
        renewing: Option<N::Future>,
        phase: Phase,
        started: Duration,
        // When the renewal that holds was asked for, and when the current one was.
        renewed: Duration,
        asked: Duration,
    }
}

#[derive(Clone, Copy)]
enum Phase {
    Idle,
    Waiting,
    Renewing,
    Over,
}

impl<N: Renew> Renewer<N> {
    pub(super) fn new(shared: Arc<Shared<N>>, message: Message) -> Self {
        let zero = Duration::ZERO;
        Self {
            shared,
            message,
            timer: None,
            renewing: None,
            phase: Phase::Idle,
            started: zero,
            renewed: zero,
            asked: zero,
        }
    }

    /// Keeps the lock for as long as it is polled; ready when the lock is lost.
    pub(super) fn poll_lost(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LockLost> {
        let mut this = self.project();
        let policy = this.shared.policy;
        let now = || this.shared.clock.now().elapsed;
        loop {
            let wait = match this.phase {
                Phase::Idle => {
                    let moment = this.shared.clock.now();
                    (*this.started, *this.renewed) = (moment.elapsed, moment.elapsed);
                    match this.message.received().map(|received| received.locked_until) {
                        None => policy.first(policy.lock()),
                        Some(None) => None,
                        // Only brings the renewal forward: the broker's clock is not ours.
                        Some(Some(until)) => policy.first(until.saturating_since(moment.utc)),
                    }
                }
                Phase::Waiting => {
                    ready!(this.timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx)));
                    *this.asked = now();
                    this.renewing.set(Some(this.shared.renew.renew(this.message)));
                    this.timer.set(Some(sleep(policy.left(*this.renewed, *this.asked))));
                    *this.phase = Phase::Renewing;
                    continue;
                }
                Phase::Renewing => {
                    let answer = this.renewing.as_mut().as_pin_mut().map_or(Poll::Pending, |renew| renew.poll(cx));
                    let Poll::Ready(answer) = answer else {
                        ready!(this.timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx)));
                        return Poll::Ready(LockLost::unanswered());
                    };
                    this.renewing.set(None);
                    match answer {
                        Ok(()) => {
                            *this.renewed = *this.asked;
                            policy.next(*this.started, *this.renewed, now())
                        }
                        Err(error) if error.is_lock_lost() => return Poll::Ready(error.into()),
                        Err(error) if policy.left(*this.renewed, now()).is_zero() => {
                            return Poll::Ready(error.into());
                        }
                        // After the total the handler runs on, as it does after a last renewal that succeeds.
                        Err(_) => policy.retry(*this.started, *this.renewed, now()),
                    }
                }
                Phase::Over => return Poll::Pending,
            };
            *this.phase = if wait.is_some() { Phase::Waiting } else { Phase::Over };
            this.timer.set(wait.map(sleep));
        }
    }
}
