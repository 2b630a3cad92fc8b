//! What becomes of a message when its handler has ended.

use std::{
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{
    Options,
    health::Failure,
    run::{Run, Turn},
    slot::{Ended, Held, Settling, caught, lock_of},
};
use crate::{
    Disposition, Message,
    settlement::IntoDisposition,
    transport::{Delivery, Lease, Receiver, SettleError},
};

impl<R, S, F> Run<R, S, F>
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
    pub(super) fn ended(&mut self, slot: usize, held: Held<R::Lease>, ended: Ended<Result<Disposition, S::Error>>) {
        match ended {
            Ended::Answered(Ok(disposition)) => self.settle(slot, held, disposition),
            Ended::Answered(Err(error)) => {
                let disposition = self.call_failed(error);
                self.settle(slot, held, disposition);
            }
            Ended::Panicked => {
                let disposition = self.call_panicked();
                self.settle(slot, held, disposition);
            }
        }
    }

    /// Whether the completion of a message may wait for that of others.
    #[inline]
    pub(super) fn gathers(&self, lease: &R::Lease) -> bool {
        // The last of a batch is completed next, if no other handler goes on.
        let is_next = || self.batch.is_empty() && self.free.len() + 1 == self.slots.len();
        R::Lease::COMPLETES_TOGETHER && (self.pace.is_quick() || is_next()) && lease.lock_duration().is_some()
    }

    /// Completes what has been gathered.
    #[inline]
    pub(super) fn complete_gathered(&mut self) {
        if !self.gathered.is_empty() {
            self.complete_together();
        }
    }

    fn complete_together(&mut self) {
        let options = &self.options;
        let completed = self.gathered.complete(|failure| count_settled(options, Settling::Complete, Err(failure)));
        options.stats.count_all_completed(completed);
    }

    /// Counts completions whose answers have come. Tells whether any has.
    #[inline]
    pub(super) fn poll_completions(&mut self, cx: &mut Context<'_>) -> bool {
        !self.gathered.is_answered() && self.poll_answers(cx)
    }

    #[cold]
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut is_any = false;
        while let Poll::Ready(Some((answer, messages))) = self.gathered.poll_answer(cx) {
            is_any = true;
            match answer {
                Ok(()) => self.options.stats.count_all_completed(messages),
                Err(error) => {
                    tracing::warn!(%error, messages, "completions failed");
                    self.options.health.failed(Failure::Settle(Some(error.kind())));
                    self.options.stats.count_all_settle_failed(messages);
                }
            }
        }
        is_any
    }

    /// Converting, showing and dropping the error is the user's code.
    #[cold]
    fn call_failed(&mut self, error: S::Error) -> Disposition {
        let disposition = caught(|| {
            let error: BoxError = error.into();
            tracing::debug!(%error, "a call of the stack failed");
            error.into_disposition()
        });
        match disposition {
            Some(disposition) => {
                self.options.stats.count_failed();
                self.options.health.failed(Failure::Handler);
                disposition
            }
            None => self.call_panicked(),
        }
    }

    #[cold]
    fn call_panicked(&mut self) -> Disposition {
        tracing::warn!("a call of the stack panicked");
        self.options.stats.count_panicked();
        self.options.health.failed(Failure::Panic);
        Disposition::ABANDON
    }

    /// Settles the message of a call that is over.
    #[inline]
    pub(super) fn settle(&mut self, slot: usize, held: Held<R::Lease>, disposition: Disposition) {
        let Held { lease, message, .. } = held;
        let lock = lock_of(&lease);
        let disposition = match disposition {
            Disposition::Complete if lock.is_some() => {
                drop(message);
                Disposition::Complete
            }
            other => match self.settle_otherwise(message, lock.is_some(), other) {
                Some(disposition) => disposition,
                None => return self.free.push(slot),
            },
        };
        self.slots[slot].start_settling(Settling::by(&disposition), lease.settle(disposition));
        self.poll_settle(slot);
        if self.slots[slot].is_settling() {
            self.await_settlement(slot, lock.unwrap_or_default());
        }
    }

    /// A settlement that is not answered within a lock is given up: it would have come too late.
    #[cold]
    fn await_settlement(&mut self, slot: usize, lock: Duration) {
        let by = Instant::now() + lock;
        self.slots[slot].settle_by = Some(by);
        self.deadline.include(by);
    }

    #[cold]
    pub(super) fn give_settlement_up(&mut self, slot: usize) {
        tracing::warn!("a settlement was not answered");
        self.options.health.failed(Failure::Settle(None));
        self.options.stats.count_settle_failed();
        self.slots[slot].forget_settling();
        self.free.push(slot);
    }

    /// The settlement of a message that has no lock, or for an outcome other than complete. `None` if the message is
    /// gone and cannot be settled.
    #[cold]
    fn settle_otherwise(&mut self, message: Message, is_locked: bool, disposition: Disposition) -> Option<Disposition> {
        let is_dead = message.received().is_some_and(|received| received.dead_lettered);
        let dead_letter = match disposition {
            Disposition::DeadLetter(dead_letter) if !is_locked || is_dead => Some(*dead_letter),
            Disposition::DeadLetter(mut dead_letter) => {
                dead_letter.fit(message.properties());
                return Some(Disposition::DeadLetter(dead_letter));
            }
            Disposition::Complete if !is_locked => {
                self.options.stats.count_completed();
                return None;
            }
            _ if !is_locked => None,
            disposition => return Some(disposition),
        };
        self.options.undeliverable(message, dead_letter);
        is_locked.then_some(Disposition::DEFER)
    }

    /// Gives a message back that no handler has seen.
    pub(super) fn release(&mut self, delivery: Delivery<R::Lease>) {
        let Delivery { message, lease } = delivery;
        if lease.lock_duration().is_some() {
            self.releases.push(lease.release());
        } else {
            self.options.undeliverable(message, None);
        }
    }

    #[inline]
    pub(super) fn poll_settle(&mut self, slot: usize) {
        if let Poll::Ready((settling, result)) = self.slots[slot].poll_settle() {
            self.settled(settling, result);
            self.free.push(slot);
        }
    }

    #[inline]
    pub(super) fn settled(&self, settling: Settling, result: Result<(), SettleError>) {
        count_settled(&self.options, settling, result);
    }
}

#[inline]
fn count_settled(options: &Options, settling: Settling, result: Result<(), SettleError>) {
    let stats = &options.stats;
    match result {
        Ok(()) => match settling {
            Settling::Complete => stats.count_completed(),
            Settling::Abandon => stats.count_abandoned(),
            Settling::DeadLetter => stats.count_dead_lettered(),
            Settling::Defer => stats.count_deferred(),
            Settling::Release => stats.count_released(),
        },
        Err(error) if error.is_lock_lost() => {
            options.health.failed(Failure::LockLost);
            stats.count_lock_lost();
        }
        Err(error) => {
            options.health.failed(Failure::Settle(Some(error.kind())));
            tracing::warn!(%error, ?settling, "a settlement failed");
            stats.count_settle_failed();
        }
    }
}
