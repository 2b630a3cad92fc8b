//! Holds messages, renews their locks, and dispatches them again.

use std::{
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{HeldMessage, Next};
use crate::consumer::{
    cause::Cause,
    health::Failure,
    report::{Report, is_last},
    run::ConsumerRun,
    slot::{Before, LONGEST_LOCK, Renewing, Settling, Unsettled, lock_of},
};
use crate::{
    Disposition, Message,
    message::Holding,
    settlement::{Changes, Then},
    transport::{Delivery, Lease, Receiver, deadline::Timed},
};

/// The shortest and the longest time from one call of the stack to the next. In between it is half of the time that the
/// message has been held.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);
/// How long a message is released for, if no more can be held: at least, and at most.
const RELEASED: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// What becomes of an abandoned message that is to wait.
    #[cold]
    pub(in crate::consumer) fn hold_or_delay(&mut self, slot: usize, held: Unsettled<R::Lease>, changes: Changes) {
        let now = Instant::now();
        match changes.then() {
            Some(Then::Delay(delay)) if !is_last(&self.incoming.receiver, &held.message) => {
                self.delay(slot, held, now, delay, changes.at_once());
            }
            Some(Then::Hold(left)) => self.hold(slot, held, now, left),
            _ => self.settle(slot, held, Disposition::Abandon(changes.at_once())),
        }
    }

    fn delay(&mut self, slot: usize, held: Unsettled<R::Lease>, now: Instant, delay: Duration, changes: Changes) {
        let Some(lock) = lock_of(&held.lease) else { return self.settle(slot, held, Disposition::Abandon(changes)) };
        let Unsettled { lease, message, before } = held;
        let lease = match lease.abandon_after(changes.clone(), delay) {
            Ok(settle) => {
                self.slots[slot].cause = Cause::abandon(&changes).map(Box::new);
                return self.settle_by(slot, message, Settling::Abandon, settle, lock);
            }
            Err(lease) => lease,
        };
        let held = Unsettled { lease, message, before };
        if self.timers.is_draining() {
            return self.settle(slot, held, Disposition::Abandon(changes));
        }
        tracing::debug!("the transport has no delay: the consumer keeps the message meanwhile");
        let due = now.checked_add(delay).unwrap_or_else(|| now + LONGEST_LOCK);
        self.keep_outside(slot, held, now, due, Next::Abandon(changes));
    }

    fn hold(&mut self, slot: usize, held: Unsettled<R::Lease>, now: Instant, left: Duration) {
        let Unsettled { lease, mut message, before } = held;
        if before.is_none() {
            self.options.stats.count_held();
        }
        let lock = lock_of(&lease);
        if self.timers.is_draining() {
            self.slots.set_free(slot);
            return self.release(Delivery { message, lease });
        }
        let lease = match lock {
            Some(lock) if self.settlements.held.len() >= self.options.max_held => {
                let [least, most] = RELEASED;
                match lease.release_after(left.clamp(least, most)) {
                    Ok(settle) => {
                        self.slots[slot].cause = None;
                        return self.settle_by(slot, message, Settling::Release, settle, lock);
                    }
                    Err(lease) => lease,
                }
            }
            _ => lease,
        };
        message.set_holding(Holding::Was);
        let waited = before.map_or(Duration::ZERO, |before| now.saturating_duration_since(before.since));
        let pause = (waited / 2).clamp(SHORTEST, LONGEST);
        let pause = if left.is_zero() { pause } else { pause.min(left.max(Duration::from_millis(1))) };
        self.keep_outside(slot, Unsettled { lease, message, before }, now, now + pause, Next::Call);
    }

    /// Keeps a message outside of its slot, or in it if no more can be held.
    fn keep_outside(&mut self, slot: usize, held: Unsettled<R::Lease>, now: Instant, due: Instant, next: Next) {
        let since = held.before.map_or(now, |before| before.since);
        let renewing = lock_of(&held.lease).map(|lock| {
            // How much of the lock is left the first time is not known, so it is renewed at once.
            let (last, due) = match held.before {
                Some(Before { locked_at, .. }) => (locked_at, locked_at + lock / 2),
                None if self.options.renewal.is_zero() => (now, now + lock / 2),
                None => (now, now),
            };
            self.timers.include(due);
            Renewing { lock, started: last, last, due, asked: None }
        });
        self.timers.include(due);
        let is_full = self.settlements.held.len() >= self.options.max_held;
        if !is_full {
            self.slots.set_free(slot);
        }
        let slot = is_full.then_some(slot);
        self.settlements.held.all.push(HeldMessage { held, since, slot, next, due, is_due: false, renewing });
    }

    /// Looks for what is due.
    pub(in crate::consumer) fn held_due(&mut self, now: Instant, cx: &mut Context<'_>) {
        for at in (0..self.settlements.held.all.len()).rev() {
            let keep = &mut self.settlements.held.all[at];
            if !keep.is_due {
                if now >= keep.due {
                    keep.is_due = true;
                    self.settlements.held.due += 1;
                } else {
                    self.timers.include(keep.due);
                }
            }
            let Some(renewing) = &mut keep.renewing else { continue };
            if now < renewing.due {
                self.timers.include(renewing.due);
            } else if now >= renewing.ends() {
                self.lose_held(at);
            } else if self.options.renewal.is_zero() {
                let (HeldMessage { held: Unsettled { lease, message, .. }, slot, .. }, freed) =
                    self.settlements.held.take(at);
                self.slots.set_all_free(slot.into_iter().chain(freed));
                self.release(Delivery { message, lease });
            } else if renewing.asked.is_none() {
                renewing.asked = Some((now, Box::pin(keep.held.lease.renew())));
                renewing.due = renewing.ends().min(now + self.options.operation);
                self.timers.include(renewing.due);
                self.settlements.held.asked += 1;
            } else {
                renewing.asked = None;
                self.settlements.held.asked -= 1;
                renewing.schedule_retry(self.timers.deadline.epoch, now);
                self.timers.include(renewing.due);
                let mut report = Report { options: &mut self.options, receiver: &self.incoming.receiver };
                report.renewal_unanswered(Some(&keep.held.message));
            }
        }
        self.poll_held(cx);
    }

    /// Polls the renewals of held messages.
    #[inline]
    pub(in crate::consumer) fn poll_held(&mut self, cx: &mut Context<'_>) {
        if self.settlements.held.asked > 0 {
            self.poll_open_renewals(cx);
        }
    }

    #[cold]
    fn poll_open_renewals(&mut self, cx: &mut Context<'_>) {
        for at in (0..self.settlements.held.all.len()).rev() {
            let HeldMessage { held, renewing, .. } = &mut self.settlements.held.all[at];
            let Some(renewing) = renewing else { continue };
            let Some((asked_at, future)) = &mut renewing.asked else { continue };
            let asked_at = *asked_at;
            let Poll::Ready(result) = future.as_mut().poll(cx) else { continue };
            renewing.asked = None;
            self.settlements.held.asked -= 1;
            match result {
                Ok(until) => {
                    // A layer may look at it when the stack is called again.
                    held.message.set_locked_until(until);
                    self.options.stats.count_renewed();
                    renewing.last = asked_at;
                    renewing.due = asked_at + renewing.lock / 2;
                }
                Err(error) if error.is_lock_lost() => {
                    self.lose_held(at);
                    continue;
                }
                Err(error) => {
                    let mut report = Report { options: &mut self.options, receiver: &self.incoming.receiver };
                    report.renewal_failed(Some(&held.message), &error);
                    renewing.schedule_retry(self.timers.deadline.epoch, Instant::now());
                }
            }
            self.timers.include(renewing.due);
        }
    }

    /// Drops a message that is not this consumer's any more.
    #[cold]
    fn lose_held(&mut self, at: usize) {
        self.options.stats.count_lock_lost();
        self.options.health.failed(Failure::LockLost);
        let (HeldMessage { held, slot, .. }, freed) = self.settlements.held.take(at);
        self.options.log.held_lost(&self.incoming.receiver.entity_info(), Some(&held.message));
        self.slots.set_all_free(slot.into_iter().chain(freed));
        if self.incoming.is_empty() {
            self.give_up_place();
        }
    }

    /// Puts a held message that is due before the batch, with its slot before the free ones, if the stack is ready for
    /// it: it is dispatched next. Abandons those before it that only had to wait. `false` if there is none.
    #[cold]
    pub(in crate::consumer) fn bring_held(&mut self, cx: &mut Context<'_>) -> bool {
        let mut at = 0;
        while self.settlements.held.due > 0
            && let Some(keep) = self.settlements.held.all.get(at)
        {
            // A renewal is not dropped half-way.
            if !keep.is_due || keep.is_renewing() || keep.slot.is_none() && !self.slots.has_free() {
                at += 1;
                continue;
            }
            let is_called = matches!(keep.next, Next::Call);
            if is_called && self.poll_stack(cx) != Poll::Ready(true) {
                return false;
            }
            let (HeldMessage { held, since, slot, next, renewing, .. }, freed) = self.settlements.held.take(at);
            self.slots.set_all_free(freed);
            let Some(slot) = slot.or_else(|| self.slots.take_free()) else { return false };
            let locked_at = renewing.map_or(since, |renewing| renewing.last);
            let before = Some(Before { since, locked_at });
            match next {
                Next::Abandon(changes) => {
                    self.settle(slot, Unsettled { before, ..held }, Disposition::Abandon(changes));
                }
                Next::Call => {
                    let Unsettled { lease, message, .. } = held;
                    self.slots[slot].before = before;
                    self.slots.set_free(slot);
                    self.incoming.push(Delivery { message, lease });
                    return true;
                }
            }
        }
        false
    }

    /// Releases everything that is held: no handler has seen it. What waits for a delay has failed.
    pub(in crate::consumer) fn release_held(&mut self) {
        let all = self.settlements.held.take_all();
        for HeldMessage { held: Unsettled { lease, message, .. }, slot, next, .. } in all {
            self.slots.set_all_free(slot);
            match next {
                Next::Abandon(changes) => {
                    let settle = lease.settle(Disposition::Abandon(changes));
                    self.settlements.push_release(Timed::new(settle, self.options.operation));
                }
                Next::Call => self.release(Delivery { message, lease }),
            }
        }
    }
}
