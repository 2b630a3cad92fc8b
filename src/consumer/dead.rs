//! Settles dead letters that fail again. They stay in their dead-letter queue.

use std::{future::Future, time::Duration};

use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::{
    cause::Cause,
    failed_again::Kind,
    run::ConsumerRun,
    settle::Otherwise,
    slot::{Settling, Unsettled, settled_within},
    undeliverable::{Fate, NotSettled},
};
use crate::{
    Disposition, Message,
    settlement::{Changes, DeadLetter},
    transport::{Capabilities, Capability, Lease, Receiver},
};

/// Whether the message is in a dead-letter queue.
pub(super) fn is_dead(message: &Message) -> bool {
    message.received().is_some_and(|received| received.dead_lettered)
}

impl<R, S, F> ConsumerRun<R, S, F>
where
    R: Receiver,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    F: Future,
{
    /// The settlement of a dead letter that is locked.
    #[cold]
    pub(super) fn settle_dead(&mut self, slot: usize, message: &Message, disposition: Disposition) -> Otherwise {
        let changes = match disposition {
            Disposition::DeadLetter(dead_letter) => return self.dead_lettered_again(message, *dead_letter),
            Disposition::Abandon(changes) => changes,
            // A receiver that reports nothing may defer.
            Disposition::Defer(_) if !self.defers() && self.capabilities() != Capabilities::none() => {
                Changes::because("the transport cannot defer a dead letter")
            }
            other => return Otherwise::Settled(other),
        };
        if self.timers.is_draining() {
            self.slots[slot].cause = Cause::abandon(&changes).map(Box::new);
            return Otherwise::Settled(Disposition::Abandon(changes));
        }
        let (delay, changes) = self.failed_again(message, changes);
        Otherwise::Delayed(delay, changes)
    }

    /// Counts a dead letter that is abandoned. Returns for how long it waits at least, and its changes without the cause, which is
    /// logged.
    pub(super) fn failed_again(&mut self, message: &Message, changes: Changes) -> (Duration, Changes) {
        let wait = self.failed_again.count(message, Kind::Abandoned, Instant::now());
        if wait.is_new {
            self.report().failed_again(message, changes.cause());
        }
        (wait.delay, changes.into_properties().into())
    }

    fn dead_lettered_again(&mut self, message: &Message, dead_letter: DeadLetter) -> Otherwise {
        let not = NotSettled::DeadLetter(dead_letter);
        if self.defers() {
            self.report().undeliverable(message, not, Fate::Deferred);
            return Otherwise::Settled(Disposition::DEFER);
        }
        let wait = self.failed_again.count(message, Kind::Undeliverable, Instant::now());
        if wait.is_new {
            self.report().undeliverable(message, not, Fate::Delayed);
        }
        if self.timers.is_draining() {
            return Otherwise::Settled(Disposition::ABANDON);
        }
        Otherwise::Delayed(wait.delay, Changes::NONE)
    }

    /// Abandons a message whose delay has passed.
    #[cold]
    pub(super) fn delay_passed(&mut self, slot: usize, held: Unsettled<R::Lease>, changes: Changes) {
        if !is_dead(&held.message) {
            return self.settle(slot, held, Disposition::Abandon(changes));
        }
        let Unsettled { lease, message, .. } = held;
        let within = settled_within(&lease).unwrap_or(Duration::ZERO);
        self.slots[slot].cause = None;
        self.settle_by(slot, message, Settling::Abandon, lease.settle(Disposition::Abandon(changes)), within);
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.incoming.receiver.capabilities()
    }

    /// Whether the transport reports that a message can be deferred.
    pub(super) fn defers(&self) -> bool {
        self.capabilities().supports(Capability::Deferral)
    }
}
