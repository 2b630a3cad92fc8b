use std::{
    convert::Infallible,
    fmt,
    future::{Ready, ready},
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{self, Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use super::{DedupStore, MakeKey, OriginalMessageId, future::ResponseFuture, handle::Shared, ids::Ids};
use crate::{Disposition, Message};

/// Completes what was handled before; see the [module](super).
#[doc(hidden)]
pub struct Dedup<S, St, K = OriginalMessageId, D = CompleteDuplicates> {
    inner: S,
    shared: Arc<Shared<St, K>>,
    duplicates: D,
}

impl<S, St, K, D> Dedup<S, St, K, D> {
    pub(super) fn new(inner: S, ids: Ids<St, K>, duplicates: D) -> Self {
        Self { inner, shared: Arc::new(Shared { ids, is_broken: AtomicBool::new(false) }), duplicates }
    }
}

impl<S: Clone, St, K, D: Clone> Clone for Dedup<S, St, K, D> {
    fn clone(&self) -> Self {
        let Self { inner, shared, duplicates } = self;
        Self { inner: inner.clone(), shared: Arc::clone(shared), duplicates: duplicates.clone() }
    }
}

impl<S: fmt::Debug, St, K, D> fmt::Debug for Dedup<S, St, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dedup").field("inner", &self.inner).field("ids", &self.shared.ids).finish_non_exhaustive()
    }
}

impl<S, St, K, D> Service<Message> for Dedup<S, St, K, D>
where
    S: Service<Message, Response = Disposition> + Clone + Send + 'static,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
    St: DedupStore,
    K: MakeKey + Send + Sync + 'static,
    D: Service<Message, Response = Disposition> + Clone + Send + 'static,
    D::Error: Into<BoxError> + Send,
    D::Future: Send,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = ResponseFuture<S, St, K, D>;

    /// The service inside is made ready when the id is reserved: while it is ready it may keep others from a permit. Only if it
    /// has failed to become ready is it asked here, so that a driver learns of one that never will be.
    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if !self.shared.is_broken.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        task::ready!(self.inner.poll_ready(cx)).map_err(Into::into)?;
        self.shared.is_broken.store(false, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, message: Message) -> Self::Future {
        // The instance that may have been made ready goes into the call; a clone that was not stays.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let (shared, duplicates) = (Arc::clone(&self.shared), self.duplicates.clone());
        ResponseFuture::new(inner, shared, duplicates, message)
    }
}

/// Completes every message.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct CompleteDuplicates(());

impl CompleteDuplicates {
    pub(super) fn new() -> Self {
        Self(())
    }
}

impl Service<Message> for CompleteDuplicates {
    type Response = Disposition;
    type Error = Infallible;
    type Future = Ready<Result<Disposition, Infallible>>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, _: Message) -> Self::Future {
        ready(Ok(Disposition::Complete))
    }
}
