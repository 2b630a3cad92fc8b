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
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tower::{BoxError, ServiceExt};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Begin, DedupKey, DedupStats, DedupStore, MakeKey, OriginalMessageId, StoreError, future::ResponseFuture,
    reservation::Reservation,
};
use crate::{Disposition, Message, message::Holding, settlement::Changes};

/// A layer that handles each message once; see the [module](super). They share the store, the scope and the counts.
pub struct DedupLayer<St, K = OriginalMessageId, D = CompleteDuplicates> {
    ids: Ids<St, K>,
    duplicates: D,
}

/// How ids are known.
pub(super) struct Ids<St, K> {
    pub(super) store: Arc<St>,
    pub(super) scope: Arc<str>,
    pub(super) key: Arc<K>,
    pub(super) times: Times,
    pub(super) stats: DedupStats,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) lease: Duration,
    wait: Duration,
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
        Self { ids, duplicates: CompleteDuplicates(()) }
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
    /// the lease. If a handler blocks its thread, or the store cannot be reached, for longer than half of it, a
    /// duplicate may be handled too.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.ids.times.lease = lease.max(Duration::from_millis(1));
        self
    }

    /// Sets how long a call waits for a store that fails, and, where no consumer holds the message, for an id that is being
    /// handled elsewhere: by default [`DedupLayer::WAIT`]. A message that has waited for so long is abandoned, which costs a
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

impl<St, K> Clone for Ids<St, K> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            scope: Arc::clone(&self.scope),
            key: Arc::clone(&self.key),
            times: self.times,
            stats: self.stats.clone(),
        }
    }
}

impl<St, K, D> fmt::Debug for DedupLayer<St, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupLayer").field("ids", &self.ids).finish_non_exhaustive()
    }
}

impl<St, K> fmt::Debug for Ids<St, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids")
            .field("scope", &self.scope)
            .field("times", &self.times)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<S, St, K, D: Clone> Layer<S> for DedupLayer<St, K, D> {
    type Service = Dedup<S, St, K, D>;

    fn layer(&self, inner: S) -> Self::Service {
        let shared = Shared { ids: self.ids.clone(), is_broken: AtomicBool::new(false) };
        Dedup { inner, shared: Arc::new(shared), duplicates: self.duplicates.clone() }
    }
}

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

/// What a message may do.
enum Verdict<'a, St: DedupStore> {
    HandOn(Reservation<'a, St>),
    HandOnWithoutKey,
    Known,
    /// The consumer is to hold the message. Something may be new after this time, zero if that is not known.
    Hold(Duration),
    InProgress,
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

impl<St: DedupStore, K> Ids<St, K> {
    #[inline]
    pub(super) fn reservation(&self, token: St::Token) -> Reservation<'_, St> {
        Reservation::new(&self.store, &self.stats, token)
    }
}

impl<St: DedupStore, K: MakeKey> Ids<St, K> {
    /// Reserves the id of a message, and waits for that if it must.
    async fn reserve(&self, message: &Message) -> Result<Verdict<'_, St>, StoreError> {
        let Some(id) = self.key.make_key(message) else { return Ok(Verdict::HandOnWithoutKey) };
        let key = DedupKey::new(&self.scope, &id);
        let mut waiting = Waiting::new(self.times.wait);
        let holding = message.holding();
        let mut met = matches!(holding, Holding::Was);
        loop {
            let (left, failure) = match self.store.begin(key, self.times.lease).await {
                Ok(Begin::New(token)) => return Ok(Verdict::HandOn(self.reservation(token))),
                Ok(Begin::Committed) => return Ok(Verdict::Known),
                Ok(Begin::InProgress { left }) => {
                    if !mem::replace(&mut met, true) {
                        self.stats.count_in_progress();
                    }
                    if !matches!(holding, Holding::No) {
                        return Ok(Verdict::Hold(left));
                    }
                    (left, None)
                }
                Err(error) => {
                    self.stats.count_store_failed();
                    (Duration::ZERO, Some(error))
                }
            };
            match (waiting.next(left), failure) {
                (Some(pause), _) => sleep(pause).await,
                (None, Some(error)) => return Err(error),
                (None, None) => return Ok(Verdict::InProgress),
            }
        }
    }
}

/// How a call waits: for a short while at first, and then for longer. Most calls do not, and so do not look at the time.
struct Waiting {
    since: Option<Instant>,
    total: Duration,
    pause: Duration,
}

impl Waiting {
    const SHORTEST: Duration = Duration::from_millis(1);
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    fn new(total: Duration) -> Self {
        Self { since: None, total, pause: Self::FIRST }
    }

    /// How long to pause. `left` is when there is something new at the latest, zero if that is not known; `None` if the
    /// time is over.
    fn next(&mut self, left: Duration) -> Option<Duration> {
        let rest = self.total.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
        let pause = if left.is_zero() { self.pause } else { self.pause.min(left) };
        self.pause = (self.pause * 2).min(Self::LONGEST);
        (!rest.is_zero()).then(|| pause.min(rest).max(Self::SHORTEST))
    }
}
