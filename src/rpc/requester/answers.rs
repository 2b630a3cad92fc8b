use std::{
    fmt,
    future::{Future, poll_fn},
    num::NonZeroUsize,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    super::{CallError, CallErrorKind},
    Place,
    call::{poll_deadline, poll_sent, refusal},
};
use crate::{Message, transport::SendError};

/// A request that may have several replies: one to a topic, whose subscribers all answer, or one whose responder answers
/// in parts.
#[derive(Clone, Debug)]
pub struct Gather {
    /// The request. Its time to live is how long replies are waited for.
    pub request: Message,
    /// After how many replies the wait is over. No more are kept, so this bounds the memory that responders can take.
    pub max: NonZeroUsize,
}

/// A stream of the replies to a [`Gather`], which ends after the requested number or at the deadline. Dropping it cancels
/// the remaining replies.
pub struct Answers {
    /// Until it is over.
    place: Option<Place>,
    deadline: Pin<Box<Sleep>>,
    left: usize,
}

impl Answers {
    fn new(place: Place, deadline: Instant, max: NonZeroUsize) -> Self {
        Self { place: Some(place), deadline: Box::pin(sleep_until(deadline)), left: max.get() }
    }

    /// The next reply; `None` after the requested number, or at the deadline. It ends after an error too, for then no
    /// reply can come. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Message, CallError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Answers {
    type Item = Result<Message, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(place) = &self.place else { return Poll::Ready(None) };
        let next = match place.poll_next(cx) {
            Poll::Ready(Ok(reply)) => {
                self.left -= 1;
                Some(Ok(reply))
            }
            Poll::Ready(Err(kind)) => Some(Err(CallError::new(kind))),
            Poll::Pending => {
                ready!(self.deadline.as_mut().poll(cx));
                None
            }
        };
        if self.left == 0 || !matches!(next, Some(Ok(_))) {
            self.place = None;
        }
        Poll::Ready(next)
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("left", &self.left).finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of a [`Gather`]: ready when the broker has the request. If it fails although replies have arrived, they are
    /// returned.
    #[doc(hidden)]
    #[must_use = "a call does nothing until it is awaited"]
    pub struct GatherFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        Refused { error: Option<CallError> },
        Sending {
            #[pin]
            send: Option<F>,
            call: Option<(Place, Instant, NonZeroUsize)>,
            timer: Option<Pin<Box<Sleep>>>,
        },
    }
}

impl<F> GatherFuture<F> {
    pub(super) fn sending(send: F, place: Place, deadline: Instant, max: NonZeroUsize) -> Self {
        Self { state: State::Sending { send: Some(send), call: Some((place, deadline, max)), timer: None } }
    }

    #[cold]
    pub(super) fn refused(error: CallError) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }
}

impl<F, E> Future for GatherFuture<F>
where
    F: Future<Output = Result<(), E>>,
    E: Into<SendError>,
{
    type Output = Result<Answers, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Refused { error } => Poll::Ready(Err(refusal(error))),
            StateProjection::Sending { send, call, timer } => {
                let (place, deadline, _) = call.as_ref().expect("a future is not polled after it was ready");
                let failed = match poll_sent(send, cx) {
                    Poll::Ready(sent) => sent.err(),
                    Poll::Pending => match place.poll_failed(cx) {
                        Poll::Ready(failed) => Some(CallError::new(failed)),
                        Poll::Pending => {
                            ready!(poll_deadline(timer, *deadline, cx));
                            Some(CallError::new(CallErrorKind::Timeout))
                        }
                    },
                };
                // Replies that have overtaken the broker's answer are worth more than its loss.
                if let Some(error) = failed.filter(|_| !place.has_replies()) {
                    return Poll::Ready(Err(error));
                }
                let (place, deadline, max) = call.take().expect("it was there just now");
                Poll::Ready(Ok(Answers::new(place, deadline, max)))
            }
        }
    }
}

impl<F> fmt::Debug for GatherFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatherFuture").finish_non_exhaustive()
    }
}
