use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    super::{CallError, CallErrorKind},
    Place,
};
use crate::{Message, transport::SendError};

pin_project! {
    /// The future of a call: the reply, or why there is none. Dropping it gives the call up.
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
        Waiting { #[pin] sending: Sending<F>, place: Place },
    }
}

impl<F> CallFuture<F> {
    pub(super) fn sending(send: F, place: Place, deadline: Instant) -> Self {
        Self { state: State::Waiting { sending: Sending::new(send, deadline), place } }
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

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Refused { error } => Poll::Ready(Err(refusal(error))),
            StateProjection::Waiting { mut sending, place } => {
                // A reply may overtake the broker's word that it has the request, and is worth more than its loss.
                let sent = sending.as_mut().poll_sent(cx);
                if let Poll::Ready(reply) = place.ticket.poll_reply(cx) {
                    return Poll::Ready(reply.map_err(CallError::new));
                }
                if let Poll::Ready(Err(error)) = sent {
                    return Poll::Ready(Err(error));
                }
                ready!(sending.poll_deadline(cx));
                Poll::Ready(Err(CallError::new(CallErrorKind::Timeout)))
            }
        }
    }
}

pin_project! {
    /// A send with the deadline of its call.
    pub(super) struct Sending<F> {
        #[pin]
        send: Option<F>,
        #[pin]
        sleep: Sleep,
    }
}

impl<F> Sending<F> {
    pub(super) fn new(send: F, deadline: Instant) -> Self {
        Self { send: Some(send), sleep: sleep_until(deadline) }
    }

    /// Ready when the broker has the request, and from then on.
    pub(super) fn poll_sent<E>(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CallError>>
    where
        F: Future<Output = Result<(), E>>,
        E: Into<SendError>,
    {
        let mut send = self.project().send;
        if let Some(sending) = send.as_mut().as_pin_mut() {
            let sent = ready!(sending.poll(cx));
            send.set(None);
            sent.map_err(Into::into)?;
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_deadline(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(cx)
    }
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
