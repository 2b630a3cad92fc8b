use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_service::Service;

use super::{LockExpired, Shared, Verdict};
use crate::{Disposition, Message, time::Clock};

/// The service of [`ExpiryLayer`].
pub struct Expiry<S, C> {
    pub(super) inner: S,
    pub(super) shared: Arc<Shared<C>>,
}

impl<S: Clone, C> Clone for Expiry<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Expiry<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry")
            .field("inner", &self.inner)
            .field("counts", &self.shared.counts)
            .finish_non_exhaustive()
    }
}

impl<S, C> Service<Message> for Expiry<S, C>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    C: Clock,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        ResponseFuture {
            state: match self.shared.check(&message) {
                Verdict::InTime => State::InTime { handler: self.inner.call(message) },
                Verdict::LockExpired => State::LockExpired,
                Verdict::MessageExpired => State::MessageExpired,
            },
        }
    }
}

pin_project! {
    /// The future of a handler, or of a message that does not reach it.
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
        InTime { #[pin] handler: F },
        LockExpired,
        MessageExpired,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project().state.project() {
            StateProj::InTime { handler } => ready!(handler.poll(cx)).map_err(Into::into),
            StateProj::LockExpired => Err(LockExpired(()).into()),
            StateProj::MessageExpired => Ok(Disposition::ABANDON),
        })
    }
}
