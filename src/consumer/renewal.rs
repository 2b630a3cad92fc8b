//! The locks of handlers that run for long.

use std::{
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    deadline::Deadline,
    report::Report,
    slot::{Renewing, Settling, lock_of},
    slots::Slots,
    turn::Turn,
};
use crate::{
    Message,
    middleware::renewal::Renewal,
    transport::{Lease, Receiver, SettleError},
};

/// A settlement that was answered just before its deadline.
pub(super) struct Answered {
    pub(super) slot: usize,
    pub(super) settling: Settling,
    pub(super) result: Result<(), SettleError>,
    pub(super) message: Option<Message>,
}

impl<F: Future, L: Lease> Slots<F, L> {
    /// A handler was polled and goes on. The first time, its lock is put under renewal.
    pub(super) fn still_running<R: Receiver>(
        &mut self,
        slot: usize,
        turn: &mut Turn,
        deadline: &mut Deadline,
        report: &mut Report<'_, R>,
    ) {
        if self[slot].renewing.is_some() {
            self.poll_renewal(slot, deadline, report);
            return;
        }
        let place = &self[slot];
        let Some(unsettled) = &place.held else { return };
        let Some(lock) = lock_of(&unsettled.lease) else { return };
        let last = place.locked_at.unwrap_or_else(|| turn.now());
        let mut renewing = Renewing { lock, started: last, last, asked: None, due: last };
        renewing.schedule(deadline.epoch, report.options.renewal, turn.now());
        deadline.include(renewing.due);
        self[slot].renewing = Some(renewing);
    }

    /// Renews what is due, and ends handlers whose lock has run out and settlements without an answer. Returns the settlements that
    /// are answered by now.
    pub(super) fn renew_due<R: Receiver>(
        &mut self,
        now: Instant,
        deadline: &mut Deadline,
        report: &mut Report<'_, R>,
    ) -> Vec<Answered> {
        let mut answered = Vec::new();
        for slot in 0..self.len() {
            let place = &mut self[slot];
            if let Some(by) = place.settle_by {
                if now < by {
                    deadline.include(by);
                } else {
                    answered.extend(self.end_settlement(slot, report));
                }
                continue;
            }
            if place.renewing.as_ref().is_some_and(|renewing| now >= renewing.due && renewing.asked.is_some()) {
                // The answer may be there, if the task was not polled since.
                self.poll_renewal(slot, deadline, report);
            }
            let place = &mut self[slot];
            let (Some(renewing), Some(unsettled)) = (&mut place.renewing, &place.held) else { continue };
            if now < renewing.due {
                deadline.include(renewing.due);
            } else if now >= renewing.ends() {
                self.lock_lost(slot, report);
            } else if renewing.asked.is_none() {
                renewing.asked = Some((now, Box::pin(unsettled.lease.renew())));
                // An answer that does not come must not outlive the lock.
                renewing.due = renewing.ends().min(now + report.options.operation);
                deadline.include(renewing.due);
                self.poll_renewal(slot, deadline, report);
            } else {
                renewing.asked = None;
                renewing.schedule_retry(deadline.epoch, report.options.renewal, now);
                deadline.include(renewing.due);
                report.renewal_unanswered(Some(&unsettled.message));
            }
        }
        answered
    }

    fn poll_renewal<R: Receiver>(&mut self, slot: usize, deadline: &mut Deadline, report: &mut Report<'_, R>) {
        let place = &mut self[slot];
        let waker = place.waker().clone();
        let Some(renewing) = &mut place.renewing else { return };
        let Some((asked_at, future)) = &mut renewing.asked else { return };
        let asked_at = *asked_at;
        let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) else { return };
        renewing.asked = None;
        match result {
            Ok(_) => {
                report.options.stats.count_renewed();
                renewing.last = asked_at;
                renewing.schedule(deadline.epoch, report.options.renewal, asked_at);
            }
            Err(error) if error.is_lock_lost() => return self.lock_lost(slot, report),
            Err(error) => {
                report.renewal_failed(place.held.as_ref().map(|unsettled| &unsettled.message), &error);
                renewing.schedule_retry(deadline.epoch, report.options.renewal, Instant::now());
            }
        }
        deadline.include(renewing.due);
    }

    /// Drops a handler that has no right to its message any more. The lease goes with it; the broker has taken it back.
    #[cold]
    fn lock_lost<R: Receiver>(&mut self, slot: usize, report: &mut Report<'_, R>) {
        let place = &mut self[slot];
        let is_renewing = place.renewing.as_ref().is_some_and(|renewing| renewing.asked.is_some());
        report.lock_lost(place.held.as_ref().map(|unsettled| &unsettled.message), is_renewing);
        drop(place.end_call());
        self.set_free(slot);
    }

    /// Returns a settlement that is answered by now, and gives it up otherwise.
    #[cold]
    fn end_settlement<R: Receiver>(&mut self, slot: usize, report: &mut Report<'_, R>) -> Option<Answered> {
        let place = &mut self[slot];
        let answered = place.poll_settle();
        let message = place.settled.take();
        if let Poll::Ready((settling, result)) = answered {
            return Some(Answered { slot, settling, result, message });
        }
        report.unanswered(1, message.as_ref());
        place.forget_settling();
        self.set_free(slot);
        None
    }
}

impl<L: Lease> Renewing<L> {
    /// When the lock runs out unless it is renewed.
    pub(super) fn ends(&self) -> Instant {
        self.last + self.lock
    }

    /// When to renew next; after the last renewal, when the lock ends.
    fn schedule(&mut self, epoch: Instant, total: Duration, now: Instant) {
        let renewal = Renewal::new(self.lock).total(total);
        let since = |at: Instant| at.saturating_duration_since(epoch);
        let wait = renewal.next(since(self.started), since(self.last), since(now));
        self.due = match wait {
            Some(wait) if !total.is_zero() => now + wait,
            _ => self.ends(),
        };
    }

    pub(super) fn schedule_retry(&mut self, epoch: Instant, total: Duration, now: Instant) {
        let since = |at: Instant| at.saturating_duration_since(epoch);
        let wait = Renewal::new(self.lock).total(total).retry(since(self.started), since(self.last), since(now));
        self.due = wait.map_or_else(|| self.ends(), |wait| now + wait);
    }
}
