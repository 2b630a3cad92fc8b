use std::{
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use consign_core::{
    Disposition,
    message::{LockToken, limits},
    settlement::{Changes, DeadLetter},
    time::Timestamp,
    transport::{self, Capability, ErrorKind, SettleError, Unsupported},
};
use tokio::{sync::oneshot, time::Sleep};

use super::{
    delivered::Held,
    job::{Action, Job},
    state::{Shared, token},
};
use crate::{error::Failure, session::SessionLock};

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
}

impl Lock {
    fn take(&mut self) -> Option<Held> {
        self.is_used = true;
        let held = self.shared.take(self.key)?;
        (!held.ticket.is_lost()).then_some(held)
    }

    fn leave(&mut self, action: Action) -> RabbitMqSettle {
        let shared = Arc::clone(&self.shared);
        let _passing = shared.pass();
        let Some(held) = self.take() else { return RabbitMqSettle::err(lost()) };
        let (done, answer) = oneshot::channel();
        self.shared.leave(Job { held, action, done: Some(done) });
        RabbitMqSettle(Settling::Left(answer))
    }

    fn give_back(&mut self) -> RabbitMqSettle {
        let shared = Arc::clone(&self.shared);
        let _passing = shared.pass();
        let Some(held) = self.take() else { return RabbitMqSettle::err(lost()) };
        let (done, answer) = oneshot::channel();
        self.shared.give_back(self.key, Job { held, action: Action::GiveBack, done: Some(done) });
        RabbitMqSettle(Settling::Left(answer))
    }

    fn complete(&mut self) -> RabbitMqSettle {
        let shared = Arc::clone(&self.shared);
        let _passing = shared.pass();
        let Some(held) = self.take() else { return RabbitMqSettle::err(lost()) };
        self.shared.settled(&held.ticket.origin);
        RabbitMqSettle::writing(held.ticket.ack(), self.shared.client.link.deadline(), |error| error)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_used {
            let shared = Arc::clone(&self.shared);
            let _passing = shared.pass();
            if let Some(held) = self.take() {
                shared.leave(Job { held, action: Action::Abandon(Changes::NONE), done: None });
            }
        }
    }
}

type Acking = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

pub(super) fn lost() -> SettleError {
    SettleError::new(ErrorKind::MessageLockLost)
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
                return RabbitMqSettle(Settling::Done(Some(Ok(()))));
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
                drop(lock.give_back());
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

/// The future of a settlement.
pub struct RabbitMqSettle(Settling);

enum Settling {
    Done(Option<Result<(), SettleError>>),
    Written {
        acking: Acking,
        deadline: Duration,
        timer: Option<Pin<Box<Sleep>>>,
        error: fn(SettleError) -> SettleError,
    },
    /// The receiver's task settles, with deadlines of its own.
    Left(oneshot::Receiver<Result<(), SettleError>>),
}

impl RabbitMqSettle {
    /// Writes an acknowledgement. It is being written from here on, whether the future is polled or not.
    pub(crate) fn writing(
        ack: impl Future<Output = Result<(), Failure>> + Send + 'static,
        deadline: Duration,
        error: fn(SettleError) -> SettleError,
    ) -> Self {
        let mut acking: Acking = Box::pin(ack);
        match acking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Self(Settling::Done(Some(result.map_err(SettleError::from).map_err(error)))),
            Poll::Pending => Self(Settling::Written { acking, deadline, timer: None, error }),
        }
    }

    /// Returns a settlement that a task does, with deadlines of its own.
    pub(crate) fn left(answer: oneshot::Receiver<Result<(), SettleError>>) -> Self {
        Self(Settling::Left(answer))
    }

    pub(crate) fn done() -> Self {
        Self(Settling::Done(Some(Ok(()))))
    }

    pub(crate) fn err(error: SettleError) -> Self {
        Self(Settling::Done(Some(Err(error))))
    }
}

impl std::fmt::Debug for RabbitMqSettle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMqSettle").finish_non_exhaustive()
    }
}

impl Future for RabbitMqSettle {
    type Output = Result<(), SettleError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match &mut self.0 {
            Settling::Done(result) => {
                let again = || Err(SettleError::new(ErrorKind::General).with_detail("polled after its end"));
                result.take().unwrap_or_else(again)
            }
            Settling::Written { acking, deadline, timer, error } => match acking.as_mut().poll(cx) {
                Poll::Ready(result) => result.map_err(SettleError::from).map_err(*error),
                Poll::Pending => {
                    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(*deadline)));
                    ready!(timer.as_mut().poll(cx));
                    Err(Failure::late("basic.ack", *deadline).into())
                }
            },
            Settling::Left(answer) => {
                let answer = ready!(Pin::new(answer).poll(cx));
                let ended = "the runtime of the receiver has ended";
                answer.unwrap_or_else(|_| Err(SettleError::new(ErrorKind::CommunicationProblem).with_detail(ended)))
            }
        })
    }
}
