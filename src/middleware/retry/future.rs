use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_service::Service;

use super::{RetryLayer, failure::Failure};
use crate::{Disposition, Message};

pin_project! {
    /// The future of a handler and of its further attempts.
    pub struct ResponseFuture<S: Service<Message>> {
        #[pin]
        state: State<S::Future>,
        // Not ready until an attempt needs it.
        again: S,
        message: Message,
        left: u32,
        rules: Arc<RetryLayer>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        Calling { #[pin] call: F },
        MakingReady,
        Done,
    }
}

impl<S: Service<Message>> ResponseFuture<S> {
    #[inline]
    pub(super) fn new(call: S::Future, again: S, message: Message, rules: Arc<RetryLayer>) -> Self {
        Self { state: State::Calling { call }, again, message, left: rules.immediate, rules }
    }
}

impl<S> ResponseFuture<S>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    /// What is done about a failure. Ready if nothing is.
    #[cold]
    fn failed(self: Pin<&mut Self>, failure: Failure) -> Poll<Result<Disposition, BoxError>> {
        let mut this = self.project();
        if *this.left == 0 || !this.rules.may_pass(&failure) {
            this.state.set(State::Done);
            return Poll::Ready(failure.into_answer());
        }
        *this.left -= 1;
        this.state.set(State::MakingReady);
        Poll::Pending
    }
}

impl<S> Future for ResponseFuture<S>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                StateProj::Calling { call } => {
                    let failure = match ready!(call.poll(cx)) {
                        Ok(Disposition::Abandon(changes)) => Failure::Abandon(changes),
                        Ok(answer) => return Poll::Ready(Ok(answer)),
                        Err(error) => Failure::Error(error.into()),
                    };
                    if let Poll::Ready(answer) = self.as_mut().failed(failure) {
                        return Poll::Ready(answer);
                    }
                }
                StateProj::MakingReady => {
                    if let Err(error) = ready!(this.again.poll_ready(cx)) {
                        this.state.set(State::Done);
                        return Poll::Ready(Err(error.into()));
                    }
                    this.rules.counts().count_immediate();
                    let call = this.again.call(this.message.clone());
                    this.state.set(State::Calling { call });
                }
                StateProj::Done => panic!("`ResponseFuture` polled after completion"),
            }
        }
    }
}

impl<S: Service<Message>> fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("message", &self.message)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
