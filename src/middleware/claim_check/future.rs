use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;

pin_project! {
    /// The future of a layer that passes a message on, at once or after a call of the blob
    /// store.
    #[must_use = "it does nothing until it is awaited"]
    #[doc(hidden)]
    pub struct ClaimFuture<F, T, E> {
        #[pin]
        state: State<F, T, E>,
    }
}

type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

pin_project! {
    #[project = StateProj]
    enum State<F, T, E> {
        AtOnce { #[pin] inner: F },
        Later { inner: Boxed<T, E> },
    }
}

impl<F, T, E> ClaimFuture<F, T, E> {
    pub(super) fn at_once(inner: F) -> Self {
        Self { state: State::AtOnce { inner } }
    }

    pub(super) fn later(inner: impl Future<Output = Result<T, E>> + Send + 'static) -> Self {
        Self { state: State::Later { inner: Box::pin(inner) } }
    }
}

impl<F, T, E, I> Future for ClaimFuture<F, T, E>
where
    F: Future<Output = Result<T, I>>,
    I: Into<E>,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::AtOnce { inner } => Poll::Ready(ready!(inner.poll(cx)).map_err(Into::into)),
            StateProj::Later { inner } => inner.as_mut().poll(cx),
        }
    }
}

impl<F, T, E> std::fmt::Debug for ClaimFuture<F, T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimFuture").finish_non_exhaustive()
    }
}
