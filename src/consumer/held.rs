//! Messages that are held outside of the slots, under locks that are renewed: those whose id another consumer is handling, and
//! those whose delay the transport cannot keep.

use std::{
    future::Future,
    mem,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use super::slot::{Before, Renewing, Unsettled};
use crate::{
    Message,
    message::Holding,
    settlement::Changes,
    time::Timestamp,
    transport::{Delivery, Lease, SettleError},
};

/// The messages that are held.
pub(super) struct HeldMessages<L: Lease> {
    all: Vec<HeldMessage<L>>,
    /// How many of them are due.
    due: usize,
    /// How many renewals are not answered.
    renewing: usize,
    /// Whether a layer may request that a message is held.
    holding: Holding,
}

pub(super) struct HeldMessage<L: Lease> {
    pub(super) unsettled: Unsettled<L>,
    pub(super) since: Instant,
    /// The slot that it occupies, because no more could be held outside of the slots.
    pub(super) slot: Option<usize>,
    pub(super) next: Next,
    pub(super) due: Instant,
    pub(super) renewing: Option<Renewing<L>>,
    is_due: bool,
}

/// What becomes of it when it is due.
pub(super) enum Next {
    Call,
    Abandon(Changes),
}

/// The state of the lock of a held message.
pub(super) enum LockState {
    Unlocked,
    /// Nothing is to be done until then.
    Waits(Instant),
    Lost,
    /// It is to be renewed.
    Due,
    /// Its renewal should have been answered.
    Unanswered,
}

impl<L: Lease> HeldMessages<L> {
    /// At most so many of them are outside of the slots.
    pub(super) fn new(max: usize) -> Self {
        let holding = if max > 0 { Holding::May } else { Holding::No };
        Self { all: Vec::new(), due: 0, renewing: 0, holding }
    }

    /// Whether a layer may request that a message is held.
    #[inline]
    pub(super) fn holding(&self) -> Holding {
        self.holding
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one waits for the stack.
    pub(super) fn is_due(&self) -> bool {
        self.due > 0
    }

    /// Whether the renewal of one is not answered.
    #[inline]
    pub(super) fn is_renewing(&self) -> bool {
        self.renewing > 0
    }

    pub(super) fn push(&mut self, message: HeldMessage<L>) {
        self.all.push(message);
    }

    pub(super) fn message(&self, at: usize) -> &Message {
        &self.all[at].unsettled.message
    }

    pub(super) fn take_all(&mut self) -> Vec<HeldMessage<L>> {
        (self.due, self.renewing) = (0, 0);
        mem::take(&mut self.all)
    }

    /// Takes one out, with the slots that have become free by that: its own, or that of another one.
    pub(super) fn remove(&mut self, at: usize) -> (Delivery<L>, Option<usize>) {
        let (message, freed) = self.take(at);
        let freed = message.slot.or(freed);
        (message.into_delivery(), freed)
    }

    /// Takes one out, with the slot that has become free by that.
    pub(super) fn take(&mut self, at: usize) -> (HeldMessage<L>, Option<usize>) {
        let message = self.all.remove(at);
        self.due -= usize::from(message.is_due);
        self.renewing -= usize::from(message.is_renewing());
        let freed = match message.slot {
            Some(_) => None,
            None => self.all.iter_mut().find_map(|other| other.slot.take()),
        };
        (message, freed)
    }

    /// The first from `from` on that is due and can go on: in its own slot, or in a free one. A renewal is not dropped
    /// half-way.
    pub(super) fn next_due(&self, from: usize, has_free: bool) -> Option<usize> {
        let goes_on =
            |message: &HeldMessage<L>| message.is_due && !message.is_renewing() && (has_free || message.slot.is_some());
        if self.due == 0 {
            return None;
        }
        self.all.iter().skip(from).position(goes_on).map(|position| from + position)
    }

    /// Whether the stack is called with it.
    pub(super) fn is_called(&self, at: usize) -> bool {
        matches!(self.all[at].next, Next::Call)
    }

    /// Whether it can be released.
    pub(super) fn must_settle(&self, at: usize) -> bool {
        self.all[at].unsettled.lease.must_settle()
    }

    /// Marks one that is due. Returns until when it waits otherwise.
    pub(super) fn look(&mut self, at: usize, now: Instant) -> Option<Instant> {
        let message = &mut self.all[at];
        if message.is_due {
            return None;
        }
        if now < message.due {
            return Some(message.due);
        }
        message.is_due = true;
        self.due += 1;
        None
    }

    /// Makes one due that cannot be held for longer.
    pub(super) fn end_delay(&mut self, at: usize, now: Instant) {
        self.all[at].due = now;
        self.look(at, now);
    }

    pub(super) fn lock_state(&self, at: usize, now: Instant) -> LockState {
        match &self.all[at].renewing {
            None => LockState::Unlocked,
            Some(renewing) if now < renewing.due => LockState::Waits(renewing.due),
            Some(renewing) if now >= renewing.ends() => LockState::Lost,
            Some(renewing) if renewing.asked.is_none() => LockState::Due,
            Some(_) => LockState::Unanswered,
        }
    }

    /// Begins to renew the lock of one. Returns when the answer is due.
    pub(super) fn begin_renewal(&mut self, at: usize, now: Instant, timeout: Duration) -> Option<Instant> {
        let HeldMessage { unsettled, renewing, .. } = &mut self.all[at];
        let renewing = renewing.as_mut()?;
        renewing.asked = Some((now, Box::pin(unsettled.lease.renew())));
        renewing.due = renewing.ends().min(now + timeout);
        self.renewing += 1;
        Some(renewing.due)
    }

    /// The answer to the renewal of one, and when it began.
    pub(super) fn poll_renewal(
        &mut self,
        at: usize,
        cx: &mut Context<'_>,
    ) -> Option<(Instant, Result<Timestamp, SettleError>)> {
        let renewing = self.all[at].renewing.as_mut()?;
        let (began, future) = renewing.asked.as_mut()?;
        let began = *began;
        let Poll::Ready(result) = future.as_mut().poll(cx) else { return None };
        renewing.asked = None;
        self.renewing -= 1;
        Some((began, result))
    }

    /// The lock of one is renewed. Returns when to renew it again.
    pub(super) fn renewed(&mut self, at: usize, began: Instant, until: Timestamp) -> Option<Instant> {
        let HeldMessage { unsettled, renewing, .. } = &mut self.all[at];
        // A layer may look at it when the stack is called again.
        unsettled.message.set_locked_until(until);
        let renewing = renewing.as_mut()?;
        renewing.last = began;
        renewing.due = began + renewing.lock / 2;
        Some(renewing.due)
    }

    /// The renewal of one has failed, or is given up. Returns when to try again.
    pub(super) fn retry_renewal(&mut self, at: usize, epoch: Instant, now: Instant) -> Option<Instant> {
        let renewing = self.all[at].renewing.as_mut()?;
        self.renewing -= usize::from(renewing.asked.take().is_some());
        // A held message is renewed for as long as it is held.
        renewing.schedule_retry(epoch, Duration::MAX, now);
        Some(renewing.due)
    }
}

impl<L: Lease> HeldMessage<L> {
    pub(super) fn new(
        unsettled: Unsettled<L>,
        since: Instant,
        slot: Option<usize>,
        next: Next,
        due: Instant,
        renewing: Option<Renewing<L>>,
    ) -> Self {
        Self { unsettled, since, slot, next, due, renewing, is_due: false }
    }

    pub(super) fn into_delivery(self) -> Delivery<L> {
        let Unsettled { message, lease, .. } = self.unsettled;
        Delivery { message, lease }
    }

    fn is_renewing(&self) -> bool {
        self.renewing.as_ref().is_some_and(|renewing| renewing.asked.is_some())
    }

    /// How it was held, for the next call.
    pub(super) fn before(&self) -> Before {
        let locked_at = self.renewing.as_ref().map_or(self.since, |renewing| renewing.last);
        Before { since: self.since, locked_at }
    }
}
