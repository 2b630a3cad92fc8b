use std::{
    convert::Infallible,
    fmt,
    future::{Ready, ready},
    mem,
    sync::Arc,
    task::{self, Context, Poll, Waker},
};

use tower::BoxError;
use tower_service::Service;

use super::{
    DedupStore, MakeKey, OriginalMessageId,
    future::{BoxAnswer, Held, ResponseFuture},
    handle::{Shared, handle, handle_reserved},
    ids::Ids,
};
use crate::{
    Disposition, Message,
    sync::{AtomicBool, Ordering},
};

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
    type Future = ResponseFuture<S::Future, St, K>;

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

    /// With a store that answers at once the id of a new message is reserved here, and the service inside is called without a
    /// clone of it.
    #[inline]
    fn call(&mut self, mut message: Message) -> Self::Future {
        let Some(token) = self.shared.reserve_at_once(&message) else {
            let (shared, duplicates) = (Arc::clone(&self.shared), self.duplicates.clone());
            return ResponseFuture::boxed(Box::pin(handle(self.take_inner(), shared, duplicates, message)));
        };
        let mut held = Held::new(Arc::clone(&self.shared), token);
        // Where this is pending it is asked again, with the waker of the call.
        match self.inner.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => {
                held.start(&mut message);
                ResponseFuture::handling(held, || self.inner.call(message))
            }
            Poll::Ready(Err(error)) => {
                drop(self.take_inner());
                ResponseFuture::failed(refused(&mut held, error.into()))
            }
            Poll::Pending => ResponseFuture::boxed(wait(self.take_inner(), held, message)),
        }
    }
}

impl<S: Clone, St, K, D> Dedup<S, St, K, D> {
    /// The instance that may have been made ready goes into the call; a clone that was not stays.
    fn take_inner(&mut self) -> S {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

/// The service inside has failed to become ready.
#[cold]
fn refused<St: DedupStore, K>(held: &mut Held<St, K>, error: BoxError) -> BoxError {
    held.shared.ids.stats.count_handled();
    held.shared.is_broken.store(true, Ordering::Relaxed);
    held.end(false);
    error
}

/// Waits until the service inside is ready.
#[cold]
fn wait<S, St, K>(inner: S, mut held: Held<St, K>, message: Message) -> BoxAnswer
where
    S: Service<Message, Response = Disposition> + Send + 'static,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
    St: DedupStore,
    K: Send + Sync + 'static,
{
    // The token stays in what forgets it until the future is polled.
    Box::pin(async move {
        let shared = Arc::clone(&held.shared);
        let token = held.take_token().expect("the id is reserved");
        handle_reserved(inner, &shared, shared.ids.reservation(token), message).await
    })
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
