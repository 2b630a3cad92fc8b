use std::{
    future::Future,
    mem,
    panic::resume_unwind,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::task::JoinHandle;
use tower::BoxError;
use tower_service::Service;
use tracing::Instrument;

use super::NotRun;

/// Runs each call in a task of its own; see the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct Spawn<S> {
    pub(super) inner: S,
}

/// The answer of a call that runs in a task. Dropping it aborts the task.
#[derive(Debug)]
pub struct ResponseFuture<T, E> {
    task: JoinHandle<Result<T, E>>,
}

impl<S, R> Service<R> for Spawn<S>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let next = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, next);
        // The call is made in the task too, because it decodes the message.
        ResponseFuture { task: tokio::spawn(async move { ready.call(request).await }.in_current_span()) }
    }
}

impl<T, E: Into<BoxError>> Future for ResponseFuture<T, E> {
    type Output = Result<T, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.task).poll(cx)) {
            Ok(answer) => answer.map_err(Into::into),
            Err(ended) => match ended.try_into_panic() {
                Ok(payload) => resume_unwind(payload),
                Err(_) => Err(NotRun.into()),
            },
        })
    }
}

impl<T, E> Drop for ResponseFuture<T, E> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
