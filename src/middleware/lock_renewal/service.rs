use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Renew,
    renewer::{Renewer, Shared},
};
use crate::{Disposition, Message, middleware::renewal::Renewal, time::SystemClock};

/// A layer that renews the lock of a message while it is handled; see the [module](super).
pub struct LockRenewalLayer<N> {
    shared: Arc<Shared<N>>,
}

impl<N> LockRenewalLayer<N> {
    /// Returns when locks are renewed.
    #[must_use]
    pub fn policy(&self) -> Renewal {
        self.shared.policy
    }
}

impl<N: Renew> LockRenewalLayer<N> {
    /// Renews by `renew`, at the times that `policy` sets. Time is tokio's.
    #[must_use]
    pub fn new(renew: N, policy: Renewal) -> Self {
        Self { shared: Arc::new(Shared { renew, policy, clock: SystemClock::new() }) }
    }
}

impl<N> Clone for LockRenewalLayer<N> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<N> fmt::Debug for LockRenewalLayer<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRenewalLayer").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}

impl<S, N> Layer<S> for LockRenewalLayer<N> {
    type Service = LockRenewal<S, N>;

    fn layer(&self, inner: S) -> Self::Service {
        LockRenewal { inner, shared: Arc::clone(&self.shared) }
    }
}

/// Renews the lock of a message while it is handled; see the [module](super).
#[doc(hidden)]
pub struct LockRenewal<S, N> {
    inner: S,
    shared: Arc<Shared<N>>,
}

impl<S: Clone, N> Clone for LockRenewal<S, N> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug, N> fmt::Debug for LockRenewal<S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRenewal")
            .field("inner", &self.inner)
            .field("policy", &self.shared.policy)
            .finish_non_exhaustive()
    }
}

impl<S, N> Service<Message> for LockRenewal<S, N>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    N: Renew,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, N>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        let renewer = Renewer::new(Arc::clone(&self.shared), message.clone());
        ResponseFuture { handler: Some(self.inner.call(message)), renewer }
    }
}

pin_project! {
    /// The future of a handler beside the renewals of its message's lock.
    #[doc(hidden)]
    pub struct ResponseFuture<F, N: Renew> {
        #[pin]
        handler: Option<F>,
        #[pin]
        renewer: Renewer<N>,
    }
}

impl<F, E, N> Future for ResponseFuture<F, N>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
    N: Renew,
{
    type Output = Result<Disposition, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        match this.handler.as_mut().as_pin_mut() {
            Some(handler) => {
                if let Poll::Ready(result) = handler.poll(cx) {
                    return Poll::Ready(result.map_err(Into::into));
                }
            }
            None => panic!("`ResponseFuture` polled after completion"),
        }
        let lost = ready!(this.renewer.poll_lost(cx));
        this.handler.set(None);
        Poll::Ready(Err(lost.into()))
    }
}

impl<F, N: Renew> fmt::Debug for ResponseFuture<F, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
