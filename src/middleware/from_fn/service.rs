use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::{Direction, Kind, Next, Receiving};
use crate::Message;

/// A service that is a function around another; see the [module](super).
pub struct FromFn<F, S, R = Message, D = Receiving> {
    pub(super) inner: S,
    pub(super) function: F,
    pub(super) kind: Kind<S, R, D>,
}

impl<F: Clone, S: Clone, R, D> Clone for FromFn<F, S, R, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), function: self.function.clone(), kind: PhantomData }
    }
}

impl<F, S: fmt::Debug, R, D> fmt::Debug for FromFn<F, S, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F, S, R, D, Fut> Service<R> for FromFn<F, S, R, D>
where
    F: Fn(R, Next<S, R, D>) -> Fut,
    D: Direction,
    Fut: Future<Output = Result<D::Response, D::Error>>,
    S: Service<R, Response = D::Response> + Clone,
    S::Error: Into<D::Error>,
{
    type Response = D::Response;
    type Error = D::Error;
    type Future = Fut;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), D::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Fut {
        // The instance that was made ready goes into the call; a clone that was not stays.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        (self.function)(request, Next { inner, kind: PhantomData })
    }
}

pin_project! {
    /// The future of [`Next::run`].
    // It names the future and not the service: a projection in what an `async fn` holds over an `await` keeps the compiler
    // from seeing that it is `Send`.
    #[must_use = "a request goes no further until this is awaited"]
    pub struct Run<F, D = Receiving> {
        #[pin]
        pub(super) future: F,
        pub(super) direction: PhantomData<fn() -> D>,
    }
}

impl<F, D, E> Future for Run<F, D>
where
    F: Future<Output = Result<D::Response, E>>,
    D: Direction,
    E: Into<D::Error>,
{
    type Output = Result<D::Response, D::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().future.poll(cx)).map_err(Into::into))
    }
}

impl<F, D> fmt::Debug for Run<F, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}
