//! The future of a settlement.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use consign_core::transport::{ErrorKind, SettleError};
use tokio::{sync::oneshot, time::Sleep};

use super::completing::Completion;
use crate::error::Failure;

pub(super) fn lost() -> SettleError {
    SettleError::new(ErrorKind::MessageLockLost)
}

type Acking = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// The future of a settlement.
pub struct RabbitMqSettle(Settling);

enum Settling {
    Done(Option<Result<(), SettleError>>),
    /// The receiver's task writes it together with others.
    Gathered(Completion),
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

    pub(super) fn gathered(completion: Completion) -> Self {
        Self(Settling::Gathered(completion))
    }

    /// Returns whether both have one answer.
    pub(super) fn has_answer_of(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (Settling::Gathered(one), Settling::Gathered(other)) if one.is_with(other))
    }

    /// Returns a settlement that a task does, with deadlines of its own.
    pub(crate) fn left(answer: oneshot::Receiver<Result<(), SettleError>>) -> Self {
        Self(Settling::Left(answer))
    }

    /// Returns the result, if it is known already.
    pub(super) fn into_result(self) -> Result<Result<(), SettleError>, Self> {
        match self.0 {
            Settling::Done(Some(result)) => Ok(result),
            settling => Err(Self(settling)),
        }
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
            Settling::Gathered(completion) => ready!(Pin::new(completion).poll(cx)).map_err(SettleError::from),
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
