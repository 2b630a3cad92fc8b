use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{super::CallError, Deadline, Place};
use crate::{Message, transport::SendError};

pin_project! {
    /// The future of a call: the reply, or an error. Dropping it gives the call up.
    #[doc(hidden)]
    #[must_use = "a call does nothing until it is awaited"]
    pub struct CallFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        Refused { error: Option<CallError> },
        Waiting {
            #[pin]
            send: Option<F>,
            place: Place,
            deadline: Instant,
            // While nothing else watches the deadline.
            timer: Option<Pin<Box<Sleep>>>,
        },
        Over,
    }
}

impl<F> CallFuture<F> {
    #[inline]
    pub(super) fn sending(send: F, place: Place, deadline: Instant) -> Self {
        Self { state: State::Waiting { send: Some(send), place, deadline, timer: None } }
    }

    #[cold]
    pub(super) fn refused(error: CallError) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }
}

impl<F, E> Future for CallFuture<F>
where
    F: Future<Output = Result<(), E>>,
    E: Into<SendError>,
{
    type Output = Result<Message, CallError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let answer = match state.as_mut().project() {
            StateProjection::Refused { error } => Err(refusal(error)),
            StateProjection::Waiting { send, place, deadline, timer } => {
                // A reply may overtake the broker's word that it has the request, and is worth more than its loss.
                let sent = poll_sent(send, cx);
                match (place.poll_reply(cx), sent) {
                    (Ok(reply), _) => reply.map_err(CallError::new),
                    (Err(_), Poll::Ready(Err(error))) => Err(error),
                    (Err(Deadline::Kept), _) => return Poll::Pending,
                    (Err(Deadline::Own), _) => {
                        ready!(poll_deadline(timer, *deadline, cx));
                        Err(CallError::not_receiving())
                    }
                }
            }
            StateProjection::Over => panic!("a call is not polled after it was ready"),
        };
        state.set(State::Over);
        Poll::Ready(answer)
    }
}

/// Ready when the broker has the request, and from then on.
#[inline]
pub(super) fn poll_sent<F, E>(mut send: Pin<&mut Option<F>>, cx: &mut Context<'_>) -> Poll<Result<(), CallError>>
where
    F: Future<Output = Result<(), E>>,
    E: Into<SendError>,
{
    if let Some(sending) = send.as_mut().as_pin_mut() {
        let sent = ready!(sending.poll(cx));
        send.set(None);
        sent.map_err(Into::into)?;
    }
    Poll::Ready(Ok(()))
}

#[cold]
pub(super) fn poll_deadline(timer: &mut Option<Pin<Box<Sleep>>>, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
    timer.get_or_insert_with(|| Box::pin(sleep_until(deadline))).as_mut().poll(cx)
}

#[cold]
pub(super) fn refusal(error: &mut Option<CallError>) -> CallError {
    error.take().expect("a future is not polled after it was ready")
}

impl<F> fmt::Debug for CallFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFuture").finish_non_exhaustive()
    }
}
