//! Consuming in process allocates nothing once it has warmed up, and calls leave nothing behind.
#![cfg(feature = "embedded")]
#![allow(unsafe_code)]

#[cfg(all(
    feature = "json",
    feature = "gzip",
    feature = "zstd",
    feature = "deflate",
    feature = "cloud-events",
    feature = "interop"
))]
mod bombs;
mod calls;
mod dead_letters;
#[cfg(feature = "json-schema")]
mod json_schema;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    convert::Infallible,
    future::{Future, Ready, ready},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    consumer::Consumer,
    middleware::{
        circuit_breaker::CircuitBreakerLayer,
        dedup::{Begin, DedupKey, DedupLayer, DedupStore, MemoryStore, StoreErrorKind},
        retry::{Backoff, DelayPolicy, RetryLayer},
    },
    rules::{CorrelationFilter, Rule, RuleSet, SqlFilter},
    transport::{Receiver, Sender},
};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

const MESSAGES: usize = 10_000;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
    /// Bytes that are not given back; less than nothing if another thread had asked for them.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // There is none any more while a thread ends.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
    let _ = LIVE.try_with(|live| live.set(live.get().wrapping_add_unsigned(bytes)));
}

fn give_back(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().wrapping_sub_unsigned(bytes)));
}

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        give_back(layout.size());
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        give_back(layout.size());
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Bytes that this thread allocates while `work` runs.
#[cfg(feature = "json")]
fn allocated_bytes(work: impl FnOnce()) -> usize {
    let before = BYTES.get();
    work();
    BYTES.get() - before
}

#[test]
fn the_count_counts() {
    let allocated = allocations(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(allocated, 1);
}

/// Rules: T-54.
#[test]
fn a_match_that_changes_nothing_allocates_nothing() {
    let mut rules = RuleSet::default();
    let filter = CorrelationFilter::builder().subject("order.created").property("colour", "red");
    rules.create(Rule::new("subject", filter.build().expect("a filter")).expect("a rule")).expect("a new rule");
    let filter = CorrelationFilter::builder().property("colour", "red");
    rules.create(Rule::new("property", filter.build().expect("a filter")).expect("a rule")).expect("a new rule");
    let filter = SqlFilter::parse("colour LIKE 'r%' AND missing IS NULL OR sys.Label IN ('a')").expect("a filter");
    rules.create(Rule::new("sql", filter).expect("a rule")).expect("a new rule");
    let message = Message::builder().subject("order.created").property("colour", "red").build("").expect("a message");
    for left in [Rule::DEFAULT_NAME, "subject", "property", "sql"] {
        let allocated = allocations(|| assert!(rules.evaluate(&message).is_ok_and(|copies| copies.plain)));
        assert_eq!(allocated, 0, "{left}");
        rules.remove(left).expect("a rule");
    }
}

/// 96 MiB for a million; an eighth of it stands at the same place between two doublings of the tables.
#[test]
fn an_eighth_of_a_million_remembered_ids_take_at_most_12_mib() {
    const IDS: usize = 125_000;
    let settings = QueueSettings::default().duplicate_detection(Duration::from_secs(3_600));
    let queue = Broker::new().create_queue("orders", settings.max_duplicate_ids(IDS)).expect("a new queue");
    let sender = queue.sender().expect("not a dead-letter sub-queue");
    let send = |n: usize| {
        let message = Message::builder().message_id(format!("m-{n:09}")).build("").expect("a valid message");
        sender.send(message).wait()
    };
    let (mut receiver, mut out) = (queue.receive_and_delete(), Vec::new());
    let before = LIVE.get();
    for n in 0..IDS {
        send(n).expect("accepted");
        assert!(receiver.poll_receive(&mut Context::from_waker(Waker::noop()), 1, &mut out).is_ready());
        out.clear();
    }
    let mib = (LIVE.get() - before) >> 20;
    assert!((1..=12).contains(&mib), "{mib} MiB");
    send(0).expect("a duplicate is accepted and not stored");
    assert_eq!(queue.counts().active, 0);
    send(IDS).expect_err("one more than it remembers");
}

/// Rules: W-11.
/// 96 MiB for a million, however many are offered; an eighth of it stands at the same place between two doublings of the
/// table.
#[test]
fn an_eighth_of_a_million_handled_ids_take_at_most_12_mib() {
    const IDS: usize = 125_000;
    let before = LIVE.get();
    let store = MemoryStore::new(Duration::from_secs(3_600)).max_ids(IDS);
    let mut most = 0;
    let mut offer = |n: usize| {
        let id = n.to_le_bytes();
        let begun = poll_once(store.begin(DedupKey::new("orders", &id), Duration::from_secs(60)));
        most = most.max(LIVE.get() - before);
        let committed = begun.map(|begun| match begun {
            Begin::New(token) => poll_once(store.commit(&token)).is_ok(),
            Begin::InProgress { .. } | Begin::Committed => false,
        });
        most = most.max(LIVE.get() - before);
        committed.map_err(|error| error.kind())
    };
    for n in 0..10 * IDS {
        let expected = if n < IDS { Ok(true) } else { Err(StoreErrorKind::Full) };
        assert_eq!(offer(n), expected, "{n}");
    }
    assert_eq!(offer(0), Ok(false), "the first is not forgotten");
    let mib = most >> 20;
    assert!((1..=12).contains(&mib), "{mib} MiB");
}

#[test]
fn only_duplicates_allocate_the_future_of_the_call() {
    let store = MemoryStore::new(Duration::from_secs(3_600));
    let forgets = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::ABANDON)));
    let completes = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let layer = DedupLayer::new(store, "orders");
    let message = Message::builder().message_id("a").build("body").expect("a message");
    let (mut forgets, mut completes) = (layer.layer(forgets), layer.layer(completes));
    poll_once(forgets.call(message.clone())).expect("an answer");
    let forgotten = allocations(|| drop(poll_once(forgets.call(message.clone()))));
    poll_once(completes.call(message.clone())).expect("an answer");
    let known = allocations(|| drop(poll_once(completes.call(message.clone()))));
    assert_eq!((forgotten, known), (0, 1));
    assert_eq!((layer.stats().forgotten(), layer.stats().duplicates()), (2, 1));
}

/// A broker in memory answers at once, so that no waker of the thread is needed.
#[test]
fn an_answer_that_is_ready_is_waited_for_without_an_allocation() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).expect("a new queue");
    let sent = queue.sender().expect("not a dead-letter sub-queue").send(Message::new("a small message"));
    assert_eq!(allocations(|| sent.wait().expect("accepted")), 0);
}

fn poll_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => ready,
        Poll::Pending => panic!("it waits"),
    }
}

/// What it allocates to receive, handle and settle `MESSAGES` messages. They are sent before, and the driver is polled by
/// hand, so that nothing else runs in between.
fn steady_state<S>(slots: usize, service: S) -> usize
where
    S: Service<Message, Response = Disposition, Error = Infallible> + Clone,
{
    steady_state_of(slots, service, || Message::new("a small message"))
}

fn steady_state_of<S>(slots: usize, service: S, message: impl Fn() -> Message) -> usize
where
    S: Service<Message, Response = Disposition, Error = Infallible> + Clone,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _guard = runtime.enter();
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).expect("a new queue");
    let consumer = Consumer::new(queue.receiver(), service).concurrency(slots);
    let stats = consumer.stats();
    let mut run = pin!(consumer.run());
    let mut cx = Context::from_waker(Waker::noop());
    let mut handle_all = |up_to: usize| {
        while stats.completed() < up_to as u64 {
            assert!(run.as_mut().poll(&mut cx).is_pending());
        }
    };
    // The tables of the broker and of the driver get their size, and the driver has once had nothing to do.
    fill(&queue, &message);
    handle_all(MESSAGES);
    fill(&queue, &message);
    let allocated = allocations(|| handle_all(2 * MESSAGES));
    assert_eq!((queue.counts().active, queue.counts().locked), (0, 0));
    allocated
}

fn fill(queue: &Queue, message: impl Fn() -> Message) {
    let sender = queue.sender().expect("not a dead-letter sub-queue");
    for _ in 0..MESSAGES {
        let sent = pin!(sender.send(message())).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(sent, Poll::Ready(Ok(()))));
    }
}

/// A service that is no closure and whose future is no `async` block.
#[derive(Clone)]
struct Bytes(usize);

impl Service<Message> for Bytes {
    type Response = Disposition;
    type Error = Infallible;
    type Future = Ready<Result<Disposition, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: Message) -> Self::Future {
        self.0 += message.payload().map_or(0, <[u8]>::len);
        ready(Ok(Disposition::Complete))
    }
}

#[test]
fn bytes_allocate_nothing() {
    for slots in [1, 16] {
        assert_eq!(steady_state(slots, Bytes(0)), 0, "{slots} slots");
    }
}

#[test]
fn a_handler_from_a_function_allocates_nothing() {
    for slots in [1, 16] {
        let handler = service_fn(|message: Message| async move {
            assert_eq!(message.payload(), Some(&b"a small message"[..]));
            Ok(Disposition::Complete)
        });
        assert_eq!(steady_state(slots, handler), 0, "{slots} slots");
    }
}

#[test]
fn a_success_through_retries_and_a_circuit_breaker_allocates_nothing() {
    let handler = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).expect("a new queue");
    let backoff = Backoff::exponential(Duration::from_secs(1));
    let later = DelayPolicy::new(queue.sender().expect("a queue takes messages"), backoff).expect("it schedules");
    let retry = RetryLayer::new().immediate(2).delayed(later);
    for slots in [1, 16] {
        let stack = retry.layer(CircuitBreakerLayer::new(1, 2, Duration::from_secs(1)).layer(handler));
        let stack = stack.map_err(|error: BoxError| -> Infallible { panic!("{error}") });
        assert_eq!(steady_state(slots, stack), 0, "{slots} slots");
    }
}

/// A handler that is pending at its first poll, so that its slot is woken and polled again.
#[test]
fn a_handler_that_waits_allocates_nothing() {
    for slots in [1, 16] {
        let handler = service_fn(|_: Message| {
            let mut is_first = true;
            std::future::poll_fn(move |cx| {
                if std::mem::take(&mut is_first) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(Disposition::Complete))
            })
        });
        assert_eq!(steady_state(slots, handler), 0, "{slots} slots");
    }
}

#[cfg(feature = "json")]
mod json {
    use consign::{
        codecs::{Codecs, Limits},
        routing::{Body, Payload, Router},
        settlement::{Transient, Undecodable},
    };
    use serde::Deserialize;

    use super::*;

    const ORDER: &str = r#"{"id":1000000,"quantity":37}"#;

    #[derive(Deserialize)]
    struct Order {
        id: u64,
        quantity: u32,
    }

    #[test]
    fn json_by_a_router_allocates_nothing() {
        for slots in [1, 16] {
            let handler = async |Body(order): Body<Order>| {
                assert_eq!((order.id, order.quantity), (1_000_000, 37));
                Ok::<(), Transient>(())
            };
            let router = Router::new(Codecs::json()).route("order.created", handler).build().expect("one route");
            let message = || Message::builder().subject("order.created").content_type("application/json").build(ORDER);
            assert_eq!(steady_state_of(slots, router, || message().expect("a valid message")), 0, "{slots} slots");
        }
    }

    #[derive(Deserialize)]
    struct Blob<'a> {
        name: &'a str,
        data: &'a str,
    }

    /// A body of 1 MiB into borrowed fields: the bytes are not copied on the way to the handler or in it.
    #[test]
    fn a_large_body_is_borrowed() {
        let codecs = Codecs::builder().with(consign::codecs::Json::default());
        let codecs = codecs.limits(Limits::default().bytes(2 << 20)).build().expect("one codec");
        let handler = async |payload: Payload<_>| {
            let blob: Blob<'_> = payload.decode()?;
            assert_eq!((blob.name, blob.data.len()), ("blob", 1 << 20));
            Ok::<(), Undecodable>(())
        };
        let mut router = Router::new(codecs).fallback(handler).build().expect("one handler");
        let body = format!(r#"{{"name":"blob","data":"{}"}}"#, "x".repeat(1 << 20));
        let message = Message::builder().content_type("application/json").build(body).expect("a valid message");
        let bytes = allocated_bytes(|| {
            let handled = pin!(router.call(message)).poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(handled, Poll::Ready(Ok(Disposition::Complete)));
        });
        assert!(bytes < 4_096, "{bytes} bytes");
    }
}
