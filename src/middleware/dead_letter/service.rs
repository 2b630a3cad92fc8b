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

use super::{Classify, DeadLetterLayer, PassOn};
use crate::{Disposition, Message};

/// Maps errors to dead letters and makes dead letters fit; see the [module](super).
pub struct DeadLettering<S, C = PassOn> {
    pub(super) inner: S,
    pub(super) rules: Arc<DeadLetterLayer<C>>,
}

impl<S: Clone, C> Clone for DeadLettering<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), rules: Arc::clone(&self.rules) }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for DeadLettering<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLettering").field("inner", &self.inner).field("rules", &self.rules).finish()
    }
}

impl<S, C> Service<Message> for DeadLettering<S, C>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    C: Classify,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, C>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        let (rules, kept) = (Arc::clone(&self.rules), message.clone());
        ResponseFuture { handler: self.inner.call(message), message: kept, rules }
    }
}

pin_project! {
    /// The future of a handler whose dead letters are made to fit.
    pub struct ResponseFuture<F, C> {
        #[pin]
        handler: F,
        // For the size of its properties, should there be a dead letter.
        message: Message,
        rules: Arc<DeadLetterLayer<C>>,
    }
}

impl<F, E, C> Future for ResponseFuture<F, C>
where
    F: Future<Output = Result<Disposition, E>>,
    E: Into<BoxError>,
    C: Classify,
{
    type Output = Result<Disposition, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut letter = match ready!(this.handler.poll(cx)) {
            Ok(Disposition::DeadLetter(letter)) => letter,
            Ok(other) => return Poll::Ready(Ok(other)),
            Err(error) => {
                let error = error.into();
                match this.rules.classify.classify(&error) {
                    Some(letter) => Box::new(letter),
                    None => return Poll::Ready(Err(error)),
                }
            }
        };
        this.rules.finish(&mut letter, this.message);
        Poll::Ready(Ok(Disposition::DeadLetter(letter)))
    }
}

impl<F, C> fmt::Debug for ResponseFuture<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("message", &self.message).finish_non_exhaustive()
    }
}
