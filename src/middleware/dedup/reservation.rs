use std::{
    future::Future,
    sync::Arc,
    task::{Context, Waker},
};

use tokio::runtime::Handle;

use super::{DedupStats, DedupStore, StoreError};

/// An id that is reserved. Dropped before its end, it ends all the same.
pub(super) struct Reservation<St: DedupStore> {
    held: Option<Held<St>>,
    /// Whether the handler has done its work.
    handled: bool,
}

struct Held<St: DedupStore> {
    store: Arc<St>,
    stats: DedupStats,
    token: St::Token,
}

impl<St: DedupStore> Reservation<St> {
    pub(super) fn new(store: Arc<St>, stats: DedupStats, token: St::Token) -> Self {
        Self { held: Some(Held { store, stats, token }), handled: false }
    }

    pub(super) async fn commit(mut self) {
        self.handled = true;
        self.end().await;
    }

    pub(super) async fn forget(mut self) {
        self.end().await;
    }

    async fn end(&mut self) {
        if let Some(held) = &self.held {
            held.end(self.handled).await;
            self.held = None;
        }
    }
}

impl<St: DedupStore> Held<St> {
    async fn end(&self, handled: bool) {
        let Self { store, stats, token } = self;
        if handled {
            match store.commit(token).await {
                Ok(()) => stats.count_committed(),
                Err(error) => self.failed(DedupStats::count_commit_failed, &error),
            }
        } else {
            match store.forget(token).await {
                Ok(()) => stats.count_forgotten(),
                Err(error) => self.failed(DedupStats::count_store_failed, &error),
            }
        }
    }

    #[cold]
    fn failed(&self, count: fn(&DedupStats), error: &StoreError) {
        tracing::warn!(%error, "a reserved id could not be committed or forgotten");
        count(&self.stats);
    }
}

impl<St: DedupStore> Drop for Reservation<St> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            end_later(held, self.handled);
        }
    }
}

/// Most stores are done at the first poll, or need no more than that to do it.
#[cold]
fn end_later<St: DedupStore>(held: Held<St>, handled: bool) {
    let mut end = Box::pin(async move { held.end(handled).await });
    let pending = end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    if pending && let Ok(runtime) = Handle::try_current() {
        runtime.spawn(end);
    }
}
