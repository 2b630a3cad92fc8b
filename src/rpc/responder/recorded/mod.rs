//! The replies to the last requests, for duplicates of them.

mod memory;
mod reply;

use std::{fmt, future::Future, sync::Arc, time::Duration};

pub use self::{memory::MemoryReplies, reply::RecordedReply};
use crate::{
    Message,
    middleware::dedup::{DedupKey, MakeKey, OriginalMessageId, StoreError},
    time::Clock,
    transport::BoxFuture,
};

/// A store of replies by the keys of their requests, for the time in which a duplicate may arrive.
///
/// Methods are called at once and from many tasks. For replies that outlive the process use the store that keeps the ids: if one
/// of two is lost, the other is useless.
///
/// # Cancel safety
///
/// A future that is dropped may have had its effect or not.
///
/// # Examples
///
/// Replies in memory, without the window and the limit of [`MemoryReplies`]:
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
///
/// use consign::{
///     middleware::dedup::{DedupKey, StoreError},
///     rpc::{RecordedReplies, RecordedReply, ReplyStore},
/// };
///
/// #[derive(Default)]
/// struct Replies(Mutex<HashMap<Vec<u8>, RecordedReply>>);
///
/// fn id(key: DedupKey<'_>) -> Vec<u8> {
///     [key.scope().as_bytes(), b"/", key.id()].concat()
/// }
///
/// impl ReplyStore for Replies {
///     async fn put(&self, key: DedupKey<'_>, reply: RecordedReply) -> Result<(), StoreError> {
///         self.0.lock().unwrap().insert(id(key), reply);
///         Ok(())
///     }
///
///     async fn find(&self, key: DedupKey<'_>) -> Result<Option<RecordedReply>, StoreError> {
///         Ok(self.0.lock().unwrap().get(&id(key)).cloned())
///     }
/// }
///
/// let replies = RecordedReplies::in_store(Replies::default());
/// # drop(replies);
/// ```
pub trait ReplyStore: Send + Sync + 'static {
    /// Stores a reply, and replaces the one of this key, if there is one. A store that has a limit drops the oldest for
    /// it, or does not keep what is larger: that is no failure.
    fn put(&self, key: DedupKey<'_>, reply: RecordedReply) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The reply that is kept for this key, unless its time is over.
    fn find(&self, key: DedupKey<'_>) -> impl Future<Output = Result<Option<RecordedReply>, StoreError>> + Send;
}

impl<R: ReplyStore> ReplyStore for Arc<R> {
    fn put(&self, key: DedupKey<'_>, reply: RecordedReply) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).put(key, reply)
    }

    fn find(&self, key: DedupKey<'_>) -> impl Future<Output = Result<Option<RecordedReply>, StoreError>> + Send {
        (**self).find(key)
    }
}

/// The replies to the last requests, by default in the memory of this process: [`MemoryReplies`].
///
/// A duplicate whose reply is gone is completed without an answer, and never handled again for it.
pub struct RecordedReplies<R = MemoryReplies> {
    store: R,
    scope: Arc<str>,
    key: Box<dyn MakeKey + Send + Sync>,
}

impl RecordedReplies {
    /// How many bytes are kept in memory by default: 16 MiB.
    pub const MAX_BYTES: usize = MemoryReplies::MAX_BYTES;

    /// Creates a record in memory that has each reply for `window`, by tokio's time. It is best that of the store of ids.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self::in_store(MemoryReplies::new(window))
    }

    /// Sets the maximum size in bytes: the replies, and 256 bytes for each.
    #[must_use]
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        Self { store: self.store.max_bytes(max_bytes), ..self }
    }

    /// Takes the time from `clock`.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { store: self.store.clock(clock), ..self }
    }
}

impl<R: ReplyStore> RecordedReplies<R> {
    /// Creates a record of replies in `store`.
    #[must_use]
    pub fn in_store(store: R) -> Self {
        Self { store, scope: Arc::from(""), key: Box::new(OriginalMessageId) }
    }

    /// Identifies requests by `key`. Use the one of the layer that finds the duplicates.
    #[must_use]
    pub fn key(self, key: impl MakeKey + Send + Sync + 'static) -> Self {
        Self { key: Box::new(key), ..self }
    }

    /// Sets the scope, which separates these replies from others in the same store, like the scope of a
    /// [`DedupLayer`](crate::middleware::dedup::DedupLayer). By default it is empty.
    #[must_use]
    pub fn scope(self, scope: impl Into<Arc<str>>) -> Self {
        Self { scope: scope.into(), ..self }
    }
}

impl<R> fmt::Debug for RecordedReplies<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedReplies").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The same, whatever the store is.
pub(super) trait Record: Send + Sync {
    fn put(self: Arc<Self>, request: &Message, reply: &Message) -> BoxFuture<Result<(), StoreError>>;

    fn find(self: Arc<Self>, request: &Message) -> BoxFuture<Result<Option<RecordedReply>, StoreError>>;
}

impl<R: ReplyStore> Record for RecordedReplies<R> {
    fn put(self: Arc<Self>, request: &Message, reply: &Message) -> BoxFuture<Result<(), StoreError>> {
        let (request, reply) = (request.clone(), RecordedReply::of(reply));
        Box::pin(async move {
            match self.key.make_key(&request) {
                Some(id) => self.store.put(DedupKey::new(&self.scope, &id), reply).await,
                None => Ok(()),
            }
        })
    }

    fn find(self: Arc<Self>, request: &Message) -> BoxFuture<Result<Option<RecordedReply>, StoreError>> {
        let request = request.clone();
        Box::pin(async move {
            match self.key.make_key(&request) {
                Some(id) => self.store.find(DedupKey::new(&self.scope, &id)).await,
                None => Ok(None),
            }
        })
    }
}
