use std::{fmt, sync::Arc, time::Duration};

use tower_layer::Layer;
use tower_service::Service;

use super::{
    DedupStats, DedupStore, MakeKey, OriginalMessageId,
    ids::{Ids, Times},
    service::{CompleteDuplicates, Dedup},
};
use crate::{Disposition, Message};

/// A layer that handles each message once; see the [module](super). They share the store, the scope and the counts.
pub struct DedupLayer<St, K = OriginalMessageId, D = CompleteDuplicates> {
    ids: Ids<St, K>,
    duplicates: D,
}

impl<St: DedupStore> DedupLayer<St> {
    /// How long a reservation lasts by default unless it is renewed: 30 seconds. It is renewed every 15 seconds.
    pub const LEASE: Duration = Duration::from_secs(30);

    /// How long a call waits by default for an id that is being handled elsewhere, if no consumer holds the message: five
    /// minutes.
    pub const WAIT: Duration = Duration::from_secs(300);

    /// Creates the layer with a store of ids and a scope, for example the path of the queue or subscription. Two
    /// subscriptions of a topic get the same messages, and so must not have the same scope.
    #[must_use]
    pub fn new(store: St, scope: impl Into<Arc<str>>) -> Self {
        let ids = Ids {
            store: Arc::new(store),
            scope: scope.into(),
            key: Arc::new(OriginalMessageId),
            times: Times { lease: Self::LEASE, wait: Self::WAIT },
            stats: DedupStats::default(),
        };
        Self { ids, duplicates: CompleteDuplicates::new() }
    }
}

impl<St, K, D> DedupLayer<St, K, D> {
    /// Returns the scope that ids are known in.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.ids.scope
    }

    /// Identifies messages by `key`.
    #[must_use]
    pub fn key<N: MakeKey>(self, key: N) -> DedupLayer<St, N, D> {
        let Self { ids: Ids { store, scope, times, stats, .. }, duplicates } = self;
        DedupLayer { ids: Ids { store, scope, key: Arc::new(key), times, stats }, duplicates }
    }

    /// Passes duplicates of handled messages to `duplicates`, which settles them. By default they are completed.
    /// [`Responder::replay`](crate::rpc::Responder::replay) sends the reply of the first one again.
    #[must_use]
    pub fn on_duplicate<N>(self, duplicates: N) -> DedupLayer<St, K, N>
    where
        N: Service<Message, Response = Disposition> + Clone,
    {
        DedupLayer { ids: self.ids, duplicates }
    }

    /// Sets how long a reservation lasts unless it is ended: by default [`DedupLayer::LEASE`], at least 1 ms. It is
    /// renewed at half of that for as long as the handler runs. After a process crash its messages wait for the end of
    /// the lease. If a call is not polled, a handler blocks its thread, or the store cannot be reached, for longer than
    /// half of it, a duplicate may be handled too.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.ids.times.lease = lease.max(Duration::from_millis(1));
        self
    }

    /// Sets how long a call waits for a store that fails, and, where no consumer holds the message, for an id that is being
    /// handled elsewhere: by default [`DedupLayer::WAIT`]. It is no deadline for one call of the store: a
    /// [`DedupStore`](super::DedupStore) has to answer, or fail, in time by itself. A message that has waited for so long is abandoned, which costs a
    /// delivery. A message that a consumer holds is held until its id is free.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.ids.times.wait = wait;
        self
    }

    /// Returns the counts so far, and from now on.
    #[must_use]
    pub fn stats(&self) -> DedupStats {
        self.ids.stats.clone()
    }
}

impl<St, K, D: Clone> Clone for DedupLayer<St, K, D> {
    fn clone(&self) -> Self {
        Self { ids: self.ids.clone(), duplicates: self.duplicates.clone() }
    }
}

impl<St, K, D> fmt::Debug for DedupLayer<St, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupLayer").field("ids", &self.ids).finish_non_exhaustive()
    }
}

impl<S, St, K, D: Clone> Layer<S> for DedupLayer<St, K, D> {
    type Service = Dedup<S, St, K, D>;

    fn layer(&self, inner: S) -> Self::Service {
        Dedup::new(inner, self.ids.clone(), self.duplicates.clone())
    }
}
