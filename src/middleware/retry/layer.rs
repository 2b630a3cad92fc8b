use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use super::{ResponseFuture, RetryCounts, failure::Failure};
use crate::{Disposition, Message};

/// Makes [`Retry`] services. All of them count together.
#[derive(Clone, Default)]
pub struct RetryLayer {
    pub(super) immediate: u32,
    retry_if: Option<Arc<dyn Fn(&BoxError) -> bool + Send + Sync>>,
    counts: Arc<RetryCounts>,
}

impl RetryLayer {
    /// Most further attempts within a delivery.
    pub const MAX_IMMEDIATE: u32 = 100;

    /// Makes no further attempt, unless told to.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes up to `attempts` further attempts within a delivery, at most [`RetryLayer::MAX_IMMEDIATE`].
    #[must_use]
    pub fn immediate(mut self, attempts: u32) -> Self {
        self.immediate = attempts.min(Self::MAX_IMMEDIATE);
        self
    }

    /// Asks `may_pass` of each error whether it may: `false` passes it on. What is never tried again it is not asked about.
    #[must_use]
    pub fn retry_if(mut self, may_pass: impl Fn(&BoxError) -> bool + Send + Sync + 'static) -> Self {
        self.retry_if = Some(Arc::new(may_pass));
        self
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> &RetryCounts {
        &self.counts
    }

    /// Whether a further attempt may succeed.
    pub(super) fn may_pass(&self, failure: &Failure) -> bool {
        failure.may_pass()
            && match (failure, &self.retry_if) {
                (Failure::Error(error), Some(may_pass)) => may_pass(error),
                _ => true,
            }
    }
}

impl fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("immediate", &self.immediate)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry { inner, rules: Arc::new(self.clone()) }
    }
}

/// Tries again what may pass; see the [module](super).
#[derive(Clone)]
pub struct Retry<S> {
    inner: S,
    rules: Arc<RetryLayer>,
}

impl<S: fmt::Debug> fmt::Debug for Retry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("inner", &self.inner).field("rules", &self.rules).finish()
    }
}

impl<S> Service<Message> for Retry<S>
where
    S: Service<Message, Response = Disposition> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, message: Message) -> Self::Future {
        // The instance that is ready is called now; the clone is made ready should it be needed.
        let again = self.inner.clone();
        let call = self.inner.call(message.clone());
        ResponseFuture::new(call, again, message, Arc::clone(&self.rules))
    }
}
