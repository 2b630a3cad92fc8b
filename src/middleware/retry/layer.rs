use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use super::{DelayPolicy, Later, NoDelay, ResponseFuture, RetryCounts, failure::HandlerFailure};
use crate::{
    Disposition, Message,
    transport::{SendError, Sender, log_limit},
};

type MayPass = dyn Fn(&BoxError) -> bool + Send + Sync;

/// A layer that retries transient failures; see the [module](super). All of them count together.
pub struct RetryLayer<L = NoDelay> {
    pub(crate) immediate: u32,
    retry_if: Option<Arc<MayPass>>,
    pub(crate) later: Arc<L>,
    counts: Arc<RetryCounts>,
}

impl RetryLayer {
    /// Most further attempts within a delivery.
    pub const MAX_IMMEDIATE: u32 = 100;

    /// Creates a layer without further attempts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Default for RetryLayer {
    fn default() -> Self {
        Self { immediate: 0, retry_if: None, later: Arc::new(NoDelay), counts: Arc::default() }
    }
}

impl<L> RetryLayer<L> {
    /// Sets how many further attempts a delivery has, at most [`RetryLayer::MAX_IMMEDIATE`].
    #[must_use]
    pub fn immediate(mut self, attempts: u32) -> Self {
        self.immediate = attempts.min(RetryLayer::MAX_IMMEDIATE);
        self
    }

    /// Delivers later, and again, what has failed every attempt of a delivery.
    #[must_use]
    pub fn delayed<X: Sender>(self, retries: DelayPolicy<X>) -> RetryLayer<DelayPolicy<X>> {
        let Self { immediate, retry_if, counts, .. } = self;
        RetryLayer { immediate, retry_if, later: Arc::new(retries), counts }
    }

    /// Asks `may_pass` of each error whether it may: `false` passes it on. What is never tried again it is not asked about.
    #[must_use]
    pub fn retry_if(mut self, may_pass: impl Fn(&BoxError) -> bool + Send + Sync + 'static) -> Self {
        self.retry_if = Some(Arc::new(may_pass));
        self
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> &RetryCounts {
        &self.counts
    }

    /// Whether a further attempt may succeed.
    pub(super) fn may_pass(&self, failure: &HandlerFailure) -> bool {
        failure.may_pass()
            && match (failure, &self.retry_if) {
                (HandlerFailure::Error(error), Some(may_pass)) => may_pass(error),
                _ => true,
            }
    }

    /// What becomes of the message when a copy has been sent, or has not.
    #[cold]
    pub(super) fn sent(&self, result: Result<(), SendError>, failure: HandlerFailure, delay: Duration) -> Disposition {
        match result {
            Ok(()) => {
                self.counts.count_delayed();
                Disposition::Complete
            }
            Err(error) => {
                if let Some(suppressed) = log_limit("retry", "NotSent") {
                    tracing::warn!(%error, suppressed, "the copy for a delayed retry was not sent: the message is abandoned");
                }
                self.counts.count_not_sent();
                // At once it would fail again, as often as the queue delivers it.
                failure.into_delayed(delay)
            }
        }
    }
}

impl<L> Clone for RetryLayer<L> {
    fn clone(&self) -> Self {
        Self {
            immediate: self.immediate,
            retry_if: self.retry_if.clone(),
            later: Arc::clone(&self.later),
            counts: Arc::clone(&self.counts),
        }
    }
}

impl<L: fmt::Debug> fmt::Debug for RetryLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer")
            .field("immediate", &self.immediate)
            .field("later", &self.later)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl<S, L> Layer<S> for RetryLayer<L> {
    type Service = Retry<S, L>;

    fn layer(&self, inner: S) -> Retry<S, L> {
        Retry { inner, rules: Arc::new(self.clone()) }
    }
}

/// Tries again what may pass; see the [module](super).
#[doc(hidden)]
pub struct Retry<S, L = NoDelay> {
    inner: S,
    rules: Arc<RetryLayer<L>>,
}

impl<S: Clone, L> Clone for Retry<S, L> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), rules: Arc::clone(&self.rules) }
    }
}

impl<S: fmt::Debug, L: fmt::Debug> fmt::Debug for Retry<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("inner", &self.inner).field("rules", &self.rules).finish()
    }
}

impl<S, L> Service<Message> for Retry<S, L>
where
    S: Service<Message, Response = Disposition> + Clone,
    S::Error: Into<BoxError>,
    L: Later,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S, L>;

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
