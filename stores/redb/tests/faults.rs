//! A process that stops at any await of the pipeline, from a received message to its settlement, over each store.
#![allow(clippy::unwrap_used)]

use std::{
    future::{Future, pending},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueLease},
    middleware::dedup::{Begin, DedupKey, DedupLayer, DedupStore, MemoryStore, StoreError, StoreErrorKind},
    time::{ManualClock, Timestamp},
    transport::{Delivery, Lease, ReceiverExt, Sender},
};
use consign_store_redb::RedbStore;
use futures_util::FutureExt;
use tempfile::TempDir;
use tokio::sync::Notify;
use tower::{BoxError, Layer, ServiceExt, service_fn};

const WINDOW: Duration = Duration::from_secs(600);
const LEASE: Duration = Duration::from_secs(60);
const LOCK: Duration = Duration::from_secs(60);

/// How a run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// What is under way is dropped, and the process lives on.
    Dropped,
    /// Nothing more reaches the store or the broker, and what is in memory is gone.
    Died,
}

/// The awaits of a run, counted, and the one at which it stops.
struct Awaits {
    at: u32,
    stop: Stop,
    passed: AtomicU32,
    is_dead: AtomicBool,
    reached: Notify,
}

impl Awaits {
    fn until(at: u32, stop: Stop) -> Arc<Self> {
        let (passed, is_dead, reached) = (AtomicU32::new(0), AtomicBool::new(false), Notify::new());
        Arc::new(Self { at, stop, passed, is_dead, reached })
    }

    async fn pass(&self) {
        if self.passed.fetch_add(1, Ordering::Relaxed) == self.at {
            self.is_dead.store(self.stop == Stop::Died, Ordering::Relaxed);
            self.reached.notify_one();
            pending::<()>().await;
        }
    }

    /// A request to a store, with an await before it and one after.
    async fn around<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.pass().await;
        if self.is_dead.load(Ordering::Relaxed) {
            return Err(StoreError::new(StoreErrorKind::Unavailable));
        }
        let answer = request.await;
        self.pass().await;
        answer
    }
}

struct Watched<S> {
    store: Arc<S>,
    awaits: Arc<Awaits>,
}

impl<S: DedupStore> DedupStore for Watched<S> {
    type Token = S::Token;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<S::Token>, StoreError> {
        self.awaits.around(self.store.begin(key, lease)).await
    }

    async fn commit(&self, token: &S::Token) -> Result<(), StoreError> {
        self.awaits.around(self.store.commit(token)).await
    }

    async fn forget(&self, token: &S::Token) -> Result<(), StoreError> {
        self.awaits.around(self.store.forget(token)).await
    }
}

/// Where a store is, and what becomes of it.
trait Place {
    type Store: DedupStore;

    fn open(&mut self) -> Arc<Self::Store>;
    fn close(&mut self, stop: Stop);
}

struct InMemory(Arc<MemoryStore<Arc<ManualClock>>>, Arc<ManualClock>);

impl InMemory {
    fn new(clock: &Arc<ManualClock>) -> Self {
        Self(Arc::new(MemoryStore::with_clock(WINDOW, Arc::clone(clock))), Arc::clone(clock))
    }
}

impl Place for InMemory {
    type Store = MemoryStore<Arc<ManualClock>>;

    fn open(&mut self) -> Arc<Self::Store> {
        Arc::clone(&self.0)
    }

    fn close(&mut self, stop: Stop) {
        if stop == Stop::Died {
            *self = Self::new(&self.1);
        }
    }
}

struct InFile {
    folder: TempDir,
    clock: Arc<ManualClock>,
    open: Option<Arc<RedbStore<Arc<ManualClock>>>>,
}

impl InFile {
    fn new(clock: &Arc<ManualClock>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock: Arc::clone(clock), open: None }
    }
}

impl Place for InFile {
    type Store = RedbStore<Arc<ManualClock>>;

    fn open(&mut self) -> Arc<Self::Store> {
        let builder = || RedbStore::builder(WINDOW).clock(Arc::clone(&self.clock));
        let open = || Arc::new(builder().open(self.folder.path().join("handled.redb")).unwrap());
        Arc::clone(self.open.get_or_insert_with(open))
    }

    fn close(&mut self, stop: Stop) {
        if stop == Stop::Died {
            self.open = None;
        }
    }
}

/// Receives, handles and settles until the queue is empty. The effect is the last step of the handler.
async fn consume<S: DedupStore>(queue: &Queue, store: Watched<S>, effects: Arc<AtomicU32>) {
    let awaits = Arc::clone(&store.awaits);
    let watched = Arc::clone(&awaits);
    let handler = service_fn(move |_: Message| {
        let (awaits, effects) = (Arc::clone(&watched), Arc::clone(&effects));
        async move {
            awaits.pass().await;
            awaits.pass().await;
            effects.fetch_add(1, Ordering::Relaxed);
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let stack = DedupLayer::new(store, "orders").lease(LEASE).layer(handler);
    let mut receiver = queue.receiver();
    while let Some(delivery) = receiver.receive().now_or_never() {
        let Delivery { message, lease } = delivery.unwrap();
        let lease = Held(Some(lease));
        let disposition = stack.clone().oneshot(message).await.unwrap();
        awaits.pass().await;
        lease.settle(disposition).await;
        awaits.pass().await;
    }
}

/// A lock that is not given back when it is dropped: a process that has died does not.
struct Held(Option<QueueLease>);

impl Held {
    async fn settle(mut self, disposition: Disposition) {
        self.0.take().unwrap().settle(disposition).await.unwrap();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        std::mem::forget(self.0.take());
    }
}

/// Two copies of a message, and a process that stops at one of its awaits, and another one after it. How often the effect
/// was had; `None` if there are not so many awaits.
async fn run<P: Place>(place: impl FnOnce(&Arc<ManualClock>) -> P, at: u32, stop: Stop) -> Option<u32> {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
    let settings = QueueSettings::default().lock_duration(LOCK);
    let queue = Broker::with_clock(Arc::clone(&clock)).create_queue("orders", settings).unwrap();
    for _ in 0..2 {
        let message = Message::builder().message_id("a").build("body").unwrap();
        queue.sender().unwrap().send(message).await.unwrap();
    }
    let (mut place, effects) = (place(&clock), Arc::new(AtomicU32::new(0)));
    let awaits = Awaits::until(at, stop);
    let store = Watched { store: place.open(), awaits: Arc::clone(&awaits) };
    let is_done = tokio::select! {
        () = consume(&queue, store, Arc::clone(&effects)) => true,
        () = awaits.reached.notified() => false,
    };
    place.close(stop);
    // The lock of what was in hand runs out, and the lease of its id where the store still has it.
    clock.advance(LOCK);
    let store = Watched { store: place.open(), awaits: Awaits::until(u32::MAX, stop) };
    consume(&queue, store, Arc::clone(&effects)).await;
    let counts = queue.counts();
    assert_eq!((counts.active, counts.locked, counts.dead_lettered), (0, 0, 0), "at {at}");
    (!is_done).then(|| effects.load(Ordering::Relaxed))
}

/// The effects for each await at which the first process may stop.
async fn runs<P: Place>(name: &str, place: impl Fn(&Arc<ManualClock>) -> P, stop: Stop) -> Vec<u32> {
    let mut effects = Vec::new();
    for at in 0.. {
        match run(&place, at, stop).await {
            Some(count) => effects.push(count),
            None => break,
        }
    }
    let lost = effects.iter().filter(|&&count| count == 0).count();
    let second = effects.iter().filter(|&&count| count > 1).count();
    println!("{name}, {stop:?}: {} awaits, {lost} lost, {second} handled twice: {effects:?}", effects.len());
    effects
}

/// The awaits of the first message: a begin, the handler, the commit, the settlement. Then those of its copy, which is
/// known: a begin, the settlement.
const AWAITS: usize = 2 + 2 + 2 + 2 + 2 + 2;
/// The handler is through, and its commit has not reached the store.
const BEFORE_THE_COMMIT: usize = 4;
const AFTER_THE_LAST_SETTLEMENT: usize = AWAITS - 1;

/// Rules: W-12.
#[tokio::test]
async fn a_call_dropped_at_any_await_has_one_effect_with_each_store() {
    assert_eq!(runs("memory", InMemory::new, Stop::Dropped).await, [1; AWAITS]);
    assert_eq!(runs("file", InFile::new, Stop::Dropped).await, [1; AWAITS]);
}

/// Rules: W-12.
#[tokio::test]
async fn a_process_that_dies_at_any_await_has_a_second_effect_before_the_commit_alone() {
    let mut expected = [1; AWAITS];
    expected[BEFORE_THE_COMMIT] = 2;
    assert_eq!(runs("file", InFile::new, Stop::Died).await, expected);
    // Ids in memory die with it: what is not settled by then is handled again.
    for (at, effects) in expected.iter_mut().enumerate() {
        *effects = if (BEFORE_THE_COMMIT..AFTER_THE_LAST_SETTLEMENT).contains(&at) { 2 } else { 1 };
    }
    assert_eq!(runs("memory", InMemory::new, Stop::Died).await, expected);
}

/// Loses one request to a store, or its answer.
struct Losing<S> {
    store: Arc<S>,
    asked: AtomicU32,
    number: u32,
    answers: bool,
}

impl<S: DedupStore> Losing<S> {
    async fn ask<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let is_lost = self.asked.fetch_add(1, Ordering::Relaxed) == self.number;
        let unavailable = || StoreError::new(StoreErrorKind::Unavailable);
        if is_lost && !self.answers {
            return Err(unavailable());
        }
        let answer = request.await;
        if is_lost { Err(unavailable()) } else { answer }
    }
}

impl<S: DedupStore> DedupStore for Losing<S> {
    type Token = S::Token;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<S::Token>, StoreError> {
        self.ask(self.store.begin(key, lease)).await
    }

    async fn commit(&self, token: &S::Token) -> Result<(), StoreError> {
        self.ask(self.store.commit(token)).await
    }

    async fn forget(&self, token: &S::Token) -> Result<(), StoreError> {
        self.ask(self.store.forget(token)).await
    }
}

/// Three deliveries of a message, each after the lease of the one before, with one request or answer lost. The effects.
async fn with_a_loss<P: Place>(place: impl FnOnce(&Arc<ManualClock>) -> P, number: u32, answers: bool) -> u32 {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
    let (mut place, effects) = (place(&clock), Arc::new(AtomicU32::new(0)));
    let store = Losing { store: place.open(), asked: AtomicU32::new(0), number, answers };
    let counted = Arc::clone(&effects);
    // Nothing waits: a message that cannot be handled comes again.
    let stack =
        DedupLayer::new(store, "orders").lease(LEASE).wait(Duration::ZERO).layer(service_fn(move |_: Message| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, BoxError>(Disposition::Complete) }
        }));
    for _delivery in 0..3 {
        let message = Message::builder().message_id("a").build("body").unwrap();
        let _abandoned = stack.clone().oneshot(message).await;
        clock.advance(LEASE);
    }
    effects.load(Ordering::Relaxed)
}

/// Rules: W-12.
#[tokio::test]
async fn a_lost_request_costs_an_effect_only_if_it_was_the_commit_with_each_store() {
    let mut second = 0;
    for number in 0..4 {
        for answers in [false, true] {
            let expected = if (number, answers) == (1, false) { 2 } else { 1 };
            for effects in
                [with_a_loss(InMemory::new, number, answers).await, with_a_loss(InFile::new, number, answers).await]
            {
                assert_eq!(effects, expected, "request {number}, its answer: {answers}");
                second += effects - 1;
            }
        }
    }
    println!("16 losses, 0 lost messages, {second} handled twice");
}
