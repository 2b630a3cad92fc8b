use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::layer::Policy;
use crate::transport::{SendError, SendRequest};

pin_project! {
    /// The future of a send that may be repeated.
    #[must_use = "a send does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct ResponseFuture<S: Service<R>, R> {
        #[pin]
        state: State<S::Future>,
        service: S,
        request: R,
        policy: Policy,
        attempts: u32,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        Sending { #[pin] send: F },
        // Only a send that is repeated pays for the allocation.
        Waiting { timer: Pin<Box<Sleep>> },
        Readying,
        Done,
    }
}

impl<S: Service<R>, R> ResponseFuture<S, R> {
    pub(super) fn new(send: S::Future, service: S, request: R, policy: Policy) -> Self {
        Self { state: State::Sending { send }, service, request, policy, attempts: 1 }
    }
}

impl<S, R> Future for ResponseFuture<S, R>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
    R: SendRequest + Clone,
{
    type Output = Result<(), SendError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Sending { send } => {
                    let Err(error) = ready!(send.poll(cx)) else {
                        this.state.set(State::Done);
                        return Poll::Ready(Ok(()));
                    };
                    let error = error.into();
                    let Some(delay) = this.policy.delay(*this.attempts, &error, this.request) else {
                        this.state.set(State::Done);
                        return Poll::Ready(Err(error));
                    };
                    tracing::debug!(attempt = *this.attempts, ?delay, %error, "a send is repeated");
                    State::Waiting { timer: Box::pin(sleep(delay)) }
                }
                StateProjection::Waiting { timer } => {
                    ready!(timer.as_mut().poll(cx));
                    State::Readying
                }
                StateProjection::Readying => {
                    if let Err(error) = ready!(this.service.poll_ready(cx)) {
                        this.state.set(State::Done);
                        return Poll::Ready(Err(error.into()));
                    }
                    *this.attempts += 1;
                    State::Sending { send: this.service.call(this.request.clone()) }
                }
                StateProjection::Done => panic!("`ResponseFuture` polled after completion"),
            };
            this.state.set(next);
        }
    }
}

impl<S: Service<R>, R> fmt::Debug for ResponseFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("attempts", &self.attempts).finish_non_exhaustive()
    }
}
