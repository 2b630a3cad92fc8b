use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;

use crate::transport::SendError;

pin_project! {
    /// The future of a sending layer that either refuses the call or passes it on.
    #[derive(Debug)]
    #[must_use = "a send does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct SendFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProj]
    enum State<F> {
        Refused { error: Option<SendError> },
        Sending { #[pin] send: F },
    }
}

impl<F> SendFuture<F> {
    pub(super) fn refused(error: SendError) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }

    pub(super) fn sending(send: F) -> Self {
        Self { state: State::Sending { send } }
    }
}

impl<F, E> Future for SendFuture<F>
where
    F: Future<Output = Result<(), E>>,
    E: Into<SendError>,
{
    type Output = Result<(), SendError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Refused { error } => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => panic!("`SendFuture` polled after completion"),
            },
            StateProj::Sending { send } => Poll::Ready(ready!(send.poll(cx)).map_err(Into::into)),
        }
    }
}
