//! What the whole row of receiving layers costs an order of 1,024 bytes, beside the same order decoded without a layer:
//! `cargo xtask bench --only layers` counts it. The command line is that of `scenario`.
#![allow(unsafe_code, reason = "a counting allocator")]

mod counting;
mod payload;
#[macro_use]
mod scenario;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
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
    broker::Broker,
    cloud_events::CloudEvent,
    codecs::{CodecSet, Codecs, Json, MessagePack},
    consumer::Consumer,
    middleware::{
        catch_panic::CatchPanicLayer,
        claim_check::{MemoryBlobs, ResolveClaimLayer, StoreClaimLayer},
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        dedup::{DedupLayer, MemoryStore},
        encryption::{DecryptLayer, EncryptLayer},
        expiry::ExpiryLayer,
        keys::{Key, Keys},
        lock_renewal::LockRenewalLayer,
        renewal::Renewal,
        trace::TraceLayer,
    },
    routing::{Body, Router},
    settlement::Transient,
    time::{Clock, Moment, Timestamp},
    transport::{SendError, SendExt, Sender},
};
use futures_util::FutureExt;
use payload::{LARGE, Large};
use scenario::counted;
use tokio::sync::Notify;
use tower::{
    BoxError, Layer, Service, ServiceBuilder,
    layer::util::{Identity, Stack},
};

scenarios! {
    "decode" => |messages| receive(messages, &Identity::new(), router),
    "untouched" => |messages| receive(messages, &Identity::new(), |done| row(done, MemoryBlobs::new(0))),
    "compressed_gzip" => |messages| receive(messages, &CompressLayer::new(Encoding::Gzip), |done| row(done, MemoryBlobs::new(0))),
    "compressed_zstd" => |messages| receive(messages, &CompressLayer::new(Encoding::Zstd), |done| row(done, MemoryBlobs::new(0))),
    "encrypted" => |messages| receive(messages, &EncryptLayer::new(keys()), |done| row(done, MemoryBlobs::new(0))),
    "encrypted_gzip" => |messages| receive(messages, &encrypted(Encoding::Gzip), |done| row(done, MemoryBlobs::new(0))),
    "encrypted_zstd" => |messages| receive(messages, &encrypted(Encoding::Zstd), |done| row(done, MemoryBlobs::new(0))),
    "claimed_encrypted_gzip" => |messages| {
        let blobs = MemoryBlobs::new(usize::MAX);
        let sending = Stack::new(StoreClaimLayer::new(blobs.clone()).threshold(0), encrypted(Encoding::Gzip));
        receive(messages, &sending, |done| row(done, blobs));
    },
    "cloud_event" => cloud_events,
    "transcode" => transcode,
}

const LOCK: Duration = Duration::from_secs(60);

/// Takes no time to read.
struct Still;

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment { elapsed: Duration::ZERO, utc: Timestamp::EPOCH }
    }
}

/// Ends the run after the last message.
#[derive(Clone)]
struct Done {
    left: Arc<AtomicU64>,
    all: Arc<Notify>,
}

impl Done {
    fn one(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all.notify_one();
        }
    }
}

fn codecs() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).build().expect("two codecs")
}

/// Reads the order by its ContentType.
fn router(
    done: Done,
) -> impl Service<Message, Response = Disposition, Error = Infallible, Future: Send> + Clone + Send + 'static {
    let handler = move |Body(order): Body<Large>| -> Ready<Result<(), Transient>> {
        black_box(&order);
        done.one();
        ready(Ok(()))
    };
    Router::new(codecs()).fallback(handler).build().expect("one handler")
}

/// The row. What is not encrypted passes, so that one row has messages of all kinds.
fn row(done: Done, blobs: MemoryBlobs) -> impl Service<Message, Response = Disposition, Error = BoxError> {
    ServiceBuilder::new()
        .layer(TraceLayer::receiving("orders"))
        .layer(CatchPanicLayer::new())
        .layer(LockRenewalLayer::new(|_: &Message| ready(Ok(())), Renewal::new(LOCK)))
        .layer(ExpiryLayer::new(Still))
        .layer(DedupLayer::new(MemoryStore::with_clock(LOCK, Still), "orders"))
        .layer(ResolveClaimLayer::new(blobs))
        .layer(DecryptLayer::new(keys()).allow_plaintext())
        .layer(DecompressLayer::new([Encoding::Gzip, Encoding::Zstd]))
        .service(router(done))
}

fn keys() -> Keys {
    Keys::new(Key::new("2026", [7; 32]).expect("an id"))
}

fn encrypted(encoding: Encoding) -> Stack<EncryptLayer, CompressLayer> {
    Stack::new(EncryptLayer::new(keys()), CompressLayer::new(encoding))
}

/// The order with this id, as the sending layers make it.
fn order<L>(sending: &L, id: u64) -> Message
where
    L: Layer<Keep, Service: Service<Message, Response = (), Error = SendError>>,
{
    let message = Message::builder().message_id(format!("m-{id:09}")).content_type("application/json");
    let (keep, message) = (Keep::default(), message.build(LARGE).expect("a valid message"));
    sending.layer(keep.clone()).send(message).now_or_never().expect("ready at once").expect("accepted");
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

/// From a full queue to settled deliveries, by the consumer.
fn receive<L, S>(count: u64, sending: &L, stack: impl FnOnce(Done) -> S)
where
    L: Layer<Keep, Service: Service<Message, Response = (), Error = SendError>>,
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    let queue = Broker::with_clock(Still)
        .create_queue("orders", QueueSettings::default().max_size(u64::MAX))
        .expect("a new queue");
    let sender = queue.sender().expect("a queue takes messages");
    // What it takes to free a message as it came is in no figure.
    let kept: Vec<_> = (0..count).map(|id| order(sending, id)).collect();
    for message in kept.clone() {
        sender.send(message).now_or_never().expect("ready at once").expect("accepted");
    }
    let done = Done { left: Arc::new(AtomicU64::new(count)), all: Arc::new(Notify::new()) };
    let all = Arc::clone(&done.all);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let consumer = Consumer::without_clone(queue.receiver(), stack(done));
    let mut consumer = Some(consumer.run_until(async move { all.notified().await }));
    counted(&mut || {
        let stats = runtime.block_on(consumer.take().expect("one run")).expect("no failure");
        assert_eq!(stats.completed(), count);
    });
    drop(kept);
}

/// An event in structured mode whose data is the order.
fn cloud_events(count: u64) {
    let mut body = br#"{"specversion":"1.0","id":"m-1","source":"/orders","type":"order.created","data":"#.to_vec();
    body.extend(LARGE);
    body.push(b'}');
    let message = Message::builder().content_type("application/cloudevents+json").build(body).expect("a valid message");
    counted(&mut || {
        for _ in 0..count {
            black_box(CloudEvent::from_message(black_box(&message)).expect("an event"));
        }
    });
}

/// The order from JSON into MessagePack.
fn transcode(count: u64) {
    let codecs = codecs();
    counted(&mut || {
        for _ in 0..count {
            let (from, to) = (Some("application/json"), "application/msgpack");
            black_box(codecs.transcode(from, black_box(LARGE), to).expect("no loss"));
        }
    });
}
