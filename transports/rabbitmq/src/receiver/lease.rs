use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use consign_core::{
    Disposition,
    message::{LockToken, limits},
    settlement::{Changes, DeadLetter},
    time::Timestamp,
    transport::{self, Capability, CompleteAll, ErrorKind, SettleError, Unsupported},
};
use tokio::sync::oneshot;

use super::{
    complete_all::complete_all,
    delivered::Held,
    job::{Action, Job},
    settling::{RabbitMqSettle, lost},
    state::{Shared, token},
};
use crate::{delays::Delays, session::SessionLock};

/// The right to settle one delivery. It belongs to the channel of the delivery: when that closes, the lock is lost.
///
/// AMQP 0-9-1 does not answer an acknowledgement. A settlement has succeeded when it is written to the connection. If the
/// connection breaks before the broker has read it, the message is redelivered.
#[must_use = "a lease that is dropped abandons its message"]
pub struct RabbitMqLease(Right);

enum Right {
    Held(Lock),
    OfSession(SessionLock),
    /// The message was removed as it was delivered.
    Removed,
    /// A reply that was in no queue: there is nothing to settle.
    Reply,
}

struct Lock {
    shared: Arc<Shared>,
    key: u64,
    is_used: bool,
}

impl std::fmt::Debug for RabbitMqLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMqLease")
            .field("is_locked", &matches!(self.0, Right::Held(_) | Right::OfSession(_)))
            .finish_non_exhaustive()
    }
}

impl RabbitMqLease {
    pub(super) fn held(shared: Arc<Shared>, key: u64) -> Self {
        Self(Right::Held(Lock { shared, key, is_used: false }))
    }

    pub(crate) fn of_session(lock: SessionLock) -> Self {
        Self(Right::OfSession(lock))
    }

    pub(super) fn removed() -> Self {
        Self(Right::Removed)
    }

    pub(crate) fn reply() -> Self {
        Self(Right::Reply)
    }

    /// The lock of a message that can be delayed: not one of a session, which later ones would pass, and no dead letter, of which
    /// nothing counts.
    fn delayed(&mut self) -> Option<&mut Lock> {
        match &mut self.0 {
            Right::Held(lock) if !lock.shared.source.path.is_dead_letter() => Some(lock),
            _ => None,
        }
    }
}

impl Lock {
    fn take(&mut self) -> Option<Held> {
        self.is_used = true;
        let held = self.shared.take(self.key)?;
        (!held.ticket.is_lost()).then_some(held)
    }

    fn leave(&mut self, action: Action) -> RabbitMqSettle {
        let _passing = self.shared.pass();
        let Some(held) = self.take() else { return RabbitMqSettle::err(lost()) };
        let (done, answer) = oneshot::channel();
        self.shared.leave(Job { held, action, done: Some(done) });
        RabbitMqSettle::left(answer)
    }

    fn give_back(&mut self) -> RabbitMqSettle {
        let _passing = self.shared.pass();
        let Some(held) = self.take() else { return RabbitMqSettle::err(lost()) };
        let (done, answer) = oneshot::channel();
        self.shared.give_back(self.key, Job { held, action: Action::GiveBack, done: Some(done) });
        RabbitMqSettle::left(answer)
    }

    fn complete(&mut self) -> RabbitMqSettle {
        self.is_used = true;
        self.shared.complete(self.key).map_or_else(|| RabbitMqSettle::err(lost()), RabbitMqSettle::gathered)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_used {
            let _passing = self.shared.pass();
            if let Some(held) = self.take() {
                self.shared.leave(Job { held, action: Action::Abandon(Changes::NONE), done: None });
            }
        }
    }
}

fn removed() -> SettleError {
    SettleError::new(ErrorKind::InvalidOperation).with_detail("the message was removed when it was received")
}

pub(crate) fn check(dead_letter: &DeadLetter) -> Result<(), SettleError> {
    let is_long =
        |text: &str| text.len() > limits::DEAD_LETTER_TEXT && text.encode_utf16().count() > limits::DEAD_LETTER_TEXT;
    if is_long(dead_letter.reason.as_str()) || is_long(&dead_letter.description) {
        let detail = "the reason and the description of a dead letter have at most 4,096 UTF-16 code units";
        return Err(SettleError::new(ErrorKind::InvalidArgument).with_detail(detail));
    }
    Ok(())
}

impl transport::Lease for RabbitMqLease {
    type Settle = RabbitMqSettle;
    type Renew = RabbitMqRenew;

    fn settle(mut self, disposition: Disposition) -> RabbitMqSettle {
        let lock = match &mut self.0 {
            Right::Held(lock) => lock,
            Right::OfSession(lock) => return lock.settle(disposition),
            Right::Reply if disposition == Disposition::Complete => {
                return RabbitMqSettle::done();
            }
            Right::Removed | Right::Reply => return RabbitMqSettle::err(removed()),
        };
        let is_dead = lock.shared.source.path.is_dead_letter();
        match disposition {
            Disposition::Complete => lock.complete(),
            Disposition::Abandon(changes) => lock.leave(Action::Abandon(changes)),
            Disposition::DeadLetter(dead_letter) => match check(&dead_letter) {
                Err(error) => {
                    drop(lock.leave(Action::Abandon(Changes::NONE)));
                    RabbitMqSettle::err(error)
                }
                Ok(()) if is_dead => {
                    drop(lock.give_back());
                    let detail = "the message is a dead letter already";
                    RabbitMqSettle::err(SettleError::new(ErrorKind::InvalidOperation).with_detail(detail))
                }
                Ok(()) => lock.leave(Action::DeadLetter(dead_letter)),
            },
            Disposition::Defer(_) => {
                drop(lock.leave(Action::Abandon(Changes::NONE)));
                RabbitMqSettle::err(Unsupported::new(Capability::Deferral).into())
            }
        }
    }

    fn release(mut self) -> RabbitMqSettle {
        match &mut self.0 {
            Right::Held(lock) => lock.give_back(),
            Right::OfSession(lock) => lock.release(),
            Right::Removed | Right::Reply => RabbitMqSettle::err(removed()),
        }
    }

    /// By a scheduled copy: in steps of 64 ms, and at most 49 days.
    fn abandon_after(mut self, changes: Changes, delay: Duration) -> Result<RabbitMqSettle, Self> {
        match self.delayed() {
            Some(lock) => Ok(lock.leave(Action::AbandonAfter(changes, Delays::steps_at_most(delay)))),
            None => Err(self),
        }
    }

    /// As `abandon_after`, and without a count.
    fn release_after(mut self, delay: Duration) -> Result<RabbitMqSettle, Self> {
        match self.delayed() {
            Some(lock) => Ok(lock.leave(Action::ReleaseAfter(Delays::steps_at_most(delay)))),
            None => Err(self),
        }
    }

    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<RabbitMqSettle> {
        complete_all(batch.drain(..).map(|lease| lease.settle(Disposition::Complete)))
    }

    fn completes_in_batches(&self) -> bool {
        matches!(self.0, Right::Held(_))
    }

    fn renew(&self) -> RabbitMqRenew {
        ready(match &self.0 {
            Right::Held(lock) => lock.shared.renew(lock.key).ok_or_else(lost),
            Right::OfSession(_) => Err(SessionLock::renewal()),
            Right::Removed | Right::Reply => Err(removed()),
        })
    }

    fn lock_duration(&self) -> Option<Duration> {
        match &self.0 {
            Right::Held(lock) => Some(lock.shared.lock_duration()),
            Right::OfSession(lock) => Some(lock.lock_duration()),
            Right::Removed | Right::Reply => None,
        }
    }

    fn lock_token(&self) -> Option<LockToken> {
        match &self.0 {
            Right::Held(lock) => Some(token(&lock.shared, lock.key)),
            Right::OfSession(lock) => Some(lock.lock_token()),
            Right::Removed | Right::Reply => None,
        }
    }
}

/// The future of a renewal, which is ready at once: this process keeps the lock.
pub type RabbitMqRenew = Ready<Result<Timestamp, SettleError>>;
