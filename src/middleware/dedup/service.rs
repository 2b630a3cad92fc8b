use std::{
    convert::Infallible,
    fmt,
    future::{Ready, poll_fn, ready},
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{self, Context, Poll},
};

use tower::{BoxError, ServiceExt};
use tower_service::Service;

use super::{
    DedupStore, MakeKey, OriginalMessageId,
    future::ResponseFuture,
    ids::{Ids, Verdict},
    reservation::Reservation,
};
use crate::{Disposition, Message, settlement::Changes};

/// Completes what was handled before; see the [module](super).
#[doc(hidden)]
pub struct Dedup<S, St, K = OriginalMessageId, D = CompleteDuplicates> {
    inner: S,
    shared: Arc<Shared<St, K>>,
    duplicates: D,
}

/// What all clones of a service have in common.
pub(super) struct Shared<St, K> {
    pub(super) ids: Ids<St, K>,
    /// Whether the service inside, of which all clones share what it needs, has failed to become ready.
    pub(super) is_broken: AtomicBool,
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

/// Handles one message.
pub(super) async fn handle<S, St, K, D>(
    inner: S,
    shared: Arc<Shared<St, K>>,
    duplicates: D,
    message: Message,
) -> Result<Disposition, BoxError>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    St: DedupStore,
    K: MakeKey,
    D: Service<Message, Response = Disposition>,
    D::Error: Into<BoxError>,
{
    let Shared { ids, is_broken } = &*shared;
    let reservation = match ids.reserve(&message).await? {
        Verdict::HandOn(reservation) => reservation,
        Verdict::HandOnWithoutKey => {
            ids.stats.count_without_key();
            return Box::pin(call(inner, is_broken, message)).await;
        }
        Verdict::Known => {
            ids.stats.count_duplicates();
            // What is inside need not be kept ready for it.
            drop(inner);
            return duplicates.oneshot(message).await.map_err(Into::into);
        }
        Verdict::Hold(left) => return Ok(Disposition::Abandon(Changes::hold(left))),
        Verdict::InProgress => {
            ids.stats.count_given_up();
            return Ok(Disposition::Abandon(Changes::because("another delivery of this message is being handled")));
        }
    };
    handle_reserved(inner, &shared, reservation, message).await
}

/// Handles a message whose id is reserved.
pub(super) async fn handle_reserved<S, St, K>(
    mut inner: S,
    shared: &Shared<St, K>,
    reservation: Reservation<'_, St>,
    message: Message,
) -> Result<Disposition, BoxError>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    St: DedupStore,
{
    let Shared { ids, is_broken } = shared;
    ids.stats.count_handled();
    // Asked once without a future for it: most services are ready at once.
    let is_ready = match poll_fn(|cx| Poll::Ready(inner.poll_ready(cx))).await {
        Poll::Ready(Err(error)) => {
            is_broken.store(true, Ordering::Relaxed);
            let error = error.into();
            reservation.forget().await;
            return Err(error);
        }
        asked => asked.is_ready(),
    };
    let answer = if is_ready {
        reservation.keep(ids.times.lease, inner.call(message)).await.map_err(Into::into)
    } else {
        reservation.keep(ids.times.lease, Box::pin(call(inner, is_broken, message))).await
    };
    if let Ok(Disposition::Complete) = answer {
        reservation.commit().await;
    } else {
        reservation.forget().await;
    }
    answer
}

/// Makes the service inside ready, which it was not kept while the id was reserved, and calls that instance.
async fn call<S>(mut inner: S, is_broken: &AtomicBool, message: Message) -> Result<Disposition, BoxError>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    if let Err(error) = poll_fn(|cx| inner.poll_ready(cx)).await {
        is_broken.store(true, Ordering::Relaxed);
        return Err(error.into());
    }
    inner.call(message).await.map_err(Into::into)
}
