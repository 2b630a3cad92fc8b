use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower::{BoxError, ServiceExt};
use tower_layer::Layer;
use tower_service::Service;

use super::{BlobStore, Claim, ClaimError, ClaimFuture};
use crate::{Disposition, Message, settlement::IntoDisposition};

/// A layer that fetches the body of a claim from a blob store; see the [module](super).
pub struct ResolveClaimLayer<B> {
    blobs: Arc<B>,
    pub(crate) max_bytes: u64,
}

impl<B: BlobStore> ResolveClaimLayer<B> {
    /// Fetches bodies of at most 16 MiB from `blobs`.
    #[must_use]
    pub fn new(blobs: B) -> Self {
        Self { blobs: Arc::new(blobs), max_bytes: 16 << 20 }
    }

    /// Sets how many bytes a body may have, clamped to at most 100 MiB. A consumer holds one for each of its
    /// slots.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes.min(100 << 20);
        self
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
        Self { blobs: Arc::clone(&self.blobs), max_bytes: self.max_bytes }
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
        let blobs = Arc::clone(&self.rules.blobs);
        ClaimFuture::later(async move {
            let body = match blobs.get(claim.id(), claim.length()).await {
                Ok(body) if claim.is_of(&body) => body,
                Ok(_) => return Ok(ClaimError::Altered.into_disposition()),
                Err(error) if error.is_retryable() => return Err(error.into()),
                Err(error) => return Ok(ClaimError::Blob(error).into_disposition()),
            };
            let mut message = message.with_body(body);
            message.properties_mut().application_properties_mut().remove(Claim::PROPERTY);
            inner.oneshot(message).await.map_err(Into::into)
        })
    }
}
