//! Waiting in a task of its own: only the transport wakes it.

use std::{future::Future, future::poll_fn, time::Duration};

use consign::{
    message::EntityPath,
    transport::{Delivery, DynSession, DynSessionSource, ReceiveError, Receiver, ReceiverExt, SessionSource, Sessions},
};
use tokio::task::JoinHandle;

use super::Bench;
use crate::Failure;

impl Bench<'_> {
    /// Begins a receive in a task of its own. Nothing but the receiver wakes it: a time-out around a receive polls it once more
    /// when the time is over, and would find a message whose wake-up was lost. So would a future that is joined with another.
    pub(crate) fn receive_in_task<R: Receiver + 'static>(&self, mut receiver: R) -> Waiting<R, Delivery<R::Lease>> {
        self.in_task(async move {
            let received = receiver.receive().await;
            (receiver, received)
        })
    }

    /// Begins to accept the next session, as `receive_in_task` does.
    pub(crate) fn accept_in_task(&self, mut sessions: DynSessionSource) -> Waiting<DynSessionSource, DynSession> {
        self.in_task(async move {
            let accepted = poll_fn(|cx| sessions.poll_accept(cx)).await;
            (sessions, accepted)
        })
    }

    fn in_task<S: Send + 'static, T: Send + 'static>(
        &self,
        waiting: impl Future<Output = (S, Result<T, ReceiveError>)> + Send + 'static,
    ) -> Waiting<S, T> {
        Waiting { task: tokio::spawn(waiting), wait: self.timing.lock }
    }

    pub(crate) async fn session_source(&self, path: &EntityPath) -> Result<DynSessionSource, Failure> {
        Ok(self.transport.sessions(path).await?)
    }
}

/// A wait for a `T` from a source `S`, in a task of its own. Dropping it ends the wait.
pub(crate) struct Waiting<S, T> {
    task: JoinHandle<(S, Result<T, ReceiveError>)>,
    wait: Duration,
}

impl<S, T> Waiting<S, T> {
    /// Waits so long in place of [`Timing::lock`](crate::Timing::lock).
    pub(crate) fn within(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Returns the source, which some locks need, and what it gave.
    pub(crate) async fn received(mut self) -> Result<(S, T), Failure> {
        match tokio::time::timeout(self.wait, &mut self.task).await {
            Ok(Ok((source, received))) => Ok((source, received?)),
            Ok(Err(_)) => Err(Failure::broken("the receiver panicked")),
            Err(_) => Err(Failure::behaviour("the receiver was not woken")),
        }
    }
}

impl<S, T> Drop for Waiting<S, T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
