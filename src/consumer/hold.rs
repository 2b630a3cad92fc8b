//! Holds messages outside of the slots, renews their locks, and dispatches them again.

use std::{
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{
    cause::Cause,
    dead::is_dead,
    health::ConsumerFailure,
    held::{HeldMessage, LockState, Next},
    report::{Report, is_last},
    run::ConsumerRun,
    settlements::Delayed,
    slot::{Before, LONGEST_LOCK, Renewing, Settling, Unsettled, lock_of, settled_within},
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
    pub(super) fn hold_or_delay(&mut self, slot: usize, held: Unsettled<R::Lease>, changes: Changes) {
        let now = Instant::now();
        match changes.then() {
            Some(Then::Delay(delay))
                if is_dead(&held.message) && held.lease.must_settle() && !self.timers.is_draining() =>
            {
                let (least, changes) = self.failed_again(&held.message, changes.at_once());
                self.delay(slot, held, now, delay.max(least), changes);
            }
            Some(Then::Delay(delay)) if !is_last(&self.incoming.receiver, &held.message) => {
                self.delay(slot, held, now, delay, changes.at_once());
            }
            Some(Then::Hold(left)) => self.hold(slot, held, now, left),
            _ => self.settle(slot, held, Disposition::Abandon(changes.at_once())),
        }
    }

    /// Abandons a message after a delay: by the transport, or by holding it until then.
    pub(super) fn delay(
        &mut self,
        slot: usize,
        held: Unsettled<R::Lease>,
        now: Instant,
        delay: Duration,
        changes: Changes,
    ) {
        let Some(within) = settled_within(&held.lease) else {
            return self.settle(slot, held, Disposition::Abandon(changes));
        };
        let Unsettled { lease, message, before } = held;
        let lease = match lease.abandon_after(changes.clone(), delay) {
            Ok(settle) => {
                self.slots[slot].cause = Cause::abandon(&changes).map(Box::new);
                return self.settle_by(slot, message, Settling::Abandon, settle, within);
            }
            Err(lease) => lease,
        };
        let held = Unsettled { lease, message, before };
        if self.timers.is_draining() {
            return self.settle(slot, held, Disposition::Abandon(changes));
        }
        tracing::debug!("the transport does not support delays: the consumer holds the message");
        let due = now.checked_add(delay).unwrap_or_else(|| now + LONGEST_LOCK);
        self.keep_outside(slot, held, now, due, Next::Abandon(changes));
    }

    fn hold(&mut self, slot: usize, held: Unsettled<R::Lease>, now: Instant, left: Duration) {
        let Unsettled { lease, mut message, before } = held;
        if before.is_none() {
            self.options.stats.count_held();
        }
        let within = settled_within(&lease);
        if self.timers.is_draining() || self.incoming.is_suspended() && within.is_some() {
            self.slots.set_free(slot);
            return self.release(Delivery { message, lease });
        }
        let lease = match within {
            Some(within) if self.settlements.held.len() >= self.options.max_held => {
                let [least, most] = RELEASED;
                match lease.release_after(left.clamp(least, most)) {
                    Ok(settle) => {
                        self.slots[slot].cause = None;
                        return self.settle_by(slot, message, Settling::Release, settle, within);
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
        self.settlements.held.push(HeldMessage::new(held, since, slot, next, due, renewing));
    }

    /// Looks for what is due.
    pub(super) fn held_due(&mut self, now: Instant, cx: &mut Context<'_>) {
        // What is answered by now is not late.
        self.poll_held(cx);
        for at in (0..self.settlements.held.len()).rev() {
            let held = &mut self.settlements.held;
            self.timers.include_some(held.look(at, now));
            match held.lock_state(at, now) {
                LockState::Unlocked => {}
                LockState::Waits(until) => self.timers.include(until),
                LockState::Lost => self.lose_held(at),
                LockState::Due if self.options.renewal.is_zero() && held.is_called(at) => {
                    let (delivery, freed) = held.remove(at);
                    self.slots.set_all_free(freed);
                    self.release(delivery);
                }
                LockState::Due if self.options.renewal.is_zero() => held.end_delay(at, now),
                LockState::Due => self.timers.include_some(held.begin_renewal(at, now, self.options.operation)),
                LockState::Unanswered => {
                    self.timers.include_some(held.retry_renewal(at, self.timers.deadline.epoch, now));
                    let mut report = Report { options: &mut self.options, receiver: &self.incoming.receiver };
                    report.renewal_unanswered(Some(held.message(at)));
                }
            }
        }
        self.poll_held(cx);
    }

    /// Polls the renewals of held messages.
    #[inline]
    pub(super) fn poll_held(&mut self, cx: &mut Context<'_>) {
        if self.settlements.held.is_renewing() {
            self.poll_open_renewals(cx);
        }
    }

    #[cold]
    fn poll_open_renewals(&mut self, cx: &mut Context<'_>) {
        for at in (0..self.settlements.held.len()).rev() {
            let held = &mut self.settlements.held;
            let Some((began, result)) = held.poll_renewal(at, cx) else { continue };
            match result {
                Ok(until) => {
                    self.options.stats.count_renewed();
                    self.timers.include_some(held.renewed(at, began, until));
                }
                Err(error) if error.is_lock_lost() => self.lose_held(at),
                Err(error) => {
                    let mut report = Report { options: &mut self.options, receiver: &self.incoming.receiver };
                    report.renewal_failed(Some(held.message(at)), &error);
                    self.timers.include_some(held.retry_renewal(at, self.timers.deadline.epoch, Instant::now()));
                }
            }
        }
    }

    /// Drops a message that is not this consumer's any more.
    #[cold]
    fn lose_held(&mut self, at: usize) {
        self.options.stats.count_lock_lost();
        self.options.health.failed(ConsumerFailure::LockLost);
        let (lost, freed) = self.settlements.held.remove(at);
        self.options.log.held_lost(&self.incoming.receiver.entity_info(), Some(&lost.message));
        self.slots.set_all_free(freed);
        if self.incoming.is_empty() {
            self.give_up_place();
        }
    }

    /// Puts a held message that is due before the batch, with its slot before the free ones, if the stack is ready for
    /// it: it is dispatched next. Abandons those before it that only had to wait. `false` if there is none.
    #[cold]
    pub(super) fn bring_held(&mut self, cx: &mut Context<'_>) -> bool {
        let mut from = 0;
        while let Some(at) = self.settlements.held.next_due(from, self.slots.has_free()) {
            from = at;
            if self.settlements.held.is_called(at) && self.incoming.is_suspended() {
                from += 1;
                continue;
            }
            if self.settlements.held.is_called(at) && self.poll_stack(cx) != Poll::Ready(true) {
                return false;
            }
            let (held, freed) = self.settlements.held.take(at);
            self.slots.set_all_free(freed);
            let before = held.before();
            let HeldMessage { unsettled, slot, next, .. } = held;
            let Some(slot) = slot.or_else(|| self.slots.take_free()) else { return false };
            match next {
                Next::Abandon(changes) => {
                    self.delay_passed(slot, Unsettled { before: Some(before), ..unsettled }, changes);
                }
                Next::Call => {
                    let Unsettled { lease, message, .. } = unsettled;
                    self.slots.set_free(slot);
                    self.incoming.push(Delivery { message, lease }, before);
                    return true;
                }
            }
        }
        false
    }

    /// Releases what is held to be dispatched again. What waits for a delay stays, and so does what cannot be released.
    pub(super) fn release_held_calls(&mut self) {
        for at in (0..self.settlements.held.len()).rev() {
            if self.settlements.held.is_called(at) && self.settlements.held.must_settle(at) {
                let (delivery, freed) = self.settlements.held.remove(at);
                self.slots.set_all_free(freed);
                self.release(delivery);
            }
        }
    }

    /// Releases everything that is held: no handler has seen it. What waits for a delay has failed.
    pub(super) fn release_held(&mut self) {
        for HeldMessage { unsettled, slot, next, .. } in self.settlements.held.take_all() {
            let Unsettled { lease, message, .. } = unsettled;
            self.slots.set_all_free(slot);
            match next {
                Next::Abandon(changes) => {
                    let delayed = Delayed { message, cause: Cause::abandon(&changes) };
                    let settle = lease.settle(Disposition::Abandon(changes));
                    self.settlements.push_abandon(Timed::new(settle, self.options.operation), delayed);
                }
                Next::Call => self.release(Delivery { message, lease }),
            }
        }
    }
}
