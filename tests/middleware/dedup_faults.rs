//! Whatever goes wrong at whatever point, no message is lost, and one that was handled is not handled again.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::dedup::{Begin, DedupKey, DedupLayer, DedupStore, MemoryStore, StoreError, StoreErrorKind},
};
use tokio::task::yield_now;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

type Token = <MemoryStore as DedupStore>::Token;

const WINDOW: Duration = Duration::from_secs(3_600);

/// A store that is some way off: a request takes a moment, and so does its answer.
struct Distant {
    store: MemoryStore,
    asked: AtomicUsize,
    fault: Option<(usize, Lost)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lost {
    Request,
    Answer,
}

impl Distant {
    fn new(fault: Option<(usize, Lost)>) -> Self {
        Self { store: MemoryStore::new(WINDOW), asked: AtomicUsize::new(0), fault }
    }

    async fn ask<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let lost = |what| self.fault == Some((number, what));
        let unavailable = || StoreError::new(StoreErrorKind::Unavailable);
        yield_now().await;
        if lost(Lost::Request) {
            return Err(unavailable());
        }
        let answer = request.await;
        yield_now().await;
        if lost(Lost::Answer) { Err(unavailable()) } else { answer }
    }
}

impl DedupStore for Distant {
    type Token = Token;

    async fn begin(&self, key: DedupKey<'_>, lease: Duration) -> Result<Begin<Token>, StoreError> {
        self.ask(self.store.begin(key, lease)).await
    }

    async fn commit(&self, token: &Token) -> Result<(), StoreError> {
        self.ask(self.store.commit(token)).await
    }

    async fn forget(&self, token: &Token) -> Result<(), StoreError> {
        self.ask(self.store.forget(token)).await
    }
}

/// A handler with several await points, whose effect is its last step.
fn handler(
    effects: &Arc<AtomicU32>,
) -> impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send + use<> {
    let effects = Arc::clone(effects);
    service_fn(move |_: Message| {
        let effects = Arc::clone(&effects);
        async move {
            for _ in 0..3 {
                yield_now().await;
            }
            effects.fetch_add(1, Ordering::Relaxed);
            Ok(Disposition::Complete)
        }
    })
}

fn message() -> Message {
    Message::builder().message_id("a").build("body").unwrap()
}

/// Polls a call so often, and drops it. `true` if it ended before.
fn poll_and_drop(call: impl Future<Output = Result<Disposition, BoxError>>, polls: usize) -> bool {
    let mut call = pin!(call);
    let mut cx = Context::from_waker(Waker::noop());
    (0..polls).any(|_| call.as_mut().poll(&mut cx).is_ready())
}

/// Rules: W-12.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_at_any_point_leaves_one_effect() {
    for polls in 0.. {
        let effects = Arc::default();
        let layer = DedupLayer::new(Distant::new(None), "orders");
        let stack = layer.layer(handler(&effects));
        let ended = poll_and_drop(stack.clone().oneshot(message()), polls);

        // Its lock was lost with it, and it comes again; and once more, for the settlement is lost.
        for _delivery in 0..2 {
            assert_eq!(stack.clone().oneshot(message()).await.unwrap(), Disposition::Complete);
            assert_eq!(effects.load(Ordering::Relaxed), 1, "dropped after {polls} polls");
        }
        if ended {
            assert!(polls > 7, "two awaits of each request, and three of the handler");
            return;
        }
    }
}

/// Rules: W-12.
#[tokio::test(start_paused = true)]
async fn a_request_to_the_store_that_is_lost_costs_an_effect_only_if_it_was_the_commit() {
    for lost in [Lost::Request, Lost::Answer] {
        for number in 0..4 {
            let effects = Arc::default();
            let layer = DedupLayer::new(Distant::new(Some((number, lost))), "orders");
            let stack = layer.layer(handler(&effects));
            for _delivery in 0..3 {
                assert_eq!(stack.clone().oneshot(message()).await.unwrap(), Disposition::Complete);
            }
            // The requests: a begin, the commit (unless the begin was lost), and a begin for each duplicate.
            let commit_is_lost = (number, lost) == (1, Lost::Request);
            let expected = if commit_is_lost { 2 } else { 1 };
            assert_eq!(effects.load(Ordering::Relaxed), expected, "{lost:?} {number}");
            assert_eq!(layer.stats().commit_failed(), u64::from(number == 1), "{lost:?} {number}");
        }
    }
}

/// Rules: W-06.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_polled_forgets_its_id() {
    let effects = Arc::default();
    let layer = DedupLayer::new(MemoryStore::new(WINDOW), "orders");
    let mut stack = layer.layer(handler(&effects));
    drop(stack.ready().await.unwrap().call(message()));
    assert_eq!((layer.stats().handled(), layer.stats().forgotten()), (1, 1));
    assert_eq!(stack.oneshot(message()).await.unwrap(), Disposition::Complete);
    assert_eq!(effects.load(Ordering::Relaxed), 1);
}

/// Counts its clones.
struct Clones(Arc<AtomicU32>);

impl Clone for Clones {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_message_is_handled_without_a_clone_of_the_service_inside() {
    let (clones, layer) = (Arc::default(), DedupLayer::new(MemoryStore::new(WINDOW), "orders"));
    let counted = Clones(Arc::clone(&clones));
    let mut stack = layer.layer(service_fn(move |_: Message| {
        let _ = &counted;
        async { Ok::<_, BoxError>(Disposition::Complete) }
    }));
    for (id, expected) in [("a", 0), ("b", 0), ("b", 1)] {
        let message = Message::builder().message_id(id).build("body").unwrap();
        stack.ready().await.unwrap().call(message).await.unwrap();
        assert_eq!(clones.load(Ordering::Relaxed), expected, "{id}");
    }
}

/// Rules: W-06.
#[tokio::test(start_paused = true)]
async fn a_failure_is_forgotten_at_any_point_of_a_call_that_fails() {
    for polls in 0..12 {
        let effects = Arc::default();
        let layer = DedupLayer::new(Distant::new(None), "orders");
        let fails = layer.layer(service_fn(|_: Message| async {
            yield_now().await;
            Err::<Disposition, _>(BoxError::from("on purpose"))
        }));
        poll_and_drop(fails.oneshot(message()), polls);
        assert_eq!(layer.layer(handler(&effects)).oneshot(message()).await.unwrap(), Disposition::Complete);
        assert_eq!(effects.load(Ordering::Relaxed), 1, "dropped after {polls} polls");
    }
}

/// Rules: W-06.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_answers_when_its_id_is_forgotten() {
    let layer = DedupLayer::new(Distant::new(None), "orders");
    let fails = layer.layer(service_fn(|_: Message| async { Err::<Disposition, _>(BoxError::from("on purpose")) }));
    fails.oneshot(message()).await.unwrap_err();
    assert_eq!(layer.stats().forgotten(), 1, "it comes again at once, and need not wait");
}

#[cfg(feature = "testing")]
mod over_a_link {
    use std::{collections::HashMap, sync::Mutex};

    use consign::{
        administration::QueueSettings,
        consumer::Consumer,
        testing::{DeliveryFault, Faults, Link, LinkSettings, TestBroker},
        transport::ErrorKind,
    };
    use tokio::time::sleep;

    use super::*;

    /// What the handler did for each message.
    type Effects = Arc<Mutex<HashMap<String, u32>>>;

    fn handler(
        effects: &Effects,
    ) -> impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send + use<> {
        let effects = Arc::clone(effects);
        service_fn(move |message: Message| {
            let effects = Arc::clone(&effects);
            async move {
                sleep(Duration::from_millis(20)).await;
                *effects.lock().unwrap().entry(message.message_id().unwrap().to_owned()).or_default() += 1;
                Ok(Disposition::Complete)
            }
        })
    }

    /// Rules: W-05.
    #[tokio::test(start_paused = true)]
    async fn settlements_that_are_lost_are_made_up_for_without_a_second_run() {
        const MESSAGES: u32 = 100;
        for seed in 0..20 {
            let settings = QueueSettings::default().max_delivery_count(1_000);
            let queue = TestBroker::new().queue_with("orders", settings);
            for number in 0..MESSAGES {
                // Each is sent twice.
                for _ in 0..2 {
                    queue.send_message(Message::builder().message_id(number.to_string()).build("body").unwrap());
                }
            }
            let faults = Faults::seeded(seed)
                .deliveries(0.1, DeliveryFault::LoseSettlement(ErrorKind::CommunicationProblem))
                .deliveries(0.1, DeliveryFault::LoseSettlementAnswer(ErrorKind::ServiceTimeout))
                .deliveries(0.1, DeliveryFault::LoseLock)
                .deliveries(0.1, DeliveryFault::Duplicate);
            let link = Link::new(LinkSettings::default().faults(faults));
            let effects = Effects::default();
            let layer = DedupLayer::new(MemoryStore::new(WINDOW), "orders");
            let consumer =
                Consumer::new(link.receiver(queue.receiver()), layer.layer(handler(&effects))).concurrency(8);
            let stats = consumer.run_until(sleep(Duration::from_secs(600))).await.unwrap();

            queue.assert_empty();
            assert!(queue.dead_letters().is_empty(), "seed {seed}");
            assert!(stats.settle_failed() + stats.lock_lost() > 0, "seed {seed}: nothing went wrong");
            let effects = effects.lock().unwrap();
            assert_eq!(effects.len(), MESSAGES as usize, "seed {seed}");
            assert!(effects.values().all(|&count| count == 1), "seed {seed}: {effects:?}");
            assert!(layer.stats().duplicates() > u64::from(MESSAGES), "seed {seed}: each was sent twice");
        }
    }
}
