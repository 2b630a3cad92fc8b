//! Messages that are held outside of the slots: their id is being handled elsewhere, or they wait for a delay.

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Queue,
    consumer::{Consumer, Settings, Stats},
    middleware::{
        circuit_breaker::CircuitBreakerLayer,
        dedup::{Begin, DedupKey, DedupLayer, DedupStore, MemoryStore},
        expiry::ExpiryLayer,
        retry::RetryLayer,
    },
    time::SystemClock,
    transport::{ErrorKind, ReceiverExt, Sender},
};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tower::{BoxError, Layer, Service, ServiceBuilder, service_fn};

use crate::{
    assert_empty, delivery,
    fake::{Answer, Asked, Fake, Script, Step},
    queue, seconds, until, within,
};

/// Handled messages: the id, the delivery, and when.
type Handled = Arc<Mutex<Vec<(String, u32, Duration)>>>;

struct World {
    queue: Queue,
    store: Arc<MemoryStore>,
    handled: Handled,
    start: Instant,
}

impl World {
    /// A queue with `gone` messages whose ids a consumer had reserved that was killed, and as many others behind them.
    async fn new(gone: usize, others: usize) -> Self {
        let lock = QueueSettings::default().lock_duration(seconds(10)).max_delivery_count(2);
        let (queue, store) = (queue(lock), Arc::new(MemoryStore::new(seconds(600))));
        let sender = queue.sender().unwrap();
        for number in 0..gone + others {
            let id = if number < gone { format!("gone-{number}") } else { format!("other-{number}") };
            if number < gone {
                let begun = store.begin(DedupKey::new("orders", id.as_bytes()), DedupLayer::<MemoryStore>::LEASE).await;
                assert!(matches!(begun.unwrap(), Begin::New(_)));
            }
            sender.send(Message::builder().message_id(id).build("an order").unwrap()).await.unwrap();
        }
        Self { queue, store, handled: Handled::default(), start: Instant::now() }
    }

    /// Handlers take a second.
    fn run(&self, settings: &Settings, stop: impl Future<Output: Send> + Send + 'static) -> (Stats, JoinHandle<()>) {
        let (handled, start) = (Arc::clone(&self.handled), self.start);
        let handler = service_fn(move |message: Message| {
            let handled = Arc::clone(&handled);
            async move {
                let at = start.elapsed();
                sleep(seconds(1)).await;
                handled.lock().unwrap().push((message.message_id().unwrap().to_owned(), delivery(&message), at));
                Ok::<_, Infallible>(Disposition::Complete)
            }
        });
        let stack = DedupLayer::new(Arc::clone(&self.store), "orders").layer(handler);
        let consumer = Consumer::configured(self.queue.receiver(), stack, settings).unwrap();
        let stats = consumer.stats();
        (stats, tokio::spawn(async { drop(consumer.run_until(stop).await.unwrap()) }))
    }

    fn of(&self, kind: &str) -> Vec<(u32, Duration)> {
        let handled = self.handled.lock().unwrap();
        handled.iter().filter(|(id, ..)| id.starts_with(kind)).map(|(_, delivery, at)| (*delivery, *at)).collect()
    }
}

/// Rules: W-210.
#[tokio::test(start_paused = true)]
async fn messages_of_a_killed_consumer_take_no_slots_and_count_no_delivery() {
    let world = World::new(32, 64).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let (stats, run) = world.run(&Settings::new().concurrency(16), stopped);
    // All slots handle messages that no other consumer handles: four rounds of a second.
    within(10, until(|| world.of("other").len() == 64)).await;
    assert_eq!((world.of("gone").len(), stats.held()), (0, 32));
    let lease = DedupLayer::<MemoryStore>::LEASE;
    within(60, until(|| world.of("gone").len() == 32)).await;
    for (delivery, at) in world.of("gone") {
        assert_eq!(delivery, 1, "to wait is no delivery");
        assert!(at >= lease && at <= lease + seconds(5), "{at:?}");
    }
    stop.send(()).unwrap();
    run.await.unwrap();
    assert_eq!((stats.completed(), stats.handled(), stats.held(), stats.abandoned()), (96, 96, 32, 0));
    assert!(stats.renewed() >= 2 * 32, "locks of 10 s hold for 30 s");
    assert_empty(&world.queue);
}

/// Rules: W-211.
#[tokio::test(start_paused = true)]
async fn one_more_than_can_be_held_waits_without_a_hang_and_without_a_count() {
    for (concurrency, max_held, gone) in [(4, 2, 3), (2, 1, 8), (1, 0, 2), (3, 1, 40)] {
        let world = World::new(gone, 4).await;
        let settings = Settings::new().concurrency(concurrency).max_held(max_held);
        let (stop, stopped) = oneshot::channel::<()>();
        let (stats, run) = world.run(&settings, stopped);
        within(300, until(|| stats.completed() == gone as u64 + 4)).await;
        assert!(world.of("gone").iter().chain(&world.of("other")).all(|(delivery, _)| *delivery == 1));
        stop.send(()).unwrap();
        run.await.unwrap();
        assert_eq!(stats.abandoned(), 0);
        assert_empty(&world.queue);
    }
}

/// Rules: W-210.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_ends_releases_what_it_holds() {
    let world = World::new(8, 0).await;
    for drops in [false, true] {
        let (stop, stopped) = oneshot::channel::<()>();
        let (stats, run) = world.run(&Settings::new(), stopped);
        within(5, until(|| stats.held() == 8)).await;
        let before = Instant::now();
        if drops {
            run.abort();
            let _ = run.await;
        } else {
            stop.send(()).unwrap();
            run.await.unwrap();
            assert_eq!(stats.released(), 8);
        }
        assert!(before.elapsed() < seconds(1));
        assert_eq!((world.queue.counts().active, world.queue.counts().locked), (8, 0));
    }
    let (_stop, stopped) = oneshot::channel::<()>();
    let (stats, _run) = world.run(&Settings::new(), stopped);
    within(60, until(|| stats.completed() == 8)).await;
    assert!(world.of("gone").iter().all(|(delivery, _)| *delivery == 1));
}

/// Rules: W-210.
/// Outer layers pass it on: it is no failure.
#[tokio::test(start_paused = true)]
async fn layers_outside_take_a_held_message_for_no_failure() {
    let world = World::new(4, 0).await;
    let (retry, expiry) = (RetryLayer::new().immediate(3), ExpiryLayer::new(SystemClock::new()));
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let stack = ServiceBuilder::new()
        .layer(expiry)
        .layer(&retry)
        .layer(CircuitBreakerLayer::new(1, 1, seconds(1_000)))
        .layer(DedupLayer::new(Arc::clone(&world.store), "orders"))
        .service(handler);
    let consumer = Consumer::new(world.queue.receiver(), stack);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    within(60, until(|| stats.completed() == 4)).await;
    // Their locks are renewed, as the message shows.
    assert_eq!((retry.counts().immediate(), stats.held(), stats.failed()), (0, 4, 0));
    run.abort();
}

/// Rules: W-210.
/// Messages that another process handles, which renews its leases, are held for as long as that takes.
#[tokio::test(start_paused = true)]
async fn a_message_is_held_for_as_long_as_the_other_handler_runs() {
    let store = Arc::new(MemoryStore::new(seconds(600)));
    let layer = DedupLayer::new(Arc::clone(&store), "orders");
    let slow = layer.layer(service_fn(|_: Message| async {
        sleep(seconds(1_000)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    }));
    let message = || Message::builder().message_id("a").build("").unwrap();
    let elsewhere = tokio::spawn(tower::ServiceExt::oneshot(slow, message()));
    sleep(seconds(1)).await;
    let queue = queue(QueueSettings::default().lock_duration(seconds(30)));
    queue.sender().unwrap().send(message()).await.unwrap();
    let never = service_fn(async |_: Message| -> Result<Disposition, BoxError> { panic!("handled twice") });
    let consumer = Consumer::new(queue.receiver(), layer.layer(never)).concurrency(1);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    within(1_100, until(|| stats.completed() == 1)).await;
    elsewhere.await.unwrap().unwrap();
    assert_eq!((stats.held(), stats.abandoned(), stats.lock_lost(), layer.stats().in_progress()), (1, 0, 0, 1));
    run.abort();
}

/// Whether a stack is ready.
#[derive(Clone, Copy, PartialEq)]
enum Gate {
    Open,
    /// Ready once more.
    Once,
    Shut,
}

/// Is ready as a test has it.
#[derive(Clone)]
struct Gated<S>(S, Arc<Mutex<(Gate, Option<Waker>)>>);

impl<S: Service<Message>> Service<Message> for Gated<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let mut gate = self.1.lock().unwrap();
        if gate.0 == Gate::Shut {
            gate.1 = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let ready = self.0.poll_ready(cx);
        if ready.is_ready() && gate.0 == Gate::Once {
            gate.0 = Gate::Shut;
        }
        ready
    }

    fn call(&mut self, message: Message) -> S::Future {
        self.0.call(message)
    }
}

/// Rules: W-210.
/// The slot that is free next is another one when the stack is ready again.
#[tokio::test(start_paused = true)]
async fn a_held_message_is_the_same_one_in_another_slot() {
    let world = World::new(1, 1).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(1)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let gate = Arc::new(Mutex::new((Gate::Open, None::<Waker>)));
    let stack = Gated(DedupLayer::new(Arc::clone(&world.store), "orders").layer(handler), Arc::clone(&gate));
    let consumer = Consumer::new(world.queue.receiver(), stack).concurrency(2);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    sleep(Duration::from_millis(500)).await;
    gate.lock().unwrap().0 = Gate::Once;
    within(10, until(|| stats.completed() == 1)).await;
    let (mode, waker) = std::mem::replace(&mut *gate.lock().unwrap(), (Gate::Open, None));
    assert!(mode == Gate::Shut);
    waker.unwrap().wake();
    within(60, until(|| stats.completed() == 2)).await;
    assert_eq!((stats.held(), stats.abandoned(), stats.lock_lost(), stats.handled()), (1, 0, 0, 2));
    run.abort();
}

fn delayed() -> impl tower::Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone {
    service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::abandon_after(seconds(100))))
}

/// Rules: K-210.
#[tokio::test(start_paused = true)]
async fn without_delays_of_the_transport_the_consumer_holds_the_message() {
    let fake = Fake::new([Step::Deliver(Script::default())]);
    let consumer = Consumer::new(fake.receiver(), delayed()).concurrency(1);
    let health = consumer.health();
    let (start, run) = (Instant::now(), tokio::spawn(consumer.run()));
    sleep(seconds(99)).await;
    assert_eq!((health.snapshot().in_use, health.snapshot().waiting), (0, 1), "it takes no slot");
    assert!(fake.asked().iter().all(|asked| *asked == Asked::Renew(1)), "{:?}", fake.asked());
    sleep(seconds(2)).await;
    let settled = fake.asked_at().pop().unwrap();
    assert_eq!((settled.0 - start, settled.1), (seconds(100), Asked::Settle(1, Disposition::ABANDON)));
    run.abort();
}

/// Rules: K-210.
#[tokio::test(start_paused = true)]
async fn a_delay_counts_its_delivery_without_renewals_too() {
    let queue = queue(QueueSettings::default().lock_duration(seconds(10)).max_delivery_count(3));
    queue.sender().unwrap().send(Message::new("an order")).await.unwrap();
    let consumer = Consumer::new(queue.receiver(), delayed()).concurrency(1).renew_for(Duration::ZERO);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    within(30, until(|| queue.counts().dead_lettered == 1)).await;
    assert_eq!((stats.abandoned(), stats.released()), (3, 0));
    run.abort();
}

/// Rules: K-210.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_dropped_abandons_what_waits_for_a_delay() {
    let queue = queue(QueueSettings::default());
    queue.sender().unwrap().send(Message::new("an order")).await.unwrap();
    let run = tokio::spawn(Consumer::new(queue.receiver(), delayed()).concurrency(1).run());
    sleep(seconds(1)).await;
    run.abort();
    let _ = run.await;
    let again = queue.receiver().receive().await.unwrap();
    assert_eq!(delivery(&again.message), 2);
    again.complete().await.unwrap();
}

/// Rules: K-210.
/// The message is dead-lettered, and nothing is to be redelivered later.
#[tokio::test(start_paused = true)]
async fn a_delay_after_the_last_delivery_is_not_waited_for() {
    let queue = queue(QueueSettings::default().max_delivery_count(1));
    queue.sender().unwrap().send(Message::new("an order")).await.unwrap();
    let run = tokio::spawn(Consumer::new(queue.receiver(), delayed()).concurrency(1).run());
    within(50, until(|| queue.counts().dead_lettered == 1)).await;
    run.abort();
}

/// Rules: W-210.
#[tokio::test(start_paused = true)]
async fn a_held_message_whose_lock_is_lost_is_dropped() {
    for lost in [Answer::Fails(ErrorKind::MessageLockLost), Answer::Never] {
        let fake = Fake::new([Step::Deliver(Script { renew: vec![Answer::Now, lost], ..Script::default() })]);
        let consumer = Consumer::new(fake.receiver(), delayed()).concurrency(1);
        let (stats, health) = (consumer.stats(), consumer.health());
        let run = tokio::spawn(consumer.run());
        sleep(seconds(99)).await;
        assert_eq!(fake.asked(), [Asked::Renew(1), Asked::Renew(1), Asked::Drop(1)]);
        assert_eq!((stats.lock_lost(), health.snapshot().waiting), (1, 0));
        run.abort();
    }
}
