use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_service::Service;

use super::{Later, RetryLayer, delayed::Plan, failure::HandlerFailure};
use crate::{Disposition, Message, transport::deadline::Timed};

pin_project! {
    /// The future of a handler, of its further attempts, and of the copy that is sent when they have failed.
    #[doc(hidden)]
    pub struct ResponseFuture<S: Service<Message>, L: Later> {
        #[pin]
        state: State<S::Future, L::Send>,
        // Not ready until an attempt needs it.
        again: S,
        message: Message,
        left: u32,
        rules: Arc<RetryLayer<L>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, X> {
        Calling { #[pin] call: F },
        MakingReady,
        Sending { #[pin] send: Timed<X>, failure: Option<(HandlerFailure, Duration)> },
        Done,
    }
}

impl<S: Service<Message>, L: Later> ResponseFuture<S, L> {
    #[inline]
    pub(super) fn new(call: S::Future, again: S, message: Message, rules: Arc<RetryLayer<L>>) -> Self {
        Self { state: State::Calling { call }, again, message, left: rules.immediate, rules }
    }
}

impl<S, L> ResponseFuture<S, L>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    L: Later,
{
    /// What is done about a failure. The answer, if nothing is.
    #[cold]
    fn failed(self: Pin<&mut Self>, failure: HandlerFailure) -> Option<Result<Disposition, BoxError>> {
        let mut this = self.project();
        let may_pass = this.rules.may_pass(&failure);
        if may_pass && *this.left > 0 && failure.asked_delay().is_zero() {
            *this.left -= 1;
            this.state.set(State::MakingReady);
            return None;
        }
        let plan =
            if may_pass { this.rules.later.after(this.message, &failure, this.rules.counts()) } else { Plan::PassOn };
        let answer = match plan {
            Plan::Send { send, delay, timeout } => {
                let send = Timed::new(send, timeout);
                this.state.set(State::Sending { send, failure: Some((failure, delay)) });
                return None;
            }
            Plan::PassOn => failure.into_answer(),
            Plan::Delay(changes, delay) => Ok(Disposition::Abandon(changes.after(delay))),
            Plan::GiveUp(letter) => Ok(Disposition::DeadLetter(letter)),
        };
        this.state.set(State::Done);
        Some(answer)
    }
}

impl<S, L> Future for ResponseFuture<S, L>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    L: Later,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                StateProj::Calling { call } => {
                    let failure = match ready!(call.poll(cx)) {
                        Ok(Disposition::Abandon(changes)) if !changes.is_hold() => HandlerFailure::Abandon(changes),
                        Ok(answer) => return Poll::Ready(Ok(answer)),
                        Err(error) => HandlerFailure::Error(error.into()),
                    };
                    if let Some(answer) = self.as_mut().failed(failure) {
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
                StateProj::Sending { send, failure } => {
                    let result = ready!(send.poll(cx)).unwrap_or_else(|unanswered| Err(unanswered.into()));
                    let Some((failure, delay)) = failure.take() else {
                        panic!("`ResponseFuture` polled after completion")
                    };
                    return Poll::Ready(Ok(this.rules.sent(result, failure, delay)));
                }
                StateProj::Done => panic!("`ResponseFuture` polled after completion"),
            }
        }
    }
}

impl<S: Service<Message>, L: Later> fmt::Debug for ResponseFuture<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("message", &self.message)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
