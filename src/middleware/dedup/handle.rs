//! A call that goes through the store.

use std::{future::poll_fn, sync::Arc, task::Poll};

use tower::{BoxError, ServiceExt};
use tower_service::Service;

use super::{
    DedupStore, MakeKey,
    ids::{Ids, Verdict},
    reservation::Reservation,
    unhandled::Unhandled,
};
use crate::{
    Disposition, Message,
    middleware::circuit_breaker::Probe,
    settlement::Changes,
    sync::{AtomicBool, Ordering},
};

/// What all clones of a service have in common.
pub(super) struct Shared<St, K> {
    pub(super) ids: Ids<St, K>,
    /// Whether the service inside, of which all clones share what it needs, has failed to become ready.
    pub(super) is_broken: AtomicBool,
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
            Probe::mark_unhandled(&message);
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
    mut message: Message,
) -> Result<Disposition, BoxError>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    St: DedupStore,
{
    let Shared { ids, is_broken } = shared;
    ids.stats.count_handled();
    let unhandled = Unhandled::watch(&mut message);
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
    let is_handled = !unhandled.as_ref().is_some_and(Unhandled::is_marked);
    if matches!(answer, Ok(Disposition::Complete)) && is_handled {
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
