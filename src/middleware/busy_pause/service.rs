use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep_until};
use tower::util::Oneshot;
use tower_service::Service;

use super::Shared;
use crate::transport::{Capabilities, Delivery, EntityInfo, ReceiveError, Receiver, SendError};

/// Leaves a busy broker alone for a while; see the [module](super).
#[derive(Clone)]
pub struct BusyPause<S> {
    pub(super) inner: S,
    pub(super) shared: Arc<Shared>,
}

impl<S: fmt::Debug> fmt::Debug for BusyPause<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusyPause").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, R> Service<R> for BusyPause<S>
where
    S: Service<R, Response = ()> + Clone,
    S::Error: Into<SendError>,
{
    type Response = ();
    type Error = SendError;
    type Future = ResponseFuture<S, R>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let state = match self.shared.paused_until() {
            None => State::Sending { send: self.inner.call(request) },
            Some(until) => {
                // The instance that is ready may hold a place that others need meanwhile.
                self.inner = self.inner.clone();
                let next = Some((self.inner.clone(), request));
                State::Waiting { timer: Box::pin(sleep_until(until)), next }
            }
        };
        ResponseFuture { state, shared: Arc::clone(&self.shared) }
    }
}

pin_project! {
    /// The future of a send: waits for the end of a pause, then for the answer.
    #[must_use = "a send does nothing until it is awaited"]
    pub struct ResponseFuture<S: Service<R>, R> {
        #[pin]
        state: State<S, R>,
        shared: Arc<Shared>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S: Service<R>, R> {
        Waiting { timer: Pin<Box<Sleep>>, next: Option<(S, R)> },
        Sending { #[pin] send: S::Future },
        SendingLate { #[pin] send: Oneshot<S, R> },
    }
}

impl<S, R> Future for ResponseFuture<S, R>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
{
    type Output = Result<(), SendError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Sending { send } => return this.shared.noted(ready!(send.poll(cx))),
                StateProj::SendingLate { send } => return this.shared.noted(ready!(send.poll(cx))),
                StateProj::Waiting { timer, next } => {
                    ready!(timer.as_mut().poll(cx));
                    if let Some(until) = this.shared.paused_until() {
                        // Another call was told meanwhile.
                        timer.as_mut().reset(until);
                        continue;
                    }
                    let Some((inner, request)) = next.take() else {
                        panic!("`ResponseFuture` polled after completion")
                    };
                    this.state.set(State::SendingLate { send: Oneshot::new(inner, request) });
                }
            }
        }
    }
}

impl<S: Service<R>, R> fmt::Debug for ResponseFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = matches!(self.state, State::Waiting { .. });
        f.debug_struct("ResponseFuture").field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// A receiver that pauses with the sends of a [`BusyPauseLayer`].
pub struct PausingReceiver<R> {
    pub(super) receiver: R,
    pub(super) shared: Arc<Shared>,
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

impl<R: Receiver> Receiver for PausingReceiver<R> {
    type Lease = R::Lease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<R::Lease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        while let Some(until) = self.shared.paused_until() {
            if self.timer.is_none() {
                // It may have been woken for a message, which is for another receiver then.
                self.receiver.stop();
            }
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if timer.deadline() != until {
                timer.as_mut().reset(until);
            }
            ready!(timer.as_mut().poll(cx));
        }
        self.timer = None;
        let polled = self.receiver.poll_receive(cx, max, out);
        if let Poll::Ready(Err(error)) = &polled {
            self.shared.note(error.kind());
        }
        polled
    }

    fn stop(&mut self) {
        self.timer = None;
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        self.receiver.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}

impl<R> fmt::Debug for PausingReceiver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausingReceiver").finish_non_exhaustive()
    }
}
