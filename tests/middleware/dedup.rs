//! Duplicates around a mock and a store in memory.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    message::{MessageBody, Properties, Value},
    middleware::dedup::{
        Begin, BodyBytes, DedupKey, DedupLayer, DedupStats, DedupStore, MakeKey, MemoryStore, StoreError,
        StoreErrorKind,
    },
    settlement::DeadLetterReason,
    time::{ManualClock, Timestamp},
};
use tokio::time::{Instant, advance, sleep};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_test::mock;

const WINDOW: Duration = Duration::from_secs(600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn with_id(id: &'static str) -> Message {
    Message::builder().message_id(id).build("body").unwrap()
}

fn layer() -> DedupLayer<MemoryStore> {
    DedupLayer::new(MemoryStore::new(WINDOW), "orders")
}

/// How often the handler has run.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicU32>);

impl Runs {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes a second and completes.
    fn handler(
        &self,
    ) -> impl Service<Message, Response = Disposition, Error = Infallible, Future: Send> + Clone + Send + use<> {
        let runs = self.0.clone();
        service_fn(move |_: Message| {
            runs.fetch_add(1, Ordering::Relaxed);
            async {
                sleep(seconds(1)).await;
                Ok(Disposition::Complete)
            }
        })
    }
}

/// Rules: W-01.
#[tokio::test]
async fn a_handled_message_is_completed_and_counted() {
    let layer = layer();
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(layer.clone());
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(with_id("a")));
    assert_pending!(call.poll());
    handle.next_request().await.unwrap().1.send_response(Disposition::Complete);
    assert_eq!(assert_ready_ok!(call.poll()), Disposition::Complete);

    // A retry, and a resubmission: a new id, and the first one as a property.
    let mut again = with_id("b");
    again.properties_mut().application_properties_mut().insert(Properties::ORIGINAL_MESSAGE_ID, "a");
    for duplicate in [with_id("a"), again] {
        assert_ready_ok!(stack.poll_ready::<Message>());
        assert_eq!(assert_ready_ok!(task::spawn(stack.call(duplicate)).poll()), Disposition::Complete);
        assert_pending!(handle.poll_request());
    }
    let stats = layer.stats();
    assert_eq!((stats.handled(), stats.committed(), stats.duplicates()), (1, 1, 2));
}

/// Rules: W-02.
#[tokio::test(start_paused = true)]
async fn scopes_do_not_share_ids() {
    let store = Arc::new(MemoryStore::new(WINDOW));
    let runs = Runs::default();
    for (scope, handled) in
        [("orders/subscriptions/a", 1), ("orders/subscriptions/b", 2), ("orders/subscriptions/a", 2)]
    {
        let stack = DedupLayer::new(Arc::clone(&store), scope).layer(runs.handler());
        assert_eq!(stack.oneshot(with_id("a")).await.unwrap(), Disposition::Complete);
        assert_eq!(runs.count(), handled, "{scope}");
    }
}

async fn runs_by<K: MakeKey + Send + Sync + 'static>(key: K, messages: [Message; 3]) -> (u32, u64) {
    let (runs, layer) = (Runs::default(), layer().key(key));
    let stats = layer.stats();
    let stack = layer.layer(runs.handler());
    for message in messages {
        stack.clone().oneshot(message).await.unwrap();
    }
    (runs.count(), stats.without_key())
}

/// Rules: W-03.
#[tokio::test(start_paused = true)]
async fn the_key_is_of_choice_and_without_one_a_message_is_handled() {
    let by_subject = |message: &Message| message.subject().map(String::from);
    let same = || Message::builder().message_id("a").subject("s").build("same").unwrap();
    let other = || Message::builder().message_id("b").subject("t").build("same").unwrap();
    assert_eq!(runs_by(BodyBytes, [same(), other(), with_id("a")]).await, (2, 0));
    assert_eq!(runs_by(by_subject, [same(), other(), same()]).await, (2, 0));
    assert_eq!(runs_by(by_subject, [with_id("a"), with_id("a"), same()]).await, (3, 2));
    let value = || Message::new(MessageBody::Value(Box::new(Value::from(1))));
    assert_eq!(runs_by(BodyBytes, [value(), Message::new(""), value()]).await, (3, 3));
    let without_id = || Message::new("no id");
    assert_eq!(
        runs_by(consign::middleware::dedup::OriginalMessageId, [without_id(), without_id(), same()]).await,
        (3, 2)
    );
}

/// Rules: W-04.
#[tokio::test]
async fn the_window_is_exact_and_does_not_slide() {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let layer = DedupLayer::new(MemoryStore::with_clock(WINDOW, Arc::clone(&clock)), "orders");
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let (stack, stats) = (layer.layer(handler), layer.stats());
    let mut known = vec![];
    for step in [0, 300_000, 299_999, 2, 599_999, 1] {
        clock.advance(millis(step));
        // UTC makes no difference.
        clock.set_utc(Timestamp::EPOCH);
        let before = stats.duplicates();
        stack.clone().oneshot(with_id("a")).await.unwrap();
        known.push(stats.duplicates() > before);
    }
    // At 0, half, window - 1 ms, window + 1 ms; then again one window after that: less 1 ms, and exactly.
    assert_eq!(known, [false, true, true, false, true, false]);
}

/// Rules: W-06.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_not_completed_is_handled_again() {
    let dead = Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "never");
    for (end, name) in
        ["an error", "a panic", "a panic of the call", "dropped", "abandon", "defer", "dead"].iter().enumerate()
    {
        let layer = layer();
        let failed = dead.clone();
        let first = layer.layer(service_fn(move |_: Message| {
            let failed = failed.clone();
            assert_ne!(end, 2, "on purpose");
            async move {
                sleep(seconds(1)).await;
                match end {
                    0 => return Err(BoxError::from("an error")),
                    1 => panic!("on purpose"),
                    3 => pending().await,
                    _ => {}
                }
                Ok([Disposition::ABANDON, Disposition::DEFER, failed][end - 4].clone())
            }
        }));
        let call = tokio::spawn(first.oneshot(with_id("a")));
        sleep(seconds(2)).await;
        assert_eq!(call.is_finished(), end != 3, "{name}");
        call.abort();
        let _ = call.await;

        let (runs, started) = (Runs::default(), Instant::now());
        let answer = layer.layer(runs.handler()).oneshot(with_id("a")).await.unwrap();
        assert_eq!((answer, runs.count()), (Disposition::Complete, 1), "{name}");
        assert_eq!(started.elapsed(), seconds(1), "{name}: forgotten at once, and not by its lease");
        assert_eq!((layer.stats().forgotten(), layer.stats().handled()), (1, 2), "{name}");
    }
}

/// Rules: W-07.
#[tokio::test(start_paused = true)]
async fn a_duplicate_waits_for_what_is_in_progress() {
    let (layer, runs) = (layer(), Runs::default());
    let stack = layer.layer(runs.handler());
    let calls: Vec<_> = (0..10).map(|_| tokio::spawn(stack.clone().oneshot(with_id("a")))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), Disposition::Complete);
    }
    let stats = layer.stats();
    assert_eq!((runs.count(), stats.duplicates(), stats.in_progress()), (1, 9, 9));

    // It does not end well, and one of those that wait takes over.
    let fails = layer.layer(service_fn(|_: Message| async {
        sleep(seconds(5)).await;
        Err::<Disposition, _>(BoxError::from("an error"))
    }));
    let failing = tokio::spawn(fails.oneshot(with_id("b")));
    sleep(seconds(1)).await;
    assert_eq!(stack.oneshot(with_id("b")).await.unwrap(), Disposition::Complete);
    failing.await.unwrap().unwrap_err();
    assert_eq!(runs.count(), 2);
}

/// Rules: W-07.
#[tokio::test(start_paused = true)]
async fn a_duplicate_that_waited_too_long_is_abandoned() {
    for (wait, waited) in [(seconds(0), seconds(0)), (seconds(30), seconds(30))] {
        let (layer, runs) = (layer().wait(wait), Runs::default());
        let hangs = layer.layer(service_fn(|_: Message| pending::<Result<Disposition, BoxError>>()));
        let _hanging = tokio::spawn(hangs.oneshot(with_id("a")));
        sleep(seconds(1)).await;
        let start = Instant::now();
        assert_eq!(layer.layer(runs.handler()).oneshot(with_id("a")).await.unwrap(), Disposition::ABANDON);
        assert_eq!((start.elapsed(), runs.count(), layer.stats().given_up()), (waited, 0, 1));
    }
}

/// A service that never becomes ready.
#[derive(Clone)]
struct Broken;

impl Service<Message> for Broken {
    type Response = Disposition;
    type Error = BoxError;
    type Future = std::future::Pending<Result<Disposition, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Err("its worker is gone".into()))
    }

    fn call(&mut self, _: Message) -> Self::Future {
        panic!("it is not ready")
    }
}

/// Rules: W-212.
#[tokio::test(start_paused = true)]
async fn a_message_that_waits_keeps_nothing_ready() {
    let (layer, runs) = (layer(), Runs::default());
    let hangs = layer.layer(service_fn(|_: Message| pending::<Result<Disposition, BoxError>>()));
    let _hanging = tokio::spawn(hangs.oneshot(with_id("a")));
    sleep(seconds(1)).await;
    let stack = layer.layer(ServiceBuilder::new().concurrency_limit(1).service(runs.handler()));
    let waiting = tokio::spawn(stack.clone().oneshot(with_id("a")));
    sleep(seconds(1)).await;
    // A clone shares the one permit, which only a handler that runs may have.
    let start = Instant::now();
    assert_eq!(stack.clone().oneshot(with_id("b")).await.unwrap(), Disposition::Complete);
    assert_eq!((start.elapsed(), waiting.is_finished()), (seconds(1), false));
    let both = tokio::join!(stack.clone().oneshot(with_id("c")), stack.oneshot(with_id("d")));
    assert!(both.0.is_ok() && both.1.is_ok());
    assert_eq!((start.elapsed(), runs.count()), (seconds(3), 3));
}

/// Rules: W-212.
#[tokio::test(start_paused = true)]
async fn a_service_inside_that_never_becomes_ready_is_seen_by_the_driver() {
    let layer = layer();
    let mut stack = layer.layer(Broken);
    let error = stack.ready().await.unwrap().call(with_id("a")).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), layer.stats().forgotten()), ("its worker is gone", 1));
    assert!(stack.clone().ready().await.is_err() && stack.ready().await.is_err(), "a consumer ends by that");
}

/// Rules: W-213.
#[tokio::test(start_paused = true)]
async fn the_ids_of_a_killed_process_are_free_after_half_a_minute() {
    let store = Arc::new(MemoryStore::new(WINDOW));
    let layer = DedupLayer::new(Arc::clone(&store), "orders");
    assert_eq!(DedupLayer::<MemoryStore>::LEASE, seconds(30));
    let Begin::New(_) = store.begin(DedupKey::new("orders", b"a"), DedupLayer::<MemoryStore>::LEASE).await.unwrap()
    else {
        panic!("unknown")
    };
    let (runs, start) = (Runs::default(), Instant::now());
    layer.layer(runs.handler()).oneshot(with_id("a")).await.unwrap();
    assert_eq!((runs.count(), start.elapsed()), (1, seconds(31)));
}

/// Rules: W-08.
#[tokio::test(start_paused = true)]
async fn a_reservation_ends_with_its_lease() {
    let store = Arc::new(MemoryStore::new(WINDOW));
    let key = DedupKey::new("orders", b"a");
    let Begin::New(gone) = store.begin(key, seconds(60)).await.unwrap() else { panic!("unknown") };
    advance(seconds(10)).await;
    assert!(matches!(store.begin(key, seconds(60)).await.unwrap(), Begin::InProgress { left } if left == seconds(50)));

    // The process that had reserved it is gone: the next delivery waits for the lease and is handled.
    let (layer, runs) = (DedupLayer::new(Arc::clone(&store), "orders"), Runs::default());
    let start = Instant::now();
    layer.layer(runs.handler()).oneshot(with_id("a")).await.unwrap();
    assert_eq!((runs.count(), start.elapsed()), (1, seconds(51)));
    // It was not: its commit says what is so already, and forgetting is not its right.
    store.commit(&gone).await.unwrap();
    store.forget(&gone).await.unwrap();
    assert!(matches!(store.begin(key, seconds(60)).await.unwrap(), Begin::Committed));
}

/// Rules: W-08.
#[tokio::test(start_paused = true)]
async fn a_late_commit_holds_unless_the_id_is_reserved_anew() {
    let store = MemoryStore::new(WINDOW);
    let key = DedupKey::new("orders", b"a");
    let Begin::New(late) = store.begin(key, seconds(60)).await.unwrap() else { panic!("unknown") };
    advance(seconds(60)).await;
    let Begin::New(second) = store.begin(key, seconds(60)).await.unwrap() else { panic!("the lease is over") };
    assert_eq!(store.commit(&late).await.unwrap_err().kind(), StoreErrorKind::Superseded);
    advance(seconds(60)).await;
    store.commit(&second).await.unwrap();
    assert!(matches!(store.begin(key, seconds(60)).await.unwrap(), Begin::Committed));
}

/// Fails until it has been asked so often, and cannot commit.
struct Failing {
    store: MemoryStore,
    failures: AtomicU32,
    commits: bool,
}

impl DedupStore for Failing {
    type Token = <MemoryStore as DedupStore>::Token;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<Self::Token>, StoreError> {
        let less = |failures: u32| failures.checked_sub(1);
        if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            return Err(StoreError::new(StoreErrorKind::Unavailable).with_source("out of reach"));
        }
        self.store.begin(key, lease).await
    }

    async fn commit(&self, token: &Self::Token) -> Result<(), StoreError> {
        if !self.commits {
            return Err(StoreError::new(StoreErrorKind::Unavailable));
        }
        self.store.commit(token).await
    }

    async fn forget(&self, token: &Self::Token) -> Result<(), StoreError> {
        self.store.forget(token).await
    }
}

fn failing(failures: u32, commits: bool) -> DedupLayer<Failing> {
    DedupLayer::new(Failing { store: MemoryStore::new(WINDOW), failures: failures.into(), commits }, "orders")
}

/// Counts renewals. So many fail, after as many that do not.
struct Renewing {
    store: MemoryStore,
    renewals: AtomicU32,
    fails: std::ops::Range<u32>,
}

impl DedupStore for Renewing {
    type Token = <MemoryStore as DedupStore>::Token;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<Self::Token>, StoreError> {
        self.store.begin(key, lease).await
    }

    async fn renew(&self, token: &Self::Token, lease: Duration) -> Result<(), StoreError> {
        if self.fails.contains(&self.renewals.fetch_add(1, Ordering::Relaxed)) {
            return Err(StoreError::new(StoreErrorKind::Unavailable));
        }
        self.store.renew(token, lease).await
    }

    async fn commit(&self, token: &Self::Token) -> Result<(), StoreError> {
        self.store.commit(token).await
    }

    async fn forget(&self, token: &Self::Token) -> Result<(), StoreError> {
        self.store.forget(token).await
    }
}

/// Two deliveries of a message, a second apart, whose handler takes ten leases of ten seconds. How often it ran, how often
/// the lease was renewed by when the first run was over, and the counts.
async fn ten_leases(fails: std::ops::Range<u32>) -> (u32, u32, DedupStats) {
    let store = Arc::new(Renewing { store: MemoryStore::new(WINDOW), renewals: AtomicU32::new(0), fails });
    let layer = DedupLayer::new(Arc::clone(&store), "orders").lease(seconds(10));
    let (stats, runs) = (layer.stats(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&runs);
    let stack = layer.layer(service_fn(move |_: Message| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            sleep(seconds(100)).await;
            Ok::<_, BoxError>(Disposition::Complete)
        }
    }));
    let first = tokio::spawn(stack.clone().oneshot(with_id("a")));
    sleep(seconds(1)).await;
    let second = tokio::spawn(stack.oneshot(with_id("a")));
    assert_eq!(first.await.unwrap().unwrap(), Disposition::Complete);
    let renewals = store.renewals.load(Ordering::Relaxed);
    assert_eq!(second.await.unwrap().unwrap(), Disposition::Complete);
    (runs.load(Ordering::Relaxed), renewals, stats)
}

/// Rules: W-19.
#[tokio::test(start_paused = true)]
async fn a_handler_of_ten_leases_is_not_run_again_meanwhile() {
    let (runs, renewals, stats) = ten_leases(0..0).await;
    assert_eq!((runs, renewals), (1, 19), "at half of each lease");
    assert_eq!((stats.handled(), stats.in_progress(), stats.duplicates(), stats.given_up()), (1, 1, 1, 0));
    assert_eq!((stats.committed(), stats.commit_failed(), stats.store_failed()), (1, 0, 0));
}

/// Rules: W-19.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again_while_the_lease_lasts() {
    let (runs, _, stats) = ten_leases(5..8).await;
    assert_eq!((runs, stats.duplicates(), stats.store_failed()), (1, 1, 3));
}

/// Rules: W-19.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_ends_and_the_handler_runs_on() {
    let (runs, _, stats) = ten_leases(5..15).await;
    assert_eq!((runs, stats.handled(), stats.duplicates()), (2, 2, 0));
    // The first one finds its id reserved, by a renewal and by its commit.
    assert_eq!((stats.committed(), stats.commit_failed(), stats.store_failed()), (1, 1, 11));
}

/// Rules: W-19.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_renews_no_more() {
    let layer = layer().lease(seconds(10));
    let hangs = layer.layer(service_fn(|_: Message| pending::<Result<Disposition, BoxError>>()));
    let hanging = tokio::spawn(hangs.oneshot(with_id("a")));
    sleep(seconds(100)).await;
    hanging.abort();
    let _ = hanging.await;
    let (runs, start) = (Runs::default(), Instant::now());
    layer.layer(runs.handler()).oneshot(with_id("a")).await.unwrap();
    assert_eq!((runs.count(), start.elapsed()), (1, seconds(1)));
}

/// Rules: W-09.
#[tokio::test(start_paused = true)]
async fn nothing_is_handled_without_a_reservation() {
    let (layer, runs) = (failing(u32::MAX, true).wait(seconds(20)), Runs::default());
    let start = Instant::now();
    let error = layer.layer(runs.handler()).oneshot(with_id("a")).await.unwrap_err();
    assert_eq!(error.downcast_ref::<StoreError>().map(StoreError::kind), Some(StoreErrorKind::Unavailable));
    assert_eq!(std::error::Error::source(&*error).unwrap().to_string(), "out of reach");
    assert_eq!((runs.count(), start.elapsed()), (0, seconds(20)));

    // It comes back while the message waits.
    let layer = failing(5, true);
    layer.layer(runs.handler()).oneshot(with_id("a")).await.unwrap();
    assert_eq!((runs.count(), layer.stats().store_failed()), (1, 5));
}

/// Rules: W-10.
#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_costs_the_id_and_not_the_message() {
    let (layer, runs) = (failing(0, false), Runs::default());
    let stack = layer.layer(runs.handler());
    assert_eq!(stack.clone().oneshot(with_id("a")).await.unwrap(), Disposition::Complete);
    assert_eq!((layer.stats().committed(), layer.stats().commit_failed()), (0, 1));
    let start = Instant::now();
    assert_eq!(stack.oneshot(with_id("a")).await.unwrap(), Disposition::Complete);
    assert_eq!(runs.count(), 2);
    assert_eq!(start.elapsed(), DedupLayer::<MemoryStore>::LEASE, "the lease less one run, and another run");
}

/// Rules: W-11.
/// Attacks: 69.
#[tokio::test]
async fn a_full_store_refuses_and_forgets_nothing_early() {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let store = MemoryStore::with_clock(WINDOW, Arc::clone(&clock)).max_ids(100);
    let id = |n: u32| n.to_le_bytes();
    for n in 0..100 {
        let Begin::New(token) = store.begin(DedupKey::new("", &id(n)), seconds(1)).await.unwrap() else {
            panic!("{n}")
        };
        store.commit(&token).await.unwrap();
        clock.advance(millis(1));
    }
    let full = store.begin(DedupKey::new("", &id(100)), seconds(1)).await.unwrap_err();
    assert_eq!(full.kind(), StoreErrorKind::Full);
    for n in 0..100 {
        assert!(matches!(store.begin(DedupKey::new("", &id(n)), seconds(1)).await.unwrap(), Begin::Committed), "{n}");
    }
    // The window of the first is over, and of no other.
    clock.advance(millis(599_900));
    assert!(matches!(store.begin(DedupKey::new("", &id(100)), seconds(1)).await.unwrap(), Begin::New(_)));
    assert_eq!(store.begin(DedupKey::new("", &id(0)), seconds(1)).await.unwrap_err().kind(), StoreErrorKind::Full);
    assert!(matches!(store.begin(DedupKey::new("", &id(1)), seconds(1)).await.unwrap(), Begin::Committed));
    // A lease that is over makes room too.
    clock.advance(seconds(1));
    assert!(matches!(store.begin(DedupKey::new("", &id(101)), seconds(1)).await.unwrap(), Begin::New(_)));
}

/// Rules: W-04.
#[tokio::test]
async fn many_windows_that_end_at_once_are_exact_too() {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let store = MemoryStore::with_clock(WINDOW, Arc::clone(&clock));
    let ids: Vec<_> = (0..500_u32).map(u32::to_le_bytes).collect();
    let new = async |id| match store.begin(DedupKey::new("", id), seconds(1)).await.unwrap() {
        Begin::New(token) => store.commit(&token).await.is_ok(),
        _ => false,
    };
    for id in &ids {
        assert!(new(id).await);
    }
    // The last first, while the others are still to be forgotten.
    clock.advance(WINDOW);
    for id in ids.iter().rev() {
        assert!(new(id).await);
    }
    for id in &ids {
        assert!(!new(id).await, "its second window lasts");
    }
    assert_eq!(store.len(), ids.len());
}

/// Rules: W-11.
#[tokio::test]
async fn ids_in_progress_have_a_separate_bound() {
    let store = MemoryStore::new(WINDOW).max_ids(8_000);
    let mut tokens = vec![];
    for n in 0..2_000_u32 {
        let Begin::New(token) = store.begin(DedupKey::new("", &n.to_le_bytes()), seconds(60)).await.unwrap() else {
            panic!()
        };
        tokens.push(token);
    }
    assert_eq!(
        store.begin(DedupKey::new("", b"one more"), seconds(60)).await.unwrap_err().kind(),
        StoreErrorKind::Full
    );
    store.forget(&tokens[0]).await.unwrap();
    assert!(matches!(store.begin(DedupKey::new("", b"one more"), seconds(60)).await.unwrap(), Begin::New(_)));
}
