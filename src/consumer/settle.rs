//! Settles a message when its handler has ended.

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
    completion_batch::Answered,
    dead::is_dead,
    report::is_last,
    run::ConsumerRun,
    slot::{Ended, Settling, Unsettled, settled_within},
    turn::Turn,
    undeliverable::{Fate, NotSettled},
};
use crate::{
    Disposition, Message,
    settlement::Changes,
    transport::{Capabilities, Delivery, Lease, Receiver, SettleError, deadline::Timed},
};

/// What becomes of a message that is not completed.
pub(super) enum Otherwise {
    Settled(Disposition),
    /// It is abandoned after a delay.
    Delayed(Duration, Changes),
    /// It cannot be settled.
    Gone,
}

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    #[inline]
    pub(super) fn poll_slot(&mut self, slot: usize, turn: &mut Turn) {
        let place = &mut self.slots[slot];
        if !place.is_calling() {
            self.poll_settle(slot);
            return;
        }
        match place.poll_call() {
            Poll::Pending => self.still_running(slot, turn),
            Poll::Ready(ended) => {
                if let Some(held) = place.release() {
                    self.ended(slot, held, ended);
                }
            }
        }
    }

    /// Settles the message of a call that has ended.
    #[inline]
    pub(super) fn ended(
        &mut self,
        slot: usize,
        held: Unsettled<R::Lease>,
        ended: Ended<Result<Disposition, S::Error>>,
    ) {
        match ended {
            Ended::Answered(Ok(disposition)) => self.settle(slot, held, disposition),
            Ended::Answered(Err(error)) => {
                let disposition = self.report().call_failed(error);
                self.settle(slot, held, disposition);
            }
            Ended::Panicked(panicked) => {
                let disposition = self.report().call_panicked(&panicked);
                self.settle(slot, held, disposition);
            }
        }
    }

    /// Whether the completion of a message may wait for that of others.
    #[inline]
    pub(super) fn is_batched(&self, lease: &R::Lease) -> bool {
        // The last of a batch is completed next, if no other handler goes on.
        let is_next = || self.incoming.is_empty() && self.slots.free() + 1 == self.slots.open();
        lease.completes_in_batches()
            && (self.incoming.pace.is_quick() || is_next())
            && lease.must_settle()
            && !self.settlements.completions.is_full()
    }

    /// Completes the messages of the completion batch.
    #[inline]
    pub(super) fn complete_batch(&mut self) {
        if !self.settlements.completions.is_empty() {
            self.complete_open_batch();
        }
    }

    fn complete_open_batch(&mut self) {
        let (completed, not_all) = self.settlements.completions.complete();
        self.options.stats.count_all_completed(completed as u64);
        if let Some(answered) = not_all {
            self.batch_completed(answered);
        }
    }

    /// Counts completions that the broker has answered. Returns whether there was one.
    #[inline]
    pub(super) fn poll_completions(&mut self, cx: &mut Context<'_>) -> bool {
        !self.settlements.completions.is_answered() && self.poll_answers(cx)
    }

    #[cold]
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut is_any = false;
        while let Some(answered) = self.settlements.completions.poll_answer(cx) {
            is_any = true;
            self.batch_completed(answered);
        }
        is_any
    }

    #[cold]
    fn batch_completed(&mut self, Answered { messages, result }: Answered) {
        let failures = match result {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(error)) => error.into_failures(),
            Err(_) => return self.report().unanswered(messages as u64, None),
        };
        self.options.stats.count_all_completed((messages - failures.len()) as u64);
        self.report().completions_failed(failures);
    }

    /// Settles the message of a call that is over.
    #[inline]
    pub(super) fn settle(&mut self, slot: usize, held: Unsettled<R::Lease>, disposition: Disposition) {
        let disposition = match disposition {
            Disposition::Abandon(changes) if changes.then().is_some() => {
                return self.hold_or_delay(slot, held, changes);
            }
            other => other,
        };
        let Unsettled { lease, message, before } = held;
        let within = settled_within(&lease);
        let disposition = match disposition {
            Disposition::Complete if within.is_some() => Disposition::Complete,
            other => match self.settle_otherwise(slot, &message, within.is_some(), other) {
                Otherwise::Settled(disposition) => disposition,
                Otherwise::Delayed(delay, changes) => {
                    let held = Unsettled { lease, message, before };
                    return self.delay(slot, held, Instant::now(), delay, changes);
                }
                Otherwise::Gone => return self.slots.set_free(slot),
            },
        };
        self.settle_by(
            slot,
            message,
            Settling::by(&disposition),
            lease.settle(disposition),
            within.unwrap_or_default(),
        );
    }

    #[inline]
    pub(super) fn settle_by(
        &mut self,
        slot: usize,
        message: Message,
        settling: Settling,
        settle: <R::Lease as Lease>::Settle,
        within: Duration,
    ) {
        self.slots[slot].start_settling(settling, settle);
        match self.slots[slot].poll_settle() {
            Poll::Ready((settling, result)) => self.settled(slot, settling, result, Some(&message)),
            Poll::Pending => self.await_settlement(slot, message, within),
        }
    }

    /// A settlement that is not answered in time is given up; within a lock in any case: it would have come too late.
    #[cold]
    fn await_settlement(&mut self, slot: usize, message: Message, within: Duration) {
        let by = Instant::now() + within.min(self.options.operation);
        self.slots[slot].settled = Some(message);
        self.slots[slot].settle_by = Some(by);
        self.timers.include(by);
    }

    /// The settlement of a message that has no lock, or for an outcome other than complete.
    #[cold]
    fn settle_otherwise(
        &mut self,
        slot: usize,
        message: &Message,
        is_locked: bool,
        disposition: Disposition,
    ) -> Otherwise {
        self.slots[slot].cause = None;
        if is_locked && is_dead(message) {
            return self.settle_dead(slot, message, disposition);
        }
        let not = match disposition {
            Disposition::DeadLetter(dead_letter) if !is_locked => NotSettled::DeadLetter(*dead_letter),
            Disposition::DeadLetter(mut dead_letter) => {
                self.slots[slot].cause = Some(Box::new(Cause::dead_letter(&dead_letter)));
                dead_letter.fit(message.properties());
                return Otherwise::Settled(Disposition::DeadLetter(dead_letter));
            }
            // A receiver that reports nothing may defer.
            Disposition::Defer(_) if is_locked && !self.defers() && self.capabilities() != Capabilities::none() => {
                let (disposition, cause) =
                    self.abandon(message, Changes::because("the transport cannot defer a message"));
                self.slots[slot].cause = cause.map(Box::new);
                return Otherwise::Settled(disposition);
            }
            Disposition::Abandon(changes) if is_locked => {
                let (disposition, cause) = self.abandon(message, changes);
                self.slots[slot].cause = cause.map(Box::new);
                return Otherwise::Settled(disposition);
            }
            Disposition::Complete if !is_locked => {
                self.options.stats.count_completed();
                return Otherwise::Gone;
            }
            Disposition::Abandon(changes) => NotSettled::Otherwise(changes),
            _ if !is_locked => NotSettled::Otherwise(Changes::NONE),
            disposition => return Otherwise::Settled(disposition),
        };
        self.report().undeliverable(message, not, Fate::Lost);
        Otherwise::Gone
    }

    /// An abandoned message is redelivered, and after the last delivery dead-lettered: with the cause, if there is one.
    fn abandon(&mut self, message: &Message, changes: Changes) -> (Disposition, Option<Cause>) {
        let cause = Cause::abandon(&changes);
        if cause.is_none() {
            return (Disposition::Abandon(changes), cause);
        }
        match message.received().filter(|_| is_last(&self.incoming.receiver, message)) {
            Some(received) => {
                let (cause, mut dead_letter) = Cause::last(received, changes);
                dead_letter.fit(message.properties());
                (Disposition::DeadLetter(Box::new(dead_letter)), Some(cause))
            }
            None => (Disposition::Abandon(changes), cause),
        }
    }

    /// Releases a message that no handler has seen.
    pub(super) fn release(&mut self, delivery: Delivery<R::Lease>) {
        let Delivery { message, lease } = delivery;
        if lease.must_settle() {
            self.settlements.push_release(Timed::new(lease.release(), self.options.operation));
        } else {
            self.report().unlocked(&message);
        }
    }

    #[inline]
    pub(super) fn poll_settle(&mut self, slot: usize) {
        if let Poll::Ready((settling, result)) = self.slots[slot].poll_settle() {
            let message = self.slots[slot].settled.take();
            self.settled(slot, settling, result, message.as_ref());
        }
    }

    /// A settlement is answered.
    #[inline]
    pub(super) fn settled(
        &mut self,
        slot: usize,
        settling: Settling,
        result: Result<(), SettleError>,
        message: Option<&Message>,
    ) {
        match (settling, result) {
            (Settling::Complete, Ok(())) => self.options.stats.count_completed(),
            (settling, result) => self.settled_otherwise(slot, settling, result, message),
        }
        self.slots.set_free(slot);
    }

    #[cold]
    fn settled_otherwise(
        &mut self,
        slot: usize,
        settling: Settling,
        result: Result<(), SettleError>,
        message: Option<&Message>,
    ) {
        let cause = self.slots[slot].cause.take();
        match (settling, &result) {
            (Settling::DeadLetter | Settling::Defer, Ok(())) => self.incoming.not_refused(),
            // The message may be redelivered at once, and refused again.
            (Settling::DeadLetter | Settling::Defer, Err(error)) if !error.is_lock_lost() => {
                if let Some(until) = self.incoming.refused(self.options.longest_refusal) {
                    self.timers.include(until);
                }
            }
            _ => {}
        }
        self.report().settled(settling, result, message, cause.as_deref());
    }

    /// A message that no handler has seen was released, or was not.
    pub(super) fn released(&mut self, result: Result<(), SettleError>) {
        match result {
            Ok(()) => self.options.stats.count_released(),
            Err(error) => self.report().settle_failed(Settling::Release, &error, None, None),
        }
    }
}
