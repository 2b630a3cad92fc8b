use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tower::{BoxError, ServiceExt};
use tower_layer::Layer;
use tower_service::Service;

use super::{BlobStore, Claim, ClaimError, ClaimFuture, answered};
use crate::{
    Disposition, Message,
    settlement::IntoDisposition,
    transport::deadline::{self, OPERATION_TIMEOUT},
};

/// A layer that fetches the body of a claim from a blob store; see the [module](super).
pub struct ResolveClaimLayer<B> {
    blobs: Arc<B>,
    pub(crate) max_bytes: u64,
    timeout: Duration,
}

impl<B: BlobStore> ResolveClaimLayer<B> {
    /// Fetches bodies of at most 16 MiB from `blobs`.
    #[must_use]
    pub fn new(blobs: B) -> Self {
        Self { blobs: Arc::new(blobs), max_bytes: 16 << 20, timeout: OPERATION_TIMEOUT }
    }

    /// Sets how many bytes a body may have, clamped to at most 100 MiB. A consumer holds one for each of its
    /// slots.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes.min(100 << 20);
        self
    }

    /// Sets how long the store may take for one body: by default 60 seconds, at least a millisecond and at most a year. After
    /// that the call fails with a [`BlobError`](super::BlobError) that is retryable.
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = deadline::clamped(timeout);
        self
    }

    /// Fetches the body of one message outside of a receiving stack, for example that of the reply to a call. A message
    /// without a claim is returned as it is.
    ///
    /// # Errors
    ///
    /// The claim cannot be resolved; see the [module](super). Of an error of the store,
    /// [`BlobError::is_retryable`](super::BlobError::is_retryable) is true if a further attempt may succeed.
    pub async fn resolve(&self, message: Message) -> Result<Message, ClaimError> {
        match self.claim(&message)? {
            Some(claim) => self.fetch(&claim, message).await,
            None => Ok(message),
        }
    }

    async fn fetch(&self, claim: &Claim, message: Message) -> Result<Message, ClaimError> {
        let body = answered(self.blobs.get(claim.id(), claim.length()), self.timeout).await;
        let body = body.map_err(|error| ClaimError::Blob(error.of(claim.id())))?;
        if !claim.is_of(&body) {
            return Err(ClaimError::Altered);
        }
        let mut message = message.with_body(body);
        message.properties_mut().application_properties_mut().remove(Claim::PROPERTY);
        Ok(message)
    }

    /// What the message claims, if it does.
    fn claim(&self, message: &Message) -> Result<Option<Claim>, ClaimError> {
        let Some(claim) = Claim::of(message) else { return Ok(None) };
        let claim = claim?;
        if message.body().size() > 0 {
            return Err(ClaimError::WithBody);
        }
        let (length, limit) = (claim.length(), self.max_bytes);
        if length > limit { Err(ClaimError::TooLarge { length, limit }) } else { Ok(Some(claim)) }
    }
}

impl<B> Clone for ResolveClaimLayer<B> {
    fn clone(&self) -> Self {
        Self { blobs: Arc::clone(&self.blobs), max_bytes: self.max_bytes, timeout: self.timeout }
    }
}

impl<B> fmt::Debug for ResolveClaimLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolveClaimLayer").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

impl<S, B> Layer<S> for ResolveClaimLayer<B> {
    type Service = ResolveClaim<S, B>;

    fn layer(&self, inner: S) -> ResolveClaim<S, B> {
        ResolveClaim { inner, rules: self.clone() }
    }
}

/// Fetches large bodies; see the [module](super).
#[doc(hidden)]
pub struct ResolveClaim<S, B> {
    inner: S,
    rules: ResolveClaimLayer<B>,
}

impl<S: Clone, B> Clone for ResolveClaim<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), rules: self.rules.clone() }
    }
}

impl<S: fmt::Debug, B> fmt::Debug for ResolveClaim<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolveClaim").field("inner", &self.inner).field("rules", &self.rules).finish()
    }
}

impl<S, B> Service<Message> for ResolveClaim<S, B>
where
    S: Service<Message, Response = Disposition, Future: Send> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    B: BlobStore,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ClaimFuture<S::Future, Disposition, BoxError>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        if message.application_properties().is_empty() {
            return ClaimFuture::at_once(self.inner.call(message));
        }
        let claim = match self.rules.claim(&message) {
            Ok(None) => return ClaimFuture::at_once(self.inner.call(message)),
            Ok(Some(claim)) => claim,
            Err(error) => return ClaimFuture::later(async { Ok(error.into_disposition()) }),
        };
        // The instance that is ready may hold a place that others need while the store answers.
        self.inner = self.inner.clone();
        let inner = self.inner.clone();
        let rules = self.rules.clone();
        ClaimFuture::later(async move {
            match rules.fetch(&claim, message).await {
                Ok(message) => inner.oneshot(message).await.map_err(Into::into),
                Err(ClaimError::Blob(error)) if error.is_retryable() => Err(error.into()),
                Err(error) => Ok(error.into_disposition()),
            }
        })
    }
}
