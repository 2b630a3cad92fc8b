use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_service::Service;

use super::Panicked;

/// Turns a panic into an error; see the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct CatchPanic<S> {
    pub(super) inner: S,
}

impl<S, R> Service<R> for CatchPanic<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match catch_unwind(AssertUnwindSafe(|| self.inner.poll_ready(cx))) {
            Ok(ready) => ready.map_err(Into::into),
            Err(payload) => Poll::Ready(Err(Panicked::new(payload).into())),
        }
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        ResponseFuture {
            state: match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
                Ok(handler) => State::Running { handler },
                Err(payload) => State::Panicked { error: Some(Panicked::new(payload)) },
            },
        }
    }
}

pin_project! {
    /// The future of a service whose panics are caught.
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProj]
    enum State<F> {
        Running { #[pin] handler: F },
        Panicked { error: Option<Panicked> },
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let error = match state.as_mut().project() {
            StateProj::Running { handler } => match catch_unwind(AssertUnwindSafe(|| handler.poll(cx))) {
                Ok(polled) => return polled.map_err(Into::into),
                Err(payload) => {
                    // What it held is dropped here, where a second panic is caught too.
                    let _ = catch_unwind(AssertUnwindSafe(|| state.set(State::Panicked { error: None })));
                    Panicked::new(payload)
                }
            },
            StateProj::Panicked { error } => match error.take() {
                Some(error) => error,
                None => panic!("`ResponseFuture` polled after completion"),
            },
        };
        Poll::Ready(Err(error.into()))
    }
}
