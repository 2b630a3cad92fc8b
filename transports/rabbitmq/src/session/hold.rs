//! Operations of the holder of a session.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use consign_core::{
    settlement::{Changes, DeadLetter},
    time::Timestamp,
    transport::{Delivery, ErrorKind, ReceiveError, SettleError},
};
use tokio::{sync::oneshot, time::Instant};

use super::{
    error::lost,
    lease::SessionLock,
    slot::{Pin, Slot, State},
    work::{Done, Job, Work},
};
use crate::{
    RabbitMqLease,
    receiver::{RabbitMqSettle, copy, delivered::Held},
};

/// A session that is held here.
pub(super) struct Hold {
    pub(super) slot: Arc<Slot>,
    pub(super) id: Arc<str>,
    /// The number of this hold of the slot.
    number: u64,
}

impl Pin {
    /// Locks a session.
    pub(super) fn hold(&self, id: &str) -> Result<Hold, ReceiveError> {
        let number = self.lock(id)?;
        Ok(Hold { slot: Arc::clone(self.slot()), id: id.into(), number })
    }
}

impl Hold {
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<RabbitMqLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let slot = &self.slot;
        let now = slot.client.now();
        let mut expired = Vec::new();
        let before = out.len();
        let mut state = slot.state();
        let Some((ready, holder)) = state.holder(&self.id, self.number) else {
            return Poll::Ready(Err(ReceiveError::new(ErrorKind::SessionLockLost)));
        };
        while out.len() - before < max {
            let Some((tag, held)) = ready.pop_first() else { break };
            if held.facts.expires_at.is_some_and(|at| at <= now) {
                expired.push(held);
                continue;
            }
            let mut received = held.received(false);
            received.locked_until = Some(holder.until_utc);
            let message = held.message.clone().with_received(received);
            holder.delivered.insert(tag, held);
            let lock = SessionLock::new(Arc::clone(slot), Arc::clone(&self.id), self.number, tag);
            out.push(Delivery { message, lease: RabbitMqLease::of_session(lock) });
        }
        let taken = out.len() - before;
        if taken == 0 && holder.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            holder.waker = Some(cx.waker().clone());
        }
        for held in expired {
            slot.expire(&mut state, &self.id, held, None);
        }
        if taken > 0 { Poll::Ready(Ok(taken)) } else { Poll::Pending }
    }

    /// Records that there is no waiting receive for now.
    pub(super) fn stop(&self) {
        if let Some((_, holder)) = self.slot.state().holder(&self.id, self.number) {
            holder.waker = None;
        }
    }

    pub(super) fn renew(&self) -> Result<Timestamp, SettleError> {
        let lock = self.slot.source.settings.lock_duration;
        let until_utc = self.slot.client.now().saturating_add(lock);
        let mut state = self.slot.state();
        let (_, holder) = state.holder(&self.id, self.number).ok_or_else(lost)?;
        (holder.until, holder.until_utc) = (Instant::now() + lock, until_utc);
        Ok(until_utc)
    }

    pub(super) fn state(&self) -> Result<Option<Bytes>, SettleError> {
        let mut state = self.slot.state();
        state.holder(&self.id, self.number).ok_or_else(lost)?;
        Ok(state.ledger.get(&self.id).and_then(|record| record.state.clone()))
    }

    pub(super) fn set_state(&self, to: Option<Bytes>) -> RabbitMqSettle {
        let mut state = self.slot.state();
        if state.holder(&self.id, self.number).is_none() {
            return RabbitMqSettle::err(lost());
        }
        let before = state.ledger.get(&self.id).and_then(|record| record.state.clone());
        state.ledger.change(&self.id, |record| record.state.clone_from(&to));
        let (done, answer) = oneshot::channel();
        state.jobs.push(Job { id: Arc::clone(&self.id), work: Work::State { before, to }, done: Some(done) });
        drop(state);
        self.slot.changed.notify_one();
        RabbitMqSettle::left(answer)
    }

    /// Gives the session up. Unsettled deliveries do not count.
    pub(super) fn give_up(&self) -> bool {
        let was_held = self.slot.state().give_up(&self.id, self.number);
        if was_held {
            self.slot.changed.notify_one();
            self.slot.client.slots.changed.notify_waiters();
        }
        was_held
    }
}

impl Slot {
    /// Takes a dispatched delivery that is still held.
    pub(super) fn take(&self, id: &str, hold: u64, tag: u64) -> Option<Held> {
        let mut state = self.state();
        let (_, holder) = state.holder(id, hold)?;
        let held = holder.delivered.remove(&tag)?;
        if held.ticket.is_lost() {
            return None;
        }
        Some(held)
    }

    /// Records a failed delivery: its message is the next one again, or a dead letter.
    pub(super) fn fail(&self, state: &mut State, id: &str, mut held: Held, changes: Changes, done: Done) {
        let now = self.client.now();
        if held.facts.expires_at.is_some_and(|at| at <= now) {
            return self.expire(state, id, held, done);
        }
        held.facts.failed = held.facts.failed.saturating_add(1);
        if held.facts.failed >= self.source.settings.max_delivery_count {
            let mut dead_letter = DeadLetter::max_delivery_count_exceeded(held.facts.failed, None);
            dead_letter.changes = changes;
            dead_letter.fit(held.message.properties());
            let work = Work::DeadLetter(held, Box::new(dead_letter));
            state.jobs.push(Job { id: id.into(), work, done });
        } else if copy::outgrows(&held, &changes) {
            let work = Work::DeadLetter(held, Box::new(DeadLetter::header_size_exceeded()));
            state.jobs.push(Job { id: id.into(), work, done });
        } else {
            let changes = changes.into_permitted();
            if !changes.is_empty() {
                held.message.properties_mut().application_properties_mut().merge(changes);
            }
            let (number, failed) = (held.facts.number, held.facts.failed);
            // Messages of other publishers have none.
            if number != 0 {
                state.ledger.change(id, |record| {
                    record.failures.insert(number, failed);
                });
            }
            state.put_back(id, held);
            state.jobs.push(Job { id: id.into(), work: Work::Record, done });
        }
        self.changed.notify_one();
    }

    /// Records that the time to live of a message is over.
    pub(super) fn expire(&self, state: &mut State, id: &str, held: Held, done: Done) {
        let work = if self.source.settings.dead_letter_on_expiration {
            Work::DeadLetter(held, Box::new(DeadLetter::ttl_expired()))
        } else {
            Work::Drop(held)
        };
        state.jobs.push(Job { id: id.into(), work, done });
        self.changed.notify_one();
    }
}
