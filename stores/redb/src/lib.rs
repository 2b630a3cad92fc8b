//! The ids of handled messages in a file: a [`DedupStore`] that outlives its process, on [redb](https://docs.rs/redb). The
//! same file keeps recorded replies, as a [`ReplyStore`].
//!
//! ```
//! use std::time::Duration;
//! use consign::{Disposition, Message, middleware::dedup::DedupLayer};
//! use consign_store_redb::RedbStore;
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("handled.redb");
//! // Ids are known for a day after their message was handled.
//! let store = RedbStore::open(path, Duration::from_secs(24 * 3_600))?;
//! let stack = ServiceBuilder::new()
//!     .layer(DedupLayer::new(store, "orders"))
//!     .service(service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete)));
//! stack.oneshot(Message::builder().message_id("order-17").build("one order")?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Contents of the file
//!
//! The file has the committed ids, and until when each is known. An id is stored as a keyed digest of 128 bits. The secret
//! key is generated when the file is created. A commit returns when it is on the disk. Commits that arrive while another one
//! is being written are written together.
//!
//! Reservations are not in the file. Only one process at a time can open the file. So when a process opens it, no earlier
//! process is handling a message any more. A message whose handler the earlier process had begun is handled as soon as it is
//! redelivered, without waiting for a lease.
//!
//! The windows use UTC, because monotonic time cannot be compared between two processes; leases use monotonic time.
//!
//! # Replies
//!
//! A responder that answers duplicates stores its replies beside the ids, so that both outlive the process:
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use consign::{
//! #     codecs::Codecs, message::EntityPath, middleware::dedup::DedupLayer, routing::Body,
//! #     rpc::{RecordedReplies, Reply, Responder}, transport::{ErrorKind, SendError},
//! # };
//! # use consign_store_redb::RedbStore;
//! # use tower::{Layer, service_fn};
//! # fn main() -> Result<(), tower::BoxError> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("handled.redb");
//! # let senders = |_: &EntityPath| Ok(service_fn(async |_| Err(SendError::new(ErrorKind::EntityNotFound))));
//! let store = Arc::new(RedbStore::open(path, Duration::from_secs(24 * 3_600))?);
//! let responder = Responder::builder(senders)
//!     .record(RecordedReplies::in_store(Arc::clone(&store)).scope("requests"))
//!     .codecs(Codecs::json())
//!     .answer("double", async |Body(number): Body<u32>| Reply(number * 2))
//!     .build()?;
//! let stack = DedupLayer::new(store, "requests").on_duplicate(responder.replay()).layer(responder);
//! # drop(stack);
//! # Ok(())
//! # }
//! ```
//!
//! A reply is on the disk before it is sent, and is kept for the window of the ids, up to [a number of
//! bytes](Builder::max_reply_bytes). Its body is in the file unencrypted: a user who may read the file may read the replies.
//!
//! # Failure
//!
//! A failure is a [`StoreError`] whose source is redb's error, or [`NotOpened`] with the path of the file. After a write that
//! failed, as on a full disk, the store closes the file and opens it again, with pauses of 100 ms to 10 s. The pauses become
//! longer until ids or replies are written. The store then writes and removes 256 ids, as many as a write can have. Until
//! that has succeeded, no id is reserved. A process that is killed loses no commit that was answered.
//!
//! redb does not check what it reads, so the store of a damaged file may forget ids. redb may also panic there. Opening such
//! a file fails as [`Unavailable`](StoreErrorKind::Unavailable). After a panic in an open store, all calls fail with its text
//! as their source, and the file stays locked until the process ends.
//!
//! # Threads
//!
//! A store has one thread of its own, which does all reading and writing. At most 1,024 requests wait for it; a further call
//! waits until one is done. Each call ends at [`Builder::timeout`], 5 s by default, so it requires a tokio runtime with time.
//! Dropping the store waits for the write in progress.
#![forbid(unsafe_code)]

mod file;
mod new_file;
mod panics;
mod replies;
mod request;
mod reserved;
mod worker;

use std::{fmt, future::Future, path::Path, thread::JoinHandle, time::Duration};

use consign::{
    middleware::dedup::{Begin, DedupKey, DedupStore, StoreError, StoreErrorKind},
    rpc::{RecordedReply, ReplyStore},
    time::{Clock, SystemClock},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    file::File,
    replies::NewReply,
    request::{Answer, Request},
    worker::Worker,
};
pub use crate::{
    file::{NotOpened, UnknownFormat},
    request::RedbToken,
};

/// A store of ids in a file; see the [crate](self).
pub struct RedbStore<C = SystemClock> {
    secret: [u8; 16],
    clock: C,
    timeout: Duration,
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// The options of a store.
#[derive(Debug)]
#[must_use = "nothing is opened until `open` is called"]
pub struct Builder<C = SystemClock> {
    window: Duration,
    max_ids: u64,
    max_reply_bytes: u64,
    timeout: Duration,
    clock: C,
}

impl RedbStore {
    /// The maximum of ids by default, committed and reserved.
    pub const MAX_IDS: u64 = 10_000_000;

    /// The maximum bytes of replies in a file by default: 256 MiB.
    pub const MAX_REPLY_BYTES: u64 = 256 << 20;

    /// The maximum of reserved ids. A further one is refused as [`Full`](StoreErrorKind::Full).
    pub const MAX_RESERVED: usize = reserved::Reserved::MOST;

    /// How long a request waits for the disk by default.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// Opens a file, or creates it. An id is known for `window` after its commit, and a reply is kept for as long, in whole
    /// milliseconds. It reads and writes, and so blocks for a few milliseconds. A new file is created beside its place, as
    /// `NAME.RANDOM.part`, and gets its name when it is whole: an interrupted creation leaves at most such a file.
    ///
    /// Fails as [`InUse`](StoreErrorKind::InUse) if the file is open already, in this process or in another one. Fails as
    /// [`Unavailable`](StoreErrorKind::Unavailable) if it cannot be opened, is damaged or is [not of this kind](UnknownFormat).
    /// The source is [`NotOpened`], which names the file.
    pub fn open(path: impl AsRef<Path>, window: Duration) -> Result<Self, StoreError> {
        Self::builder(window).open(path)
    }

    /// Returns a builder, for other settings.
    pub fn builder(window: Duration) -> Builder {
        let (max_ids, max_reply_bytes) = (Self::MAX_IDS, Self::MAX_REPLY_BYTES);
        Builder { window, max_ids, max_reply_bytes, timeout: Self::TIMEOUT, clock: SystemClock::new() }
    }
}

impl<C: Clock> RedbStore<C> {
    const WAITING: usize = 1_024;

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, StoreError> {
        let asked = async {
            let (answer, answered) = oneshot::channel();
            self.requests.as_ref()?.send(request(answer)).await.ok()?;
            answered.await.ok()
        };
        match timeout(self.timeout, asked).await {
            Ok(Some(answer)) => answer,
            // Its thread has ended, for example by a panic.
            Ok(None) => Err(StoreError::new(StoreErrorKind::Unavailable)),
            Err(late) => Err(StoreError::new(StoreErrorKind::Unavailable).with_source(late)),
        }
    }
}

impl<C: Clock> Builder<C> {
    /// Sets the maximum of ids, committed and reserved, at least 1. A further one is refused as [`Full`](StoreErrorKind::Full)
    /// when it is to be reserved, and none is forgotten early.
    pub fn max_ids(mut self, max: u64) -> Self {
        self.max_ids = max.max(1);
        self
    }

    /// Sets the maximum bytes of replies: their own, and 64 of overhead for each. A new reply removes the oldest ones if
    /// necessary, and a reply that is larger than the maximum is not kept. The pages of the file take more.
    pub fn max_reply_bytes(mut self, max: u64) -> Self {
        self.max_reply_bytes = max;
        self
    }

    /// Sets how long a request waits, at least a millisecond; [5 s](RedbStore::TIMEOUT). Then it fails as
    /// [`Unavailable`](StoreErrorKind::Unavailable): the disk does not answer, or is too slow. A commit that was given up may be
    /// written later.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets the clock.
    pub fn clock<N: Clock>(self, clock: N) -> Builder<N> {
        let Self { window, max_ids, max_reply_bytes, timeout, .. } = self;
        Builder { window, max_ids, max_reply_bytes, timeout, clock }
    }

    /// Opens a file, or creates it, as [`RedbStore::open`] does.
    pub fn open(self, path: impl AsRef<Path>) -> Result<RedbStore<C>, StoreError> {
        let file = File::open(path.as_ref(), self.window, self.max_ids, self.max_reply_bytes)?;
        let secret = file.secret();
        let (requests, incoming) = mpsc::channel(RedbStore::<C>::WAITING);
        let worker = Worker::new(file, incoming);
        let thread = std::thread::Builder::new().name("consign-store-redb".into()).spawn(move || worker.run());
        let thread = thread.map_err(|error| StoreError::new(StoreErrorKind::Unavailable).with_source(error))?;
        let (clock, timeout) = (self.clock, self.timeout);
        Ok(RedbStore { secret, clock, timeout, requests: Some(requests), thread: Some(thread) })
    }
}

impl<C: Clock> DedupStore for RedbStore<C> {
    type Token = RedbToken;

    fn begin(
        &self,
        key: DedupKey<'_>,
        lease: Duration,
    ) -> impl Future<Output = Result<Begin<RedbToken>, StoreError>> + Send {
        let (digest, now) = (u128::from_le_bytes(key.digest(&self.secret)), self.clock.now());
        self.ask(move |answer| Request::Begin { digest, now, lease, answer })
    }

    fn renew(&self, token: &RedbToken, lease: Duration) -> impl Future<Output = Result<(), StoreError>> + Send {
        let (token, now) = (*token.inner(), self.clock.now());
        self.ask(move |answer| Request::Renew { token, now, lease, answer })
    }

    fn commit(&self, token: &RedbToken) -> impl Future<Output = Result<(), StoreError>> + Send {
        let (token, now) = (*token.inner(), self.clock.now());
        self.ask(move |answer| Request::Commit { token, now, answer })
    }

    fn forget(&self, token: &RedbToken) -> impl Future<Output = Result<(), StoreError>> + Send {
        let token = *token.inner();
        self.ask(move |answer| Request::Forget { token, answer })
    }
}

impl<C: Clock> ReplyStore for RedbStore<C> {
    fn put(&self, key: DedupKey<'_>, reply: RecordedReply) -> impl Future<Output = Result<(), StoreError>> + Send {
        let (digest, now) = (u128::from_le_bytes(key.digest(&self.secret)), self.clock.now());
        let reply = NewReply { digest, now: now.utc, bytes: reply.to_bytes() };
        self.ask(move |answer| Request::PutReply { reply, now, answer })
    }

    fn find(&self, key: DedupKey<'_>) -> impl Future<Output = Result<Option<RecordedReply>, StoreError>> + Send {
        let (digest, now) = (u128::from_le_bytes(key.digest(&self.secret)), self.clock.now());
        self.ask(move |answer| Request::FindReply { digest, now, answer })
    }
}

impl<C> Drop for RedbStore<C> {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported already.
            let _ = thread.join();
        }
    }
}

impl<C> fmt::Debug for RedbStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: W-09.
    #[tokio::test(start_paused = true)]
    async fn a_store_whose_disk_does_not_answer_is_unavailable() {
        const LIMIT: Duration = Duration::from_secs(7);
        let (requests, waiting) = mpsc::channel(1);
        let clock = SystemClock::new();
        let store = RedbStore { secret: [0; 16], clock, timeout: LIMIT, requests: Some(requests), thread: None };
        let began = tokio::time::Instant::now();
        // The first one waits for its answer, and the second one for a place in the queue.
        for id in [b"a", b"b"] {
            let begun = store.begin(DedupKey::new("orders", id), LIMIT).await;
            assert_eq!(begun.unwrap_err().kind(), StoreErrorKind::Unavailable);
        }
        assert_eq!(began.elapsed(), 2 * LIMIT);
        drop(waiting);
    }
}
