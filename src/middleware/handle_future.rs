use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;

use crate::Disposition;

pin_project! {
    /// The future of a receiving layer that either returns a disposition itself or passes the message on.
    #[derive(Debug)]
    #[must_use = "a handler does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct HandleFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProj]
    enum State<F> {
        Answered { disposition: Option<Disposition> },
        Handling { #[pin] handler: F },
    }
}

impl<F> HandleFuture<F> {
    pub(super) fn answered(disposition: Disposition) -> Self {
        Self { state: State::Answered { disposition: Some(disposition) } }
    }

    pub(super) fn handling(handler: F) -> Self {
        Self { state: State::Handling { handler } }
    }
}

impl<F, E> Future for HandleFuture<F>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Answered { disposition } => match disposition.take() {
                Some(disposition) => Poll::Ready(Ok(disposition)),
                None => panic!("`HandleFuture` polled after completion"),
            },
            StateProj::Handling { handler } => Poll::Ready(ready!(handler.poll(cx)).map_err(Into::into)),
        }
    }
}
