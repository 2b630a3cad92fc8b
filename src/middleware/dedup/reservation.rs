use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{runtime::Handle, time::sleep};

use super::{DedupStats, DedupStore, StoreError, StoreErrorKind};
use crate::{
    settlement::cause_of,
    transport::{Escaped, log_limit},
};

/// An id that is reserved. Dropped before its end, it ends all the same.
pub(super) struct Reservation<'a, St: DedupStore> {
    store: &'a Arc<St>,
    stats: &'a DedupStats,
    token: Option<St::Token>,
    /// Whether the handler has done its work.
    handled: bool,
}

impl<'a, St: DedupStore> Reservation<'a, St> {
    pub(super) fn new(store: &'a Arc<St>, stats: &'a DedupStats, token: St::Token) -> Self {
        Self { store, stats, token: Some(token), handled: false }
    }

    /// Runs a handler, and renews the lease meanwhile. No timer is made for one that is done at its first poll.
    pub(super) async fn keep<F: Future>(&self, lease: Duration, handler: F) -> F::Output {
        let (mut handler, mut renewals) = (pin!(handler), pin!(self.renew(lease)));
        poll_fn(|cx| {
            let answer = handler.as_mut().poll(cx);
            if answer.is_pending() {
                let Poll::Pending = renewals.as_mut().poll(cx);
            }
            answer
        })
        .await
    }

    async fn renew(&self, lease: Duration) -> Infallible {
        let mut pause = lease / 2;
        loop {
            sleep(pause).await;
            let Some(token) = &self.token else { return pending().await };
            pause = match self.store.renew(token, lease).await {
                Ok(()) => lease / 2,
                Err(error) => {
                    failed_renewal(self.stats, &error);
                    if error.kind() == StoreErrorKind::Superseded {
                        return pending().await;
                    }
                    lease / 8
                }
            };
        }
    }

    pub(super) async fn commit(mut self) {
        self.handled = true;
        self.end().await;
    }

    pub(super) async fn forget(mut self) {
        self.end().await;
    }

    async fn end(&mut self) {
        if let Some(token) = &self.token {
            end(&**self.store, self.stats, token, self.handled).await;
            self.token = None;
        }
    }
}

pub(super) async fn end<St: DedupStore>(store: &St, stats: &DedupStats, token: &St::Token, handled: bool) {
    let ended = if handled { store.commit(token).await } else { store.forget(token).await };
    count_end(stats, handled, ended);
}

/// Counts what came of a commit, or of an id that was to be forgotten.
#[inline]
pub(super) fn count_end(stats: &DedupStats, handled: bool, ended: Result<(), StoreError>) {
    match ended {
        Ok(()) if handled => stats.count_committed(),
        Ok(()) => stats.count_forgotten(),
        Err(error) if handled => failed(stats, DedupStats::count_commit_failed, &error),
        Err(error) => failed(stats, DedupStats::count_store_failed, &error),
    }
}

/// A failed renewal is tried again, unless the id is reserved elsewhere.
#[cold]
pub(super) fn failed_renewal(stats: &DedupStats, error: &StoreError) {
    failed(stats, DedupStats::count_store_failed, error);
}

/// A reservation that fails is tried again, while its message waits.
#[cold]
pub(super) fn failed_reservation(scope: &str, stats: &DedupStats, error: &StoreError) {
    if let Some(suppressed) = log_limit(scope, "ReservationFailed") {
        let (scope, cause) = (Escaped(scope), cause_of(error));
        tracing::warn!(%scope, error = %Escaped(&cause), suppressed, "the id of a message was not reserved: the message waits");
    }
    stats.count_store_failed();
}

#[cold]
fn failed(stats: &DedupStats, count: fn(&DedupStats), error: &StoreError) {
    if let Some(suppressed) = log_limit("dedup", "StoreFailed") {
        let cause = cause_of(error);
        tracing::warn!(error = %Escaped(&cause), suppressed, "the store of handled ids failed: a message may be handled twice, or later");
    }
    count(stats);
}

impl<St: DedupStore> Drop for Reservation<'_, St> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            end_later(Arc::clone(self.store), self.stats.clone(), token, self.handled);
        }
    }
}

/// Most stores are done at the first poll, or need no more than that to do it.
#[cold]
pub(super) fn end_later<St: DedupStore>(store: Arc<St>, stats: DedupStats, token: St::Token, handled: bool) {
    let mut end = Box::pin(async move { end(&*store, &stats, &token, handled).await });
    let pending = end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    if pending && let Ok(runtime) = Handle::try_current() {
        runtime.spawn(end);
    }
}
