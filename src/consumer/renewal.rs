//! The locks of handlers that run for long.

use std::{
    future::Future,
    task::{Context, Poll},
};

use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{
    Options,
    health::Failure,
    run::{ConsumerRun, Turn},
    slot::{Renewing, lock_of},
};
use crate::{
    Disposition, Message,
    middleware::renewal::Renewal,
    transport::{Lease, Receiver, SettleError, deadline::Unanswered},
};

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// A handler was polled and goes on. The first time, its lock is put under renewal.
    pub(super) fn still_running(&mut self, slot: usize, turn: &mut Turn) {
        if self.slots[slot].renewing.is_some() {
            self.poll_renewal(slot);
            return;
        }
        let place = &self.slots[slot];
        let Some(held) = &place.held else { return };
        let Some(lock) = lock_of(&held.lease) else { return };
        let last = place.locked_at.unwrap_or_else(|| turn.now());
        let mut renewing = Renewing { lock, started: last, last, asked: None, due: last };
        renewing.schedule(self.timers.deadline.epoch, self.options.renewal, turn.now());
        self.timers.include(renewing.due);
        self.slots[slot].renewing = Some(renewing);
    }

    /// Renews what is due, and ends handlers whose lock has run out and settlements without an answer.
    pub(super) fn renew_due(&mut self, now: Instant) {
        for slot in 0..self.slots.len() {
            let place = &mut self.slots[slot];
            if let Some(by) = place.settle_by {
                if now < by {
                    self.timers.include(by);
                } else {
                    self.give_settlement_up(slot);
                }
                continue;
            }
            let (Some(renewing), Some(held)) = (&mut place.renewing, &place.held) else { continue };
            if now < renewing.due {
                self.timers.include(renewing.due);
            } else if now >= renewing.ends() {
                self.lock_lost(slot);
            } else if renewing.asked.is_none() {
                renewing.asked = Some((now, Box::pin(held.lease.renew())));
                // An answer that does not come must not outlive the lock.
                renewing.due = renewing.ends().min(now + self.options.operation);
                self.timers.include(renewing.due);
                self.poll_renewal(slot);
            } else {
                renewing.asked = None;
                renewing.schedule_retry(self.timers.deadline.epoch, now);
                self.timers.include(renewing.due);
                self.options.stats.count_timed_out();
                let unanswered = Unanswered::after(self.options.operation).into();
                renewal_failed(&mut self.options, &self.incoming.receiver, Some(&held.message), &unanswered);
            }
        }
    }

    fn poll_renewal(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        let waker = place.waker().clone();
        let Some(renewing) = &mut place.renewing else { return };
        let Some((asked_at, future)) = &mut renewing.asked else { return };
        let asked_at = *asked_at;
        let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) else { return };
        renewing.asked = None;
        match result {
            Ok(_) => {
                self.options.stats.count_renewed();
                renewing.last = asked_at;
                renewing.schedule(self.timers.deadline.epoch, self.options.renewal, asked_at);
            }
            Err(error) if error.is_lock_lost() => return self.lock_lost(slot),
            Err(error) => {
                let message = place.held.as_ref().map(|held| &held.message);
                renewal_failed(&mut self.options, &self.incoming.receiver, message, &error);
                renewing.schedule_retry(self.timers.deadline.epoch, Instant::now());
            }
        }
        self.timers.include(renewing.due);
    }

    /// Drops a handler that has no right to its message any more. The lease goes with it; the broker knows.
    #[cold]
    fn lock_lost(&mut self, slot: usize) {
        let place = &self.slots[slot];
        let message = place.held.as_ref().map(|held| &held.message);
        self.options.log.lock_lost(&self.incoming.receiver.entity_info(), message);
        if place.renewing.as_ref().is_some_and(|renewing| renewing.asked.is_some()) {
            self.options.stats.count_timed_out();
        }
        self.options.stats.count_cancelled();
        self.options.stats.count_lock_lost();
        self.options.health.failed(Failure::LockLost);
        drop(self.slots[slot].end_call());
        self.slots.set_free(slot);
    }
}

/// A renewal failed that is repeated while the lock holds.
#[cold]
pub(super) fn renewal_failed(
    options: &mut Options,
    receiver: &impl Receiver,
    message: Option<&Message>,
    error: &SettleError,
) {
    options.log.not_renewed(&receiver.entity_info(), message, error);
    options.health.failed(Failure::Renew(error.kind()));
}

impl<L: Lease> Renewing<L> {
    /// When the lock runs out unless it is renewed.
    pub(super) fn ends(&self) -> Instant {
        self.last + self.lock
    }

    /// When to renew next; after the last renewal, when the lock ends.
    fn schedule(&mut self, epoch: Instant, total: std::time::Duration, now: Instant) {
        let renewal = Renewal::new(self.lock).total(total);
        let since = |at: Instant| at.saturating_duration_since(epoch);
        let wait = renewal.next(since(self.started), since(self.last), since(now));
        self.due = match wait {
            Some(wait) if !total.is_zero() => now + wait,
            _ => self.ends(),
        };
    }

    pub(super) fn schedule_retry(&mut self, epoch: Instant, now: Instant) {
        let since = |at: Instant| at.saturating_duration_since(epoch);
        let wait = Renewal::new(self.lock).retry(since(self.last), since(now));
        self.due = wait.map_or_else(|| self.ends(), |wait| now + wait);
    }
}
