//! What each layer costs a message that passes through it untouched: `cargo xtask bench --only layers` counts a stack with
//! one layer, and takes away what the same stack costs without it. The command line is that of `scenario`.
#![allow(unsafe_code, reason = "a counting allocator")]

mod counting;
#[macro_use]
mod scenario;

use std::{
    future::{Future, Ready, ready},
    hint::black_box,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, QueueSender},
    consumer::Consumer,
    middleware::{
        busy_pause::BusyPauseLayer,
        catch_panic::CatchPanicLayer,
        circuit_breaker::CircuitBreakerLayer,
        claim_check::{MemoryBlobs, ResolveClaimLayer, StoreClaimLayer},
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        dead_letter::DeadLetterLayer,
        dedup::{DedupLayer, MemoryStore},
        encryption::{DecryptLayer, EncryptLayer},
        expiry::ExpiryLayer,
        from_fn::{Next, SendNext, from_fn, from_send_fn},
        in_flight::InFlightLayer,
        keys::{Key, Keys},
        lock_renewal::{LockRenewalLayer, Renew},
        message_id::MessageIdLayer,
        partition::PartitionLayer,
        renewal::Renewal,
        retry::{Backoff, DelayPolicy, RetryLayer},
        signing::{SignLayer, VerifyLayer},
        size_limit::SizeLimitLayer,
        spawn::SpawnLayer,
        trace::TraceLayer,
    },
    time::{Clock, Moment, Timestamp},
    transport::{SendError, SendExt, Sender},
};
use futures_util::FutureExt;
use scenario::counted;
use tokio::{runtime::Runtime, sync::Notify};
use tower::{BoxError, Layer, Service, ServiceBuilder};

scenarios! {
    "receiving" => |messages| receive(messages, |handler, _| handler),
    "dead_letter" => |messages| receive(messages, |handler, _| DeadLetterLayer::new().layer(handler)),
    "catch_panic" => |messages| receive(messages, |handler, _| CatchPanicLayer::new().layer(handler)),
    "lock_renewal" => |messages| receive(messages, |handler, _| renewing().layer(handler)),
    "expiry" => |messages| receive(messages, |handler, _| ExpiryLayer::new(Still).layer(handler)),
    "retry" => |messages| receive(messages, |handler, _| RetryLayer::new().immediate(2).layer(handler)),
    "retry_later" => |messages| receive(messages, |handler, to| RetryLayer::new().delayed(later(to)).layer(handler)),
    "circuit_breaker" => |messages| receive(messages, |handler, _| CircuitBreakerLayer::new(5, 10, LOCK).layer(handler)),
    "dedup" => |messages| receive(messages, |handler, _| DedupLayer::new(ids(), "orders").layer(handler)),
    "decompress" => |messages| receive(messages, |handler, _| DecompressLayer::new([Encoding::Gzip]).layer(handler)),
    "decompress_1k" => |messages| receive_of(messages, &kilobyte_through(&CompressLayer::new(Encoding::Gzip).threshold(0)), |handler, _| DecompressLayer::new([Encoding::Gzip]).layer(handler)),
    "decompress_1k_zstd" => |messages| receive_of(messages, &kilobyte_through(&CompressLayer::new(Encoding::Zstd).threshold(0)), |handler, _| DecompressLayer::new([Encoding::Zstd]).layer(handler)),
    "check_out" => |messages| receive(messages, |handler, _| ResolveClaimLayer::new(MemoryBlobs::new(0)).layer(handler)),
    "check_out_1k" => |messages| {
        let blobs = MemoryBlobs::new(1 << 20);
        let first = kilobyte_through(&StoreClaimLayer::new(blobs.clone()).threshold(0));
        receive_of(messages, &first, |handler, _| ResolveClaimLayer::new(blobs).layer(handler));
    },
    "decrypt_1k" => |messages| {
        receive_of(messages, &kilobyte_through(&EncryptLayer::new(key())), |handler, _| DecryptLayer::new(key()).layer(handler));
    },
    "verify_1k" => |messages| {
        receive_of(messages, &kilobyte_through(&SignLayer::new(key())), |handler, _| VerifyLayer::new(key()).layer(handler));
    },
    "from_fn" => |messages| receive(messages, |handler, _| from_fn(through).layer(handler)),
    "partition" => |messages| receive(messages, |handler, _| PartitionLayer::by_session_id().layer(handler)),
    "partition_key" => |messages| receive_of(messages, &keyed(), |handler, _| PartitionLayer::by_session_id().layer(handler)),
    "spawn" => |messages| receive(messages, |handler, _| SpawnLayer::new().layer(handler)),
    "trace" => |messages| receive(messages, |handler, _| TraceLayer::receiving("orders").layer(handler)),
    "all_layers" => |messages| receive(messages, all),
    "sending" => |messages| send(messages, |transport| transport),
    "message_id" => |messages| send(messages, |transport| MessageIdLayer::new().layer(transport)),
    "busy_pause" => |messages| send(messages, |transport| BusyPauseLayer::new().layer(transport)),
    "compress" => |messages| send(messages, |transport| CompressLayer::new(Encoding::Gzip).layer(transport)),
    "compress_1k" => |messages| send_of(messages, &kilobyte(), |transport| CompressLayer::new(Encoding::Gzip).threshold(0).layer(transport)),
    "compress_1k_zstd" => |messages| send_of(messages, &kilobyte(), |transport| CompressLayer::new(Encoding::Zstd).threshold(0).layer(transport)),
    "check_in" => |messages| send(messages, |transport| StoreClaimLayer::new(MemoryBlobs::new(0)).layer(transport)),
    "check_in_1k" => |messages| {
        let layer = StoreClaimLayer::new(MemoryBlobs::new(usize::MAX)).threshold(0);
        send_of(messages, &kilobyte(), |transport| layer.layer(transport));
    },
    "encrypt_1k" => |messages| send_of(messages, &kilobyte(), |transport| EncryptLayer::new(key()).layer(transport)),
    "sign_1k" => |messages| send_of(messages, &kilobyte(), |transport| SignLayer::new(key()).layer(transport)),
    "size_limit" => |messages| send(messages, |transport| SizeLimitLayer::default().layer(transport)),
    "in_flight" => |messages| send(messages, |transport| InFlightLayer::default().layer(transport)),
    "trace_sending" => |messages| send(messages, |transport| TraceLayer::sending("orders").layer(transport)),
    "from_send_fn" => |messages| send(messages, |transport| from_send_fn(through_sending).layer(transport)),
}

const LOCK: Duration = Duration::from_secs(60);

/// Takes no time to read.
struct Still;

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment { elapsed: Duration::ZERO, utc: Timestamp::EPOCH }
    }
}

fn ids() -> MemoryStore<Still> {
    MemoryStore::with_clock(LOCK, Still)
}

fn renewing() -> LockRenewalLayer<impl Renew<Future: Send + 'static> + Send + Sync + 'static> {
    LockRenewalLayer::new(|_: &Message| ready(Ok(())), Renewal::new(LOCK))
}

async fn through(message: Message, next: Next<Handler>) -> Result<Disposition, BoxError> {
    next.run(message).await
}

async fn through_sending(message: Message, next: SendNext<Transport>) -> Result<(), SendError> {
    next.run(message).await
}

fn later(to: QueueSender) -> DelayPolicy<QueueSender> {
    DelayPolicy::new(to, Backoff::exponential(LOCK)).expect("a queue schedules messages")
}

/// Every layer of a receiving stack, in its order.
fn all(
    handler: Handler,
    to: QueueSender,
) -> impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone {
    ServiceBuilder::new()
        .layer(DeadLetterLayer::new())
        .layer(CatchPanicLayer::new())
        .layer(renewing())
        .layer(ExpiryLayer::new(Still))
        .layer(RetryLayer::new().immediate(2).delayed(later(to)))
        .layer(CircuitBreakerLayer::new(5, 10, LOCK))
        .layer(DedupLayer::new(ids(), "orders"))
        .service(handler)
}

/// Answers at the first poll of its future, which owns the message, and ends the run after the last one.
#[derive(Clone)]
struct Handler(Arc<Left>);

struct Left {
    messages: AtomicU64,
    none: Notify,
}

struct Handling {
    left: Arc<Left>,
    message: Message,
}

impl Service<Message> for Handler {
    type Response = Disposition;
    type Error = BoxError;
    type Future = Handling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: Message) -> Handling {
        Handling { left: Arc::clone(&self.0), message }
    }
}

impl Future for Handling {
    type Output = Result<Disposition, BoxError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        black_box(&self.message);
        if self.left.messages.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.left.none.notify_one();
        }
        Poll::Ready(Ok(Disposition::Complete))
    }
}

/// Accepts what it is sent, at the first poll of its future, which owns the message.
#[derive(Clone)]
struct Transport;

struct Sending {
    message: Message,
}

impl Service<Message> for Transport {
    type Response = ();
    type Error = SendError;
    type Future = Sending;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: Message) -> Sending {
        Sending { message }
    }
}

impl Future for Sending {
    type Output = Result<(), SendError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        black_box(&self.message);
        Poll::Ready(Ok(()))
    }
}

/// Each as the first, with an id of its own unless it has one.
fn messages(count: u64, first: &Message) -> Vec<Message> {
    let message = |n| {
        let mut message = first.clone();
        if message.message_id().is_some() {
            return message;
        }
        message.properties_mut().set_message_id(format!("m-{n:09}")).expect("a valid id");
        message
    };
    (0..count).map(message).collect()
}

fn key() -> Keys {
    Keys::new(Key::new("2026", [7; 32]).expect("an id"))
}

/// Of a customer, whose messages are handled one after the other.
fn keyed() -> Message {
    Message::builder().session_id("customer-7").build("a body").expect("a valid message")
}

/// An order of 1,024 bytes, half of them text.
fn kilobyte() -> Message {
    Message::new(&include_bytes!("payload/order.json")[..])
}

/// What a sending layer makes of that order.
fn kilobyte_through<L>(layer: &L) -> Message
where
    L: Layer<Keep, Service: Service<Message, Response = (), Error = SendError>>,
{
    let keep = Keep::default();
    layer.layer(keep.clone()).send(kilobyte()).now_or_never().expect("ready at once").expect("accepted");
    keep.0.lock().expect("no panic").take().expect("a message")
}

#[derive(Clone, Default)]
struct Keep(Arc<Mutex<Option<Message>>>);

impl Service<Message> for Keep {
    type Response = ();
    type Error = SendError;
    type Future = Ready<Result<(), SendError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: Message) -> Self::Future {
        *self.0.lock().expect("no panic") = Some(message);
        ready(Ok(()))
    }
}

/// From a full queue to settled deliveries, by the consumer. What sends later gets the queue to send to.
fn receive<S>(count: u64, stack: impl FnOnce(Handler, QueueSender) -> S)
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    receive_of(count, &Message::new("a body"), stack);
}

fn receive_of<S>(count: u64, first: &Message, stack: impl FnOnce(Handler, QueueSender) -> S)
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    let queue = Broker::with_clock(Still)
        .create_queue("orders", QueueSettings::default().max_size(u64::MAX))
        .expect("a new queue");
    let sender = queue.sender().expect("a queue takes messages");
    // What it takes to free a message is in no figure.
    let kept = messages(count, first);
    for message in kept.clone() {
        sender.send(message).now_or_never().expect("ready at once").expect("accepted");
    }
    let left = Arc::new(Left { messages: AtomicU64::new(count), none: Notify::new() });
    let consumer = Consumer::without_clone(queue.receiver(), stack(Handler(Arc::clone(&left)), sender));
    let mut consumer = Some(consumer.run_until(async move { left.none.notified().await }));
    let runtime = runtime();
    counted(&mut || {
        let stats = runtime.block_on(consumer.take().expect("one run")).expect("no failure");
        assert_eq!(stats.completed(), count);
    });
    drop(kept);
}

/// One send after the other, to a transport that does nothing.
fn send<S>(count: u64, stack: impl FnOnce(Transport) -> S)
where
    S: Service<Message, Response = (), Error = SendError>,
{
    send_of(count, &Message::new("a body"), stack);
}

fn send_of<S>(count: u64, first: &Message, stack: impl FnOnce(Transport) -> S)
where
    S: Service<Message, Response = (), Error = SendError>,
{
    let runtime = runtime();
    let mut stack = {
        let _entered = runtime.enter();
        stack(Transport)
    };
    let kept = messages(count, first);
    let mut messages = Some(kept.clone());
    counted(&mut || {
        runtime.block_on(async {
            for message in messages.take().expect("one run") {
                stack.send(message).await.expect("accepted");
            }
        });
    });
    drop(kept);
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}
