//! Messages of one key are handled one at a time.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::Queue,
    consumer::Consumer,
    middleware::{
        dedup::{DedupKey, DedupLayer, DedupStore, MemoryStore},
        expiry::ExpiryLayer,
        partition::PartitionLayer,
    },
    time::SystemClock,
    transport::Sender,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tower::{Layer, ServiceBuilder, service_fn};

use crate::{
    Gauge, assert_empty, number, queue_with_lock, seconds,
    settle_once::{Random, Replay, seeds},
    until, within,
};

async fn send(queue: &Queue, key: Option<&str>) {
    let message = match key {
        Some(key) => Message::builder().partition_key(key.to_owned()),
        None => Message::builder(),
    };
    queue.sender().unwrap().send(message.build("an order").unwrap()).await.unwrap();
}

/// When each message started and ended, in the order of the starts.
type Ran = Arc<Mutex<Vec<(Option<String>, u64, Instant, Instant)>>>;

/// Rules: W-250.
#[tokio::test(start_paused = true)]
async fn one_of_a_key_at_a_time_in_order_and_others_meanwhile() {
    for seed in seeds(50) {
        let _replay = Replay("one_of_a_key_at_a_time_in_order_and_others_meanwhile", seed);
        let random = Random::new(seed);
        let queue = queue_with_lock(300);
        let (keys, messages) = (1 + random.below(6), 1 + random.below(80));
        for _ in 0..messages {
            let key = format!("key-{}", random.below(keys));
            send(&queue, Some(&key).filter(|_| random.below(8) > 0).map(String::as_str)).await;
        }
        let (ran, gauge) = (Ran::default(), Gauge::default());
        let (notes, inside, times) = (Arc::clone(&ran), gauge.clone(), random.clone());
        let handler = service_fn(move |message: Message| {
            let (notes, entered, time) = (Arc::clone(&notes), inside.enter(), times.below(3_000));
            async move {
                let start = Instant::now();
                if time > 500 {
                    sleep(Duration::from_millis(time)).await;
                }
                let key = message.partition_key().map(str::to_owned);
                notes.lock().unwrap().push((key, number(&message), start, Instant::now()));
                drop(entered);
                Ok::<_, Infallible>(Disposition::Complete)
            }
        });
        let running = random.size(1..20);
        let stack = PartitionLayer::by_partition_key().concurrency(running).layer(handler);
        let consumer = Consumer::new(queue.receiver(), stack).concurrency(random.size(1..40));
        let stats = consumer.stats();
        within(600, consumer.run_until(until(move || stats.completed() == messages))).await.unwrap();
        assert_empty(&queue);
        assert!(gauge.most() <= running);
        let mut last: HashMap<String, (u64, Instant)> = HashMap::new();
        let mut ran = ran.lock().unwrap().clone();
        ran.sort_by_key(|(_, number, ..)| *number);
        for (key, number, start, end) in ran {
            let Some(key) = key else { continue };
            if let Some((before, ended)) = last.insert(key, (number, end)) {
                assert!(before < number && ended <= start, "{before} and {number}");
            }
        }
    }
}

/// Rules: W-07, W-250.
#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_its_id_keeps_its_place_before_its_key() {
    let queue = queue_with_lock(300);
    for (id, key) in [("first", Some("key")), ("second", Some("key")), ("third", Some("key")), ("other", None)] {
        let message = match key {
            Some(key) => Message::builder().partition_key(key.to_owned()),
            None => Message::builder(),
        };
        queue.sender().unwrap().send(message.message_id(id).build("an order").unwrap()).await.unwrap();
    }
    let store = Arc::new(MemoryStore::new(seconds(600)));
    // Of a process that was killed.
    for id in [b"first", b"other"] {
        let _lease = store.begin(DedupKey::new("orders", id), seconds(30)).await.unwrap();
    }
    let handled = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&handled);
    let handler = service_fn(move |message: Message| {
        notes.lock().unwrap().push(message.message_id().unwrap().to_owned());
        async { Ok::<_, Infallible>(Disposition::Complete) }
    });
    let stack = ServiceBuilder::new()
        .layer(PartitionLayer::by_partition_key())
        .layer(DedupLayer::new(store, "orders"))
        .service(handler);
    let consumer = Consumer::new(queue.receiver(), stack);
    let stats = consumer.stats();
    let stats = within(600, consumer.run_until(until(move || stats.completed() == 4))).await.unwrap();
    let mut order = handled.lock().unwrap().clone();
    order.retain(|id| id != "other");
    assert_eq!(order, ["first", "second", "third"]);
    assert_eq!((stats.held(), stats.abandoned()), (1, 0), "one without a key is held outside of the slots");
}

/// Rules: W-251.
#[tokio::test(start_paused = true)]
async fn a_message_that_waited_longer_than_its_lock_is_handled() {
    let queue = queue_with_lock(30);
    for _ in 0..2 {
        send(&queue, Some("slow")).await;
    }
    let handler = service_fn(|_: Message| async {
        sleep(seconds(40)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let stack = ServiceBuilder::new()
        .layer(ExpiryLayer::new(SystemClock::new()))
        .layer(PartitionLayer::by_partition_key())
        .service(handler);
    let consumer = Consumer::new(queue.receiver(), stack);
    let stats = consumer.stats();
    let stats = within(600, consumer.run_until(until(move || stats.completed() == 2))).await.unwrap();
    assert_eq!((stats.completed(), stats.abandoned()), (2, 0));
    assert_empty(&queue);
}

/// Rules: W-251.
#[tokio::test(start_paused = true)]
async fn a_slow_key_delays_others_only_when_its_messages_fill_all_slots() {
    let queue = queue_with_lock(20);
    for _ in 0..10 {
        send(&queue, Some("slow")).await;
    }
    for other in 0..20 {
        send(&queue, Some(&format!("other-{other}"))).await;
        send(&queue, None).await;
    }
    let handler = service_fn(|message: Message| async move {
        if message.partition_key() == Some("slow") {
            sleep(seconds(50)).await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let run = |slots| {
        let consumer = Consumer::new(queue.receiver(), PartitionLayer::by_partition_key().layer(handler))
            .concurrency(slots)
            .renew_for(seconds(600));
        let (stats, (stop, stopped)) = (consumer.stats(), oneshot::channel::<()>());
        (stats, stop, tokio::spawn(consumer.run_until(stopped)))
    };
    let (stats, stop, run_with_ten) = run(10);
    sleep(seconds(40)).await;
    assert_eq!((stats.completed(), queue.counts().locked), (0, 10), "the buffer is full, and its locks are renewed");
    drop(stop);
    within(60, run_with_ten).await.unwrap().unwrap();
    let (stats, stop, run_with_more) = run(11);
    sleep(seconds(10)).await;
    assert_eq!((stats.completed(), queue.counts().locked), (40, 9));
    within(600, until(|| queue.counts().active + queue.counts().locked == 0)).await;
    drop(stop);
    within(60, run_with_more).await.unwrap().unwrap();
    assert_eq!((stats.completed(), stats.lock_lost(), stats.handled()), (49, 0, 49));
}

/// Rules: W-252.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_or_panics_lets_the_next_one_start() {
    crate::hush();
    let layer = PartitionLayer::by(|message: &Message| message.subject().map(str::to_owned)).concurrency(2);
    let handler = service_fn(|message: Message| async move {
        match message.payload().unwrap_or_default() {
            b"panics" => crate::panic_on_purpose(),
            b"hangs" => std::future::pending().await,
            _ => Ok::<_, Infallible>(Disposition::Complete),
        }
    });
    let stack = layer.layer(handler);
    let call = |subject: &'static str, body: &'static str| {
        let message = Message::builder().subject(subject).build(body).unwrap();
        tokio_test::task::spawn(tower::Service::call(&mut stack.clone(), message))
    };
    let mut hangs = call("a", "hangs");
    let (mut waiting, mut last) = (call("a", "quick"), call("a", "quick"));
    let mut others = [call("b", "hangs"), call("c", "quick"), call("d", "quick")];
    for call in [&mut hangs, &mut waiting, &mut last].into_iter().chain(&mut others) {
        assert!(call.poll().is_pending(), "one is first of its key, and two run");
    }
    // One that waits in the middle, then the one that runs.
    drop(waiting);
    assert!(!last.is_woken());
    drop(hangs);
    assert!(last.is_woken() || others[1].is_woken());
    let [b, mut c, mut d] = others;
    assert!(c.poll().is_ready() && d.poll().is_ready() && last.poll().is_ready(), "in the order of their arrival");
    drop(b);
    let mut panics = call("e", "panics");
    let mut after = call("e", "quick");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.poll())).is_err());
    assert!(after.poll().is_pending(), "a future that has panicked is there until it is dropped");
    drop(panics);
    assert!(after.is_woken() && after.poll().is_ready());
}

/// Rules: W-252.
#[tokio::test(start_paused = true)]
async fn a_stop_while_messages_wait_for_their_key_loses_none() {
    for seed in seeds(100) {
        let _replay = Replay("a_stop_while_messages_wait_for_their_key_loses_none", seed);
        let random = Random::new(seed);
        let queue = queue_with_lock(30);
        let messages = 1 + random.below(30);
        for _ in 0..messages {
            send(&queue, Some(&format!("{}", random.below(3)))).await;
        }
        let times = random.clone();
        let handler = service_fn(move |_: Message| {
            let time = times.below(5_000);
            async move {
                sleep(Duration::from_millis(time)).await;
                Ok::<_, Infallible>(Disposition::Complete)
            }
        });
        let stack = PartitionLayer::by_partition_key().layer(handler);
        let consumer = Consumer::new(queue.receiver(), stack)
            .concurrency(random.size(1..20))
            .drain_timeout(seconds(random.below(10)));
        let stats = within(60, consumer.run_until(sleep(Duration::from_millis(random.below(20_000))))).await.unwrap();
        assert_eq!((queue.counts().active as u64 + stats.completed(), queue.counts().locked), (messages, 0));
    }
}
