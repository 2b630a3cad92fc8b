use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use consign_core::{
    Disposition,
    settlement::Changes,
    time::Timestamp,
    transport::{BoxFuture, Capability, CompleteAll, ErrorKind, Lease, SettleError, Unsupported},
};
use tokio::runtime::Handle;

use super::{
    complete_all::complete_all,
    copy,
    held::Held,
    settle::{self, Settling},
};
use crate::log;

/// The right to settle one delivery. It belongs to the link of the delivery: when that has ended, the lock is lost.
///
/// The lock has no duration: it holds until the message is settled or the link ends.
#[must_use = "a lease that is dropped abandons its message"]
pub struct Amqp10Lease(Right);

enum Right {
    Held(Box<Held>),
    /// The message was removed as it was delivered.
    Removed,
    /// A reply to an address of this process alone: there is nothing to settle.
    Reply,
    /// The lease was used.
    Used,
}

impl Amqp10Lease {
    pub(super) fn held(held: Held) -> Self {
        Self(Right::Held(Box::new(held)))
    }

    pub(super) fn removed(is_reply: bool) -> Self {
        Self(if is_reply { Right::Reply } else { Right::Removed })
    }

    pub(super) fn take(&mut self) -> Option<Held> {
        match std::mem::replace(&mut self.0, Right::Used) {
            Right::Held(held) => Some(*held),
            other => {
                self.0 = other;
                None
            }
        }
    }

    /// Whether a scheduled copy can replace the message: not a dead letter, of which nothing counts.
    fn can_delay(&self) -> bool {
        match &self.0 {
            Right::Held(held) => {
                let source = &held.origin.source;
                source.core.options.schedules && !source.is_dead()
            }
            _ => false,
        }
    }
}

fn removed() -> SettleError {
    SettleError::new(ErrorKind::InvalidOperation).with_detail("the message was removed when it was received")
}

/// Settles in a task, because no caller waits for it.
fn in_background(held: Held, changes: Changes) {
    let source = Arc::clone(&held.origin.source);
    let Ok(runtime) = Handle::try_current() else {
        log::warn(&source.path, "a message was dropped outside of the runtime: it is locked until its link ends");
        return;
    };
    runtime.spawn(async move {
        if let Err(error) = held.abandon(changes).await
            && !error.is_lock_lost()
        {
            log::failed(&source.path, "a dropped message was not abandoned: it is redelivered", &error);
        }
    });
}

impl Lease for Amqp10Lease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = Ready<Result<Timestamp, SettleError>>;

    fn settle(mut self, disposition: Disposition) -> Settling {
        let Some(held) = self.take() else {
            let is_settled = matches!(self.0, Right::Reply) && disposition == Disposition::Complete;
            return settle::ready(if is_settled { Ok(()) } else { Err(removed()) });
        };
        match disposition {
            Disposition::Complete => held.complete(),
            Disposition::Abandon(changes) => held.abandon(changes),
            Disposition::DeadLetter(dead_letter) => {
                let is_dead = held.origin.source.is_dead();
                let checked = copy::check(&dead_letter).and_then(|()| {
                    let detail = "the message is a dead letter already";
                    let again = || SettleError::new(ErrorKind::InvalidOperation).with_detail(detail);
                    if is_dead { Err(again()) } else { Ok(()) }
                });
                match checked {
                    Ok(()) => held.dead_letter(*dead_letter),
                    Err(error) => {
                        in_background(held, Changes::NONE);
                        settle::ready(Err(error))
                    }
                }
            }
            Disposition::Defer(_) => {
                in_background(held, Changes::NONE);
                settle::ready(Err(Unsupported::new(Capability::Deferral).into()))
            }
        }
    }

    fn release(mut self) -> Settling {
        match self.take() {
            Some(held) => held.release(),
            None => settle::ready(Err(removed())),
        }
    }

    /// By a scheduled copy, if the broker [supports](crate::Options::scheduling) it.
    fn abandon_after(mut self, changes: Changes, delay: Duration) -> Result<Settling, Self> {
        if !self.can_delay() {
            return Err(self);
        }
        Ok(self.take().map_or_else(|| settle::ready(Err(removed())), |held| held.delay(changes, delay, true)))
    }

    /// As `abandon_after`, and without a count.
    fn release_after(mut self, delay: Duration) -> Result<Settling, Self> {
        if !self.can_delay() {
            return Err(self);
        }
        Ok(self.take().map_or_else(|| settle::ready(Err(removed())), |held| held.delay(Changes::NONE, delay, false)))
    }

    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<Settling> {
        complete_all(batch.drain(..).map(|mut lease| lease.take().ok_or_else(|| lease.settle(Disposition::Complete))))
    }

    fn completes_in_batches(&self) -> bool {
        matches!(self.0, Right::Held(_))
    }

    fn renew(&self) -> Self::Renew {
        ready(Err(match self.0 {
            Right::Held(_) => Unsupported::new(Capability::LockRenewal).into(),
            _ => removed(),
        }))
    }

    fn lock_duration(&self) -> Option<Duration> {
        None
    }

    fn must_settle(&self) -> bool {
        matches!(self.0, Right::Held(_))
    }
}

impl Drop for Amqp10Lease {
    fn drop(&mut self) {
        if let Some(held) = self.take() {
            in_background(held, Changes::NONE);
        }
    }
}

impl std::fmt::Debug for Amqp10Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amqp10Lease").field("is_locked", &self.must_settle()).finish_non_exhaustive()
    }
}
