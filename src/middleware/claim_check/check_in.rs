use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use super::{BlobId, BlobStore, Claim, ClaimFuture, answered};
use crate::{
    Message,
    message::{MessageBody, PropertyValue},
    transport::{
        EncodedRequest, ErrorKind, SendError,
        deadline::{self, OPERATION_TIMEOUT},
    },
};

/// A layer that stores large bodies in a blob store and sends a claim; see the [module](super).
pub struct StoreClaimLayer<B> {
    blobs: Arc<B>,
    pub(crate) threshold: usize,
    timeout: Duration,
}

impl<B: BlobStore> StoreClaimLayer<B> {
    /// Stores bodies of 192 KiB and more in `blobs`, which leaves 64 KiB of a message of 256 KiB for its
    /// properties.
    #[must_use]
    pub fn new(blobs: B) -> Self {
        Self { blobs: Arc::new(blobs), threshold: 192 << 10, timeout: OPERATION_TIMEOUT }
    }

    /// Leaves bodies of fewer bytes where they are.
    #[must_use]
    pub fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes;
        self
    }

    /// Sets how long the store may take for one body: by default 60 seconds, at least a millisecond and at most a year. After
    /// that the send fails as [`Throttled`](ErrorKind::Throttled), and nothing is sent.
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = deadline::clamped(timeout);
        self
    }

    /// Whether the message is sent as it is.
    #[inline]
    fn leaves(&self, message: &Message) -> bool {
        message.body().size() < self.threshold && message.application_properties().get(Claim::PROPERTY).is_none()
    }

    /// The message with a claim, and the body that is to be stored.
    fn check_in(&self, mut message: Message, out: &mut Vec<(BlobId, Bytes)>) -> Result<Message, SendError> {
        if message.application_properties().get(Claim::PROPERTY).is_some() {
            let detail = "a message that is sent has no claim of its own";
            return Err(SendError::new(ErrorKind::InvalidArgument).with_detail(detail));
        }
        let MessageBody::Data(data) = message.body() else { return Ok(message) };
        if message.body().size() < self.threshold {
            return Ok(message);
        }
        let (id, body) = (BlobId::random(), data.joined().clone());
        let claim = PropertyValue::from(Claim::new(id, &body));
        out.push((id, body));
        message = message.with_body(MessageBody::empty());
        message.properties_mut().application_properties_mut().insert(Claim::PROPERTY, claim);
        Ok(message)
    }
}

impl<B> Clone for StoreClaimLayer<B> {
    fn clone(&self) -> Self {
        Self { blobs: Arc::clone(&self.blobs), threshold: self.threshold, timeout: self.timeout }
    }
}

impl<B> fmt::Debug for StoreClaimLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreClaimLayer").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}

impl<S, B> Layer<S> for StoreClaimLayer<B> {
    type Service = StoreClaim<S, B>;

    fn layer(&self, inner: S) -> StoreClaim<S, B> {
        StoreClaim { inner, rules: self.clone() }
    }
}

/// Stores large bodies; see the [module](super).
#[doc(hidden)]
pub struct StoreClaim<S, B> {
    inner: S,
    rules: StoreClaimLayer<B>,
}

impl<S: Clone, B> Clone for StoreClaim<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), rules: self.rules.clone() }
    }
}

impl<S: fmt::Debug, B> fmt::Debug for StoreClaim<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreClaim").field("inner", &self.inner).field("rules", &self.rules).finish()
    }
}

impl<S, B, R> Service<R> for StoreClaim<S, B>
where
    S: Service<R, Response = (), Future: Send> + Clone + Send + 'static,
    S::Error: Into<SendError>,
    B: BlobStore,
    R: EncodedRequest + Send + 'static,
{
    type Response = ();
    type Error = SendError;
    type Future = ClaimFuture<S::Future, (), SendError>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        if request.items().iter().all(|message| self.rules.leaves(message)) {
            return ClaimFuture::at_once(self.inner.call(request));
        }
        let mut bodies = Vec::new();
        let request = match request.try_map(|message| self.rules.check_in(message, &mut bodies)) {
            Ok(request) if bodies.is_empty() => return ClaimFuture::at_once(self.inner.call(request)),
            Ok(request) => request,
            Err(error) => return ClaimFuture::later(async { Err(error) }),
        };
        // The instance that is ready may hold a place that others need while the store answers.
        self.inner = self.inner.clone();
        let inner = self.inner.clone();
        let StoreClaimLayer { blobs, timeout, .. } = self.rules.clone();
        ClaimFuture::later(async move {
            for (id, body) in bodies {
                answered(blobs.put(&id, body), timeout).await?;
            }
            inner.oneshot(request).await.map_err(Into::into)
        })
    }
}
