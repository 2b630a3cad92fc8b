//! Deliveries that come later, over the embedded broker on virtual time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    codecs::{Codecs, Text},
    consumer::{Consumer, Stats},
    message::{ApplicationProperties, Properties, PropertyValue, Received, SequenceNumber, limits},
    middleware::retry::{Backoff, DelayPolicy, Jitter, RetryHistory, RetryLayer},
    routing::Router,
    settlement::{DeadLetter, DeadLetterReason, Transient},
    testing::{DeliveryFault, Faults, Link, LinkSettings, SendFault, TestBroker, TestQueue},
    time::{Clock, Timestamp},
    transport::{Batch, Capabilities, Capability, ErrorKind, Level, Receiver, SendError, Sender},
};
use tokio::time::sleep;
use tokio_test::{assert_pending, task};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use super::support::{Broker, message};

const SECOND: Duration = Duration::from_secs(1);

/// What a handler saw: milliseconds since the start, and the message.
type Seen = Arc<Mutex<Vec<(u64, Message)>>>;

struct World {
    broker: TestBroker,
    queue: TestQueue,
    seen: Seen,
}

impl World {
    fn new() -> Self {
        Self::with(QueueSettings::default())
    }

    fn with(settings: QueueSettings) -> Self {
        let broker = TestBroker::new();
        let queue = broker.queue_with("orders", settings);
        Self { broker, queue, seen: Seen::default() }
    }

    fn retries(&self, backoff: Backoff) -> DelayPolicy<impl Sender + Clone> {
        DelayPolicy::new(self.queue.sender().unwrap(), backoff).unwrap()
    }

    /// A handler that fails so often.
    fn handler(
        &self,
        failures: usize,
    ) -> impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + use<> {
        let (seen, clock) = (Arc::clone(&self.seen), self.broker.clock());
        service_fn(move |message: Message| {
            let mut seen = seen.lock().unwrap();
            let at = clock.now().utc.saturating_since(TestBroker::START);
            seen.push((u64::try_from(at.as_millis()).unwrap(), message));
            let answer = if seen.len() > failures { Ok(Disposition::Complete) } else { Err("the bank is away".into()) };
            async { answer }
        })
    }

    /// Consumes for `time`.
    async fn run<S>(&self, time: Duration, stack: S) -> Stats
    where
        S: Service<Message, Response = Disposition, Error = BoxError> + Clone,
    {
        self.run_with(time, self.queue.receiver(), stack).await
    }

    async fn run_with<R: Receiver, S>(&self, time: Duration, receiver: R, stack: S) -> Stats
    where
        S: Service<Message, Response = Disposition, Error = BoxError> + Clone,
    {
        Consumer::new(receiver, stack).run_until(sleep(time)).await.unwrap()
    }

    fn times(&self) -> Vec<u64> {
        self.seen.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }

    fn seen(&self, number: usize) -> Message {
        self.seen.lock().unwrap()[number].1.clone()
    }
}

fn without_jitter(first: Duration) -> Backoff {
    Backoff::exponential(first).jitter(Jitter::None)
}

/// With every property that travels.
fn full() -> Message {
    let builder = Message::builder().message_id("m-1").subject("order").content_type("application/json").to("there");
    let builder = builder.session_id("s").reply_to("replies").reply_to_session_id("r").correlation_id("c");
    let builder = builder.partition_key("s").property("tenant", 7).property("note", "a\u{1b}b");
    let mut message = builder.build(&b"\xff\x00body"[..]).unwrap();
    message.properties_mut().pass_through_mut().priority = Some(3);
    message
}

/// Rules: Y-12.
#[tokio::test(start_paused = true)]
async fn deliveries_come_when_the_schedule_says() {
    let world = World::new();
    world.queue.send_message(message("m"));
    let layer = RetryLayer::new().immediate(1).delayed(world.retries(without_jitter(SECOND).longest(5 * SECOND)));
    let stats = world.run(60 * SECOND, layer.layer(world.handler(10))).await;
    // Two attempts each time.
    assert_eq!(world.times(), [0, 0, 1_000, 1_000, 3_000, 3_000, 7_000, 7_000, 12_000, 12_000, 17_000]);
    assert_eq!((stats.completed(), stats.failed(), stats.abandoned()), (6, 0, 0));
    assert_eq!((layer.counts().delayed(), layer.counts().immediate()), (5, 5));
    world.queue.assert_empty();
}

/// Rules: Y-01, Y-12.
#[tokio::test(start_paused = true)]
async fn a_delay_that_the_handler_asks_for_is_kept() {
    for (asked, backoff, second) in [(100 * SECOND, SECOND, 100_000), (SECOND, 100 * SECOND, 100_000)] {
        let world = World::new();
        world.queue.send_message(message("m"));
        let layer = RetryLayer::new().immediate(3).delayed(world.retries(Backoff::fixed(backoff)));
        let handler = world.handler(1);
        let asking = service_fn(move |message: Message| {
            let answer = handler.clone().oneshot(message);
            async move { Ok::<_, BoxError>(answer.await.unwrap_or(Disposition::abandon_after(asked))) }
        });
        world.run(3_600 * SECOND, layer.layer(asking)).await;
        assert_eq!(world.times(), [0, second], "{asked:?} {backoff:?}");
        assert_eq!((layer.counts().delayed(), layer.counts().immediate()), (1, 0));
        world.queue.assert_empty();
    }
}

/// Rules: Y-12.
#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_schedule() {
    let mut traces = Vec::new();
    for seed in [1, 1, 2] {
        let world = World::new();
        world.queue.send_message(message("m"));
        let retries = world.retries(Backoff::exponential(SECOND)).seed(seed);
        world.run(3_600 * SECOND, RetryLayer::new().delayed(retries).layer(world.handler(6))).await;
        let times = world.times();
        for (failure, pair) in times.windows(2).enumerate() {
            let most = 1_000 << failure;
            assert!((most / 2..=most).contains(&(pair[1] - pair[0])), "{times:?}");
        }
        traces.push(times);
    }
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0], traces[2]);
}

/// Rules: Y-10.
#[tokio::test(start_paused = true)]
async fn a_delayed_copy_is_the_same_message_with_another_id() {
    let world = World::new();
    world.queue.send_message(full());
    let layer = RetryLayer::new().delayed(world.retries(without_jitter(SECOND)));
    world.run(60 * SECOND, layer.layer(world.handler(2))).await;

    let ids: Vec<_> = (0..3).map(|n| world.seen(n).message_id().unwrap().to_owned()).collect();
    assert!(ids[0] == "m-1" && ids[1] != ids[0] && ids[2] != ids[1] && ids[2] != ids[0], "{ids:?}");
    for n in 0..3 {
        let seen = world.seen(n);
        assert_eq!(seen.original_message_id(), Some("m-1"));
        assert_eq!(seen.received().unwrap().delivery_count, 1);
        // All but what the layer writes is what was sent.
        let mut properties = seen.properties().clone();
        properties.set_message_id("m-1").unwrap();
        let (mut expected, body) = (full().properties().clone(), full().body().clone());
        if n > 0 {
            let due = seen.scheduled_enqueue_time().unwrap();
            assert_eq!(due, TestBroker::START.saturating_add(Duration::from_millis(world.times()[n])));
            expected.set_scheduled_enqueue_time(due);
            let application = properties.application_properties_mut();
            let first = application.remove(Properties::ORIGINAL_MESSAGE_ID);
            assert_eq!(first.as_ref().and_then(PropertyValue::as_str), Some("m-1"));
            application.remove(RetryHistory::PROPERTY).unwrap();
        }
        assert_eq!((&properties, seen.body()), (&expected, &body), "{n}");
    }
}

/// Rules: Y-10.
#[tokio::test(start_paused = true)]
async fn waiting_is_the_brokers_and_not_a_task() {
    let world = World::new();
    world.queue.send_message(message("m"));
    let layer = RetryLayer::new().delayed(world.retries(without_jitter(SECOND)));
    let delivery = world.queue.receive_now().unwrap();
    let answer = layer.layer(world.handler(1)).oneshot(delivery.message.clone()).await.unwrap();
    assert_eq!(answer, Disposition::Complete);
    delivery.complete().await.unwrap();
    // The consumer may end here: it holds nothing.
    drop(layer);
    assert_eq!(world.queue.counts().scheduled, 1);
    sleep(SECOND).await;
    world.queue.receive_now().unwrap().complete().await.unwrap();
    world.queue.assert_empty();
}

/// Rules: Y-13.
#[tokio::test(start_paused = true)]
async fn the_history_travels_with_the_message() {
    let world = World::new();
    world.queue.send_message(message("m"));
    world
        .run(60 * SECOND, RetryLayer::new().delayed(world.retries(without_jitter(SECOND))).layer(world.handler(2)))
        .await;
    let history = |n| {
        let history = RetryHistory::of(world.seen(n).properties())?;
        Some((history.failures, history.first_failure, history.last_error))
    };
    let histories: Vec<_> = (0..3).map(history).collect();
    let after = |failures| Some((failures, TestBroker::START, "the bank is away".into()));
    assert_eq!(histories, [None, after(1), after(2)]);
}

/// Rules: Y-13.
#[tokio::test(start_paused = true)]
async fn changes_of_an_abandon_travel_too() {
    let world = World::new();
    world.queue.send_message(message("m"));
    let changes: ApplicationProperties = [("step", PropertyValue::from(2))].into_iter().collect();
    let stack = RetryLayer::new().delayed(world.retries(Backoff::fixed(SECOND)).deliveries(2)).layer(service_fn(
        |message: Message| {
            let changes = changes.clone();
            assert_eq!(
                message.application_properties().get("step").is_some(),
                !message.application_properties().is_empty()
            );
            async { Ok::<_, BoxError>(Disposition::Abandon(changes.into())) }
        },
    ));
    world.run(60 * SECOND, stack).await;
    let dead = world.queue.assert_dead_lettered(&DeadLetterReason::RetriesExhausted);
    assert_eq!(dead.application_properties().get("step"), Some(&PropertyValue::from(2)));
}

/// Rules: Y-14.
#[tokio::test(start_paused = true)]
async fn after_the_last_delivery_it_is_a_dead_letter_that_says_why() {
    let world = World::new();
    world.queue.send_message(full());
    let layer = RetryLayer::new().immediate(1).delayed(world.retries(without_jitter(SECOND)).deliveries(3));
    let stats = world.run(60 * SECOND, layer.layer(world.handler(usize::MAX))).await;
    assert_eq!(world.times(), [0, 0, 1_000, 1_000, 3_000, 3_000]);
    assert_eq!((stats.dead_lettered(), layer.counts().exhausted()), (1, 1));
    let dead = world.queue.assert_dead_lettered(&DeadLetterReason::RetriesExhausted);
    let why = "it was the last delivery; 3 failed since 2023-11-14T22:13:20.000Z: the bank is away";
    assert_eq!(dead.dead_letter_description(), Some(why));
    assert_eq!(RetryHistory::of(dead.properties()).unwrap().failures, 3);
    assert_eq!((dead.original_message_id(), dead.body()), (Some("m-1"), full().body()));
    world.queue.assert_empty();
}

/// Rules: Y-14.
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_router_is_quoted_too() {
    let world = World::new();
    world.queue.send_message(message("m"));
    let away = async || Err::<(), _>(Transient::new("the bank is away"));
    let router = Router::new(Codecs::builder().with(Text).build().unwrap()).fallback(away).build().unwrap();
    let retries = world.retries(Backoff::fixed(SECOND)).deliveries(2);
    world.run(60 * SECOND, RetryLayer::new().delayed(retries).layer(router)).await;
    let dead = world.queue.assert_dead_lettered(&DeadLetterReason::RetriesExhausted);
    assert!(dead.dead_letter_description().unwrap().ends_with(": the bank is away"));
    assert_eq!(RetryHistory::of(dead.properties()).unwrap().last_error, "the bank is away");
}

/// Rules: Y-14.
#[tokio::test(start_paused = true)]
async fn no_delivery_begins_after_the_longest_age() {
    let world = World::new();
    // The age begins with the first failure and not with the wait for it.
    world.queue.send_message(message("m"));
    world.broker.advance(3_600 * SECOND);
    let retries = world.retries(Backoff::fixed(3 * SECOND)).deliveries(u32::MAX).max_age(6 * SECOND);
    world.run(60 * SECOND, RetryLayer::new().delayed(retries).layer(world.handler(usize::MAX))).await;
    assert_eq!(world.times(), [0, 3_000, 6_000].map(|at| 3_600_000 + at));
    let dead = world.queue.assert_dead_lettered(&DeadLetterReason::RetriesExhausted);
    let why =
        "the next delivery would exceed the maximum age; 3 failed since 2023-11-14T23:13:20.000Z: the bank is away";
    assert_eq!(dead.dead_letter_description(), Some(why));
}

/// Rules: Y-15.
#[tokio::test(start_paused = true)]
async fn a_copy_expires_when_the_message_would_have() {
    // By the sender's time to live, and by the queue's.
    for (own, default) in [(Some(10), None), (None, Some(10)), (Some(3_600), Some(10))] {
        let settings = QueueSettings::default();
        let settings = default.map_or(settings.clone(), |life| settings.default_time_to_live(life * SECOND));
        let world = World::with(settings);
        let mut sent = message("m");
        if let Some(life) = own {
            sent.properties_mut().set_time_to_live(life * SECOND).unwrap();
        }
        world.queue.send_message(sent);
        sleep(SECOND / 2).await;
        let retries = world.retries(without_jitter(SECOND));
        world.run(60 * SECOND, RetryLayer::new().delayed(retries).layer(world.handler(usize::MAX))).await;
        assert_eq!(world.times(), [500, 1_500, 3_500, 7_500]);
        let expires = TestBroker::START.saturating_add(10 * SECOND);
        for n in 0..4 {
            assert_eq!(world.seen(n).received().unwrap().expires_at, expires, "{n}");
        }
        // The next would be at 15.5 s. It is not lost in silence.
        let dead = world.queue.assert_dead_lettered(&DeadLetterReason::RetriesExhausted);
        assert!(
            dead.dead_letter_description().unwrap().starts_with("it would expire before the next delivery; 4 failed")
        );
    }
}

/// Rules: Y-16.
#[tokio::test(start_paused = true)]
async fn a_queue_that_detects_duplicates_loses_nothing() {
    let world = World::with(QueueSettings::default().duplicate_detection(Duration::from_secs(3_600)));
    for n in 0..20 {
        world.queue.send_message(Message::builder().message_id(format!("m-{n}")).build("").unwrap());
    }
    let layer = RetryLayer::new().delayed(world.retries(without_jitter(SECOND)));
    let failed = AtomicU64::new(0);
    let done = Mutex::new(std::collections::BTreeSet::new());
    let stack = layer.layer(service_fn(|message: Message| {
        let failures = RetryHistory::of(message.properties()).map_or(0, |history| history.failures);
        if failures < 3 {
            failed.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(done.lock().unwrap().insert(message.original_message_id().unwrap().to_owned()));
        }
        async move { if failures < 3 { Err(BoxError::from("away")) } else { Ok(Disposition::Complete) } }
    }));
    world.run(60 * SECOND, stack).await;
    assert_eq!((done.lock().unwrap().len(), failed.load(Ordering::Relaxed)), (20, 60));
    world.queue.assert_empty();
    assert!(world.queue.dead_letters().is_empty());
}

/// Rules: Y-11.
#[tokio::test(start_paused = true)]
async fn the_message_is_settled_after_the_copy_is_accepted() {
    let broker = Broker::default();
    let retries = DelayPolicy::new(broker.clone(), Backoff::fixed(SECOND)).unwrap();
    let stack =
        RetryLayer::new().delayed(retries).layer(service_fn(|_: Message| async { Err::<Disposition, _>("away") }));
    let mut call = task::spawn(stack.oneshot(message("m")));
    assert_pending!(call.poll());
    assert_eq!(broker.transfers(), 1);
    assert_pending!(call.poll());
    broker.answer(0, Ok(()));
    assert_eq!(call.await.unwrap(), Disposition::Complete);
}

/// Rules: Y-11.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_not_accepted_leaves_the_message_abandoned() {
    for kind in [ErrorKind::QuotaExceeded, ErrorKind::ServiceTimeout, ErrorKind::MessageSizeExceeded] {
        let broker = Broker::default();
        let layer = RetryLayer::new().delayed(DelayPolicy::new(broker.clone(), Backoff::fixed(SECOND)).unwrap());
        let error = layer.layer(service_fn(|_: Message| async { Err::<Disposition, _>("away") }));
        let abandon = layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::ABANDON) }));
        let (mut first, mut second) =
            (task::spawn(error.oneshot(message("m"))), task::spawn(abandon.oneshot(message("m"))));
        assert_pending!(first.poll());
        assert_pending!(second.poll());
        broker.answer(0, Err(SendError::new(kind)));
        broker.answer(1, Err(SendError::new(kind)));
        // Not at once, or it would fail again as often as the queue delivers it.
        assert_eq!(first.await.unwrap(), Disposition::abandon_after(SECOND));
        assert_eq!(second.await.unwrap(), Disposition::abandon_after(SECOND));
        assert_eq!((layer.counts().not_sent(), layer.counts().delayed()), (2, 0));
    }
}

/// A sender whose transport can do so much.
struct Can(Capabilities);

impl Sender for Can {
    type Send = std::future::Ready<Result<(), SendError>>;

    fn send(&self, _: Message) -> Self::Send {
        panic!("no copy is sent")
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        panic!("no copy is sent")
    }

    fn capabilities(&self) -> Capabilities {
        self.0
    }
}

/// Rules: Y-210.
#[test]
fn a_policy_that_the_transport_cannot_do_is_refused_when_it_is_built() {
    let none = Capabilities::none();
    let new = |can| DelayPolicy::new(Can(can), Backoff::fixed(SECOND));
    let refused = new(none).unwrap_err();
    assert_eq!(refused.capability(), Capability::DelayedRetry);
    assert!(refused.to_string().contains("delayed retry"), "{refused}");
    new(none.with(Capability::DelayedRetry, Level::Emulated)).unwrap_err();
    for (can, by) in [(Capability::DelayedRetry, "Transport"), (Capability::Scheduling, "Copies")] {
        let shown = format!("{:?}", new(none.with(can, Level::Native)).unwrap());
        assert!(shown.contains(by), "{shown}");
    }
}

/// Rules: Y-211.
#[tokio::test(start_paused = true)]
async fn a_transport_that_delays_messages_is_sent_no_copy() {
    let can = consign::broker::Broker::CAPABILITIES.with(Capability::DelayedRetry, Level::Native);
    let retries = DelayPolicy::new(Can(can), without_jitter(SECOND)).unwrap().deliveries(3);
    let layer = RetryLayer::new().immediate(1).delayed(retries);
    let fails = layer.layer(service_fn(|_: Message| async { Err::<Disposition, _>("away") }));
    let mut message = message("m");
    for (failures, delay) in [(1, SECOND), (2, 2 * SECOND)] {
        let Disposition::Abandon(changes) = fails.clone().oneshot(message.clone()).await.unwrap() else { panic!() };
        assert_eq!((changes.delay(), changes.cause()), (Some(delay), Some("away")));
        // The transport keeps the changes.
        message.properties_mut().application_properties_mut().merge(changes.into_properties());
        let history = RetryHistory::of(message.properties()).unwrap();
        assert_eq!((history.failures, &*history.last_error), (failures, "away"));
    }
    let Disposition::DeadLetter(letter) = fails.oneshot(message).await.unwrap() else { panic!("it was the last one") };
    assert_eq!(letter.reason, DeadLetterReason::RetriesExhausted);
    assert_eq!((layer.counts().delayed(), layer.counts().exhausted(), layer.counts().immediate()), (2, 1, 3));
}

/// Rules: Y-212.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_not_accepted_is_no_reason_to_fail_at_once_again() {
    let world = World::with(QueueSettings::default().max_delivery_count(3));
    world.queue.send_message(message("m"));
    let faults =
        (1..10).fold(Faults::none(), |faults, n| faults.on_send(n, SendFault::Reject(ErrorKind::QuotaExceeded)));
    let link = Link::new(LinkSettings::default().faults(faults));
    let sender = link.sender(world.queue.sender().unwrap());
    let retries = DelayPolicy::new(sender, Backoff::fixed(10 * SECOND)).unwrap();
    world.run(60 * SECOND, RetryLayer::new().delayed(retries).layer(world.handler(9))).await;
    assert_eq!(world.times(), [0, 10_000, 20_000]);
    world.queue.assert_dead_lettered(&DeadLetterReason::MaxDeliveryCountExceeded);
}

/// How often each of 20 messages was done, when it fails once and something goes wrong.
async fn done_under(faults: Faults, detecting: bool) -> (Vec<usize>, Stats) {
    let settings = QueueSettings::default().lock_duration(5 * SECOND);
    let settings = if detecting { settings.duplicate_detection(Duration::from_secs(3_600)) } else { settings };
    let world = World::with(settings);
    let link = Link::new(LinkSettings::default().round_trip(Duration::from_millis(20)).faults(faults));
    for n in 0..20 {
        world.queue.send_message(Message::builder().message_id(format!("m-{n}")).build("").unwrap());
    }
    let sender = link.sender(world.queue.sender().unwrap());
    let retries = DelayPolicy::new(sender, without_jitter(SECOND)).unwrap();
    let done = Mutex::new(vec![0; 20]);
    let stack = RetryLayer::new().delayed(retries).layer(service_fn(|message: Message| {
        let failed = RetryHistory::of(message.properties()).is_some();
        if failed {
            let number: usize = message.original_message_id().unwrap()[2..].parse().unwrap();
            done.lock().unwrap()[number] += 1;
        }
        async move { if failed { Ok(Disposition::Complete) } else { Err(BoxError::from("away")) } }
    }));
    let stats = world.run_with(600 * SECOND, link.receiver(world.queue.receiver()), stack).await;
    world.queue.assert_empty();
    assert!(world.queue.dead_letters().is_empty());
    (done.into_inner().unwrap(), stats)
}

/// Rules: Y-11.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_lost_loses_no_message() {
    for detecting in [false, true] {
        let faults = Faults::none().on_send(3, SendFault::LoseMessage(ErrorKind::CommunicationProblem));
        let faults = faults.on_send(5, SendFault::Reject(ErrorKind::QuotaExceeded));
        let (done, stats) = done_under(faults, detecting).await;
        assert_eq!(done, [1; 20]);
        assert_eq!(stats.abandoned(), 2);
    }
}

/// Rules: Y-17.
#[tokio::test(start_paused = true)]
async fn a_copy_whose_answer_is_lost_is_one_duplicate() {
    for detecting in [false, true] {
        let faults = Faults::none().on_send(3, SendFault::LoseAnswer(ErrorKind::ServiceTimeout));
        let (done, stats) = done_under(faults, detecting).await;
        let twice = done.iter().filter(|&&times| times == 2).count();
        assert_eq!((done.iter().sum::<usize>(), twice, stats.abandoned()), (21, 1, 1));
    }
}

/// Rules: Y-17.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_lost_after_the_copy_is_one_duplicate() {
    for detecting in [false, true] {
        let (done, stats) = done_under(Faults::none().on_delivery(4, DeliveryFault::LoseLock), detecting).await;
        let twice = done.iter().filter(|&&times| times == 2).count();
        assert_eq!((done.iter().sum::<usize>(), twice, stats.lock_lost()), (21, 1, 1));
    }
}

/// Rules: Y-17.
#[tokio::test(start_paused = true)]
async fn dropped_anywhere_no_message_is_lost() {
    // Dropped before the first poll, in the handler, between the attempts, and while the copy is sent.
    let mut copies = Vec::new();
    for polls in 0.. {
        let world = World::new();
        world.queue.send_message(message("m"));
        let link = Link::new(LinkSettings::default().round_trip(Duration::from_millis(20)));
        let sender = link.sender(world.queue.sender().unwrap());
        let retries = DelayPolicy::new(sender, without_jitter(SECOND)).unwrap().clock(world.broker.clock());
        let stack = RetryLayer::new().immediate(1).delayed(retries).layer(service_fn(|_: Message| async {
            sleep(SECOND).await;
            Err::<Disposition, _>("away")
        }));
        let delivery = world.queue.receive_now().unwrap();
        let mut call = task::spawn(stack.oneshot(delivery.message.clone()));
        let mut is_done = false;
        for _ in 0..polls {
            is_done = call.poll().is_ready();
            sleep(Duration::from_millis(500)).await;
        }
        drop(call);
        if is_done {
            break;
        }
        // What the consumer does with a call that is dropped.
        drop(delivery);
        sleep(10 * SECOND).await;
        let left = world.queue.messages();
        assert!(left.iter().any(|message| RetryHistory::of(message.properties()).is_none()), "{polls}");
        copies.push(left.len() - 1);
    }
    // Once it is being sent the copy may be there too.
    assert_eq!(copies.iter().copied().max(), Some(1), "{copies:?}");
    assert!(copies.len() > 4 && copies.is_sorted(), "{copies:?}");
}

/// Rules: Y-18.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_never_delayed_out_of_its_queue() {
    let world = World::new();
    world.queue.send_message(message("m"));
    world
        .queue
        .receive_now()
        .unwrap()
        .dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, ""))
        .await
        .unwrap();
    let layer = RetryLayer::new().delayed(world.retries(Backoff::fixed(SECOND)).deliveries(1));
    let delivery = world.queue.receive_dead_letter_now().unwrap();
    layer.layer(world.handler(1)).oneshot(delivery.message.clone()).await.unwrap_err();
    assert_eq!((layer.counts().delayed(), layer.counts().exhausted()), (0, 0));
    world.queue.assert_empty();
}

/// Rules: Y-18.
#[tokio::test(start_paused = true)]
async fn a_message_that_expired_while_locked_is_left_to_the_broker() {
    let world = World::with(QueueSettings::default().dead_letter_on_expiration(true));
    let mut sent = message("m");
    sent.properties_mut().set_time_to_live(SECOND).unwrap();
    world.queue.send_message(sent);
    let (layer, handler) = (RetryLayer::new().delayed(world.retries(Backoff::fixed(SECOND))), world.handler(1));
    let slow = service_fn(move |message: Message| {
        let handler = handler.clone();
        async move {
            sleep(2 * SECOND).await;
            handler.oneshot(message).await
        }
    });
    world.run(60 * SECOND, layer.layer(slow)).await;
    world.queue.assert_dead_lettered(&DeadLetterReason::TtlExpired);
    assert_eq!(layer.counts().delayed(), 0);
}

/// Rules: Y-15.
/// A client that reports no enqueued time passes that of the epoch.
#[tokio::test(start_paused = true)]
async fn a_message_whose_enqueued_time_is_unknown_is_delayed_too() {
    let world = World::new();
    let layer = RetryLayer::new().delayed(world.retries(without_jitter(SECOND)));
    let message = Message::builder().time_to_live(60 * SECOND).property("x-timeout-ms", 5_000).build("m").unwrap();
    let unknown = Received::new(SequenceNumber::default(), Timestamp::EPOCH, 1);
    let settled = layer.layer(world.handler(1)).oneshot(message.with_received(unknown)).await.unwrap();
    assert_eq!((settled, layer.counts().delayed()), (Disposition::Complete, 1));
    world.run(2 * SECOND, layer.layer(world.handler(1))).await;
    // What it says about its time is still true.
    let copy = world.seen(1);
    assert_eq!((copy.time_to_live(), copy.timeout().unwrap()), (Some(60 * SECOND), Some(5 * SECOND)));
}

/// Rules: Y-18.
#[tokio::test(start_paused = true)]
async fn a_message_without_space_for_a_history_ends_as_a_dead_letter_and_not_in_a_loop() {
    // Room for the history without its text, and not even that.
    for (room, delayed) in [(150, 9), (20, 0)] {
        let world = World::new();
        let mut sent = Message::builder().message_id("m-1").build("").unwrap();
        let fill = limits::ALL_PROPERTIES_BYTES - sent.properties().size() - "abc".len() - room;
        let application = sent.properties_mut().application_properties_mut();
        application.insert("a", "x".repeat(32_000));
        application.insert("b", "x".repeat(32_000));
        application.insert("c", "x".repeat(fill - 64_000));
        world.queue.send_message(sent);
        let layer = RetryLayer::new().delayed(world.retries(Backoff::fixed(SECOND)));
        let failing = layer.layer(service_fn(|_: Message| async { Err::<Disposition, _>("e".repeat(1 << 16)) }));
        world.run(3_600 * SECOND, failing).await;
        world.queue.assert_empty();
        assert_eq!((layer.counts().delayed(), world.queue.dead_letters().len()), (delayed, 1), "{room}");
    }
}

/// Rules: Y-13.
#[tokio::test(start_paused = true)]
async fn an_error_of_any_length_reaches_the_dead_letter_queue() {
    let world = World::new();
    world.queue.send_message(message("m"));
    let layer = RetryLayer::new().delayed(world.retries(Backoff::fixed(SECOND)).deliveries(2));
    let failing = layer.layer(service_fn(|_: Message| async { Err::<Disposition, _>("é\u{1b}".repeat(1 << 18)) }));
    // In a loop of the user's own nothing else cuts it.
    for n in 0..2 {
        sleep(2 * SECOND).await;
        let delivery = world.queue.receive_now().unwrap();
        let size = delivery.message.properties().size();
        assert!(size < 600, "{size}");
        match failing.clone().oneshot(delivery.message.clone()).await.unwrap() {
            Disposition::Complete if n == 0 => delivery.complete().await.unwrap(),
            Disposition::DeadLetter(letter) if n == 1 => delivery.dead_letter(*letter).await.unwrap(),
            other => panic!("{other:?}"),
        }
    }
    world.queue.assert_dead_lettered(&DeadLetterReason::RetriesExhausted);
}

/// Rules: Y-13.
#[tokio::test(start_paused = true)]
async fn a_history_from_elsewhere_is_not_trusted_further_than_it_counts() {
    let world = World::new();
    let ahead = TestBroker::START.saturating_add(3_600 * SECOND).as_millis();
    for (history, seen) in [("no history".to_owned(), 2), (format!("1;{ahead};"), 1), (format!("{};0;", u32::MAX), 1)] {
        let mut sent = message("m");
        sent.properties_mut().application_properties_mut().insert(RetryHistory::PROPERTY, history);
        world.queue.send_message(sent);
        let before = world.times().len();
        let retries = world.retries(Backoff::fixed(SECOND)).deliveries(2);
        world.run(60 * SECOND, RetryLayer::new().delayed(retries).layer(world.handler(usize::MAX))).await;
        assert_eq!(world.times().len() - before, seen);
    }
    world.queue.assert_empty();
    assert_eq!(world.queue.dead_letters().len(), 3);
}

/// Recognises what is done by its first id: commits what succeeds, forgets what fails.
#[derive(Clone)]
struct Once<S> {
    inner: S,
    done: Arc<Mutex<std::collections::HashSet<String>>>,
}

impl<S> Service<Message> for Once<S>
where
    S: Service<Message, Response = Disposition, Error = BoxError, Future: Send + 'static>,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = super::support::Boxed<Disposition, BoxError>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, message: Message) -> Self::Future {
        let (done, id) = (Arc::clone(&self.done), message.original_message_id().unwrap().to_owned());
        let call = self.inner.call(message);
        Box::pin(async move {
            if done.lock().unwrap().contains(&id) {
                return Ok(Disposition::Complete);
            }
            let answer = call.await?;
            done.lock().unwrap().insert(id);
            Ok(answer)
        })
    }
}

/// Rules: Y-19.
#[tokio::test(start_paused = true)]
async fn duplicate_detection_is_inside_of_retries() {
    for is_inside in [true, false] {
        let world = World::with(QueueSettings::default().lock_duration(5 * SECOND));
        world.queue.send_message(message("m"));
        // The settlement after the first copy is lost.
        let faults = Faults::none().on_delivery(1, DeliveryFault::LoseLock);
        let receiver = Link::new(LinkSettings::default().faults(faults)).receiver(world.queue.receiver());
        let done = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&done);
        let handler = service_fn(move |message: Message| {
            let counted = Arc::clone(&counted);
            async move {
                RetryHistory::of(message.properties()).ok_or("away")?;
                counted.fetch_add(1, Ordering::Relaxed);
                Ok::<_, BoxError>(Disposition::Complete)
            }
        });
        let retry = RetryLayer::new().delayed(world.retries(without_jitter(SECOND)));
        let ids = Arc::default();
        if is_inside {
            let stack = retry.layer(Once { inner: handler, done: ids });
            world.run_with(60 * SECOND, receiver, stack).await;
        } else {
            let stack = Once { inner: retry.layer(handler), done: ids };
            world.run_with(60 * SECOND, receiver, stack).await;
        }
        world.queue.assert_empty();
        assert_eq!(done.load(Ordering::Relaxed), u64::from(is_inside));
    }
}

/// Rules: Y-230.
/// The message is neither completed nor held for ever: it is abandoned after the delay.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_not_answered_is_given_up() {
    let world = World::new();
    let withheld = Faults::none().on_send(1, SendFault::Withhold);
    let link = Link::new(LinkSettings::default().faults(withheld));
    let sender = link.sender(world.queue.sender().unwrap());
    let later = DelayPolicy::new(sender, without_jitter(SECOND)).unwrap().operation_timeout(5 * SECOND);
    let retry = RetryLayer::new().delayed(later);
    let mut call = task::spawn(retry.layer(world.handler(1)).oneshot(message("m")));
    assert_pending!(call.poll());
    let started = tokio::time::Instant::now();
    let Disposition::Abandon(changes) = call.await.unwrap() else { panic!("it is not abandoned") };
    assert_eq!((started.elapsed(), changes.delay()), (5 * SECOND, Some(SECOND)));
    assert_eq!((retry.counts().not_sent(), retry.counts().delayed()), (1, 0));
}

/// Rules: R-204, R-205.
#[tokio::test(start_paused = true)]
async fn a_copy_has_the_time_that_is_left_and_the_mark_of_its_id() {
    let world = World::new();
    let mut request = Message::new("m");
    request.properties_mut().set_timeout(Duration::from_millis(2_500));
    world.queue.send_message(request);
    let layer = RetryLayer::new().delayed(world.retries(without_jitter(SECOND)));
    world.run(60 * SECOND, layer.layer(world.handler(2))).await;
    assert_eq!(world.times(), [0, 1_000, 3_000]);
    for (n, left) in [2_500, 1_500, 0].into_iter().enumerate() {
        let seen = world.seen(n);
        assert_eq!(seen.timeout().unwrap(), Some(Duration::from_millis(left)), "{n}");
        assert!(seen.is_message_id_stamped(), "{n}");
        let until = seen.received().unwrap().enqueued_time.saturating_add(Duration::from_millis(left));
        let last = TestBroker::START.saturating_add(Duration::from_millis(if n < 2 { 2_500 } else { 3_000 }));
        assert_eq!(until, last, "{n}");
    }
}
