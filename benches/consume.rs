//! What one consumed message costs, from a full queue to a settled delivery: `cargo xtask bench` counts it. The command line
//! is that of `scenario`.
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
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueSender},
    codecs::{CodecSet, Codecs, Json, MessagePack},
    consumer::Consumer,
    middleware::encode::{EncodeLayer, OutboundMessage},
    routing::{Body, RawBody, Router},
    settlement::Transient,
    time::{Clock, ManualClock, SystemClock, Timestamp},
    transport::{SendExt, SendService, Sender},
};
use futures_util::{FutureExt, future::join};
use payload::{LARGE, Large, ORDER, Order, SHIPMENT, Shipment};
use scenario::counted;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::Notify, task::yield_now};
use tower::{BoxError, Service, ServiceBuilder, util::MapResponse};

scenarios! {
    "json" => |messages| run(still(), messages, None, ORDER, json),
    "json_real_clock" => |messages| run(SystemClock::new(), messages, None, ORDER, json),
    "bytes" => |messages| run(still(), messages, None, ORDER, bytes),
    "json_one" => |messages| run(still(), messages, Some(1), ORDER, json),
    "bytes_one" => |messages| run(still(), messages, Some(1), ORDER, bytes),
    "json_1k" => |messages| run(still(), messages, None, LARGE, |done, _| decoding::<Large>(done)),
    "one_layer" => |messages| run(still(), messages, None, ORDER, |done, to| pass(json(done, to))),
    "four_layers" => |messages| run(still(), messages, None, ORDER, |done, to| pass(pass(pass(pass(json(done, to)))))),
    "router" => |messages| run(still(), messages, None, ORDER, router),
    "reply" => |messages| run(still(), messages, None, ORDER, reply),
    "workers_4" => |messages| run(still(), messages, Some(4), ORDER, json),
    "batch_64" => |messages| run(still(), messages, Some(64), ORDER, json),
    "send_and_consume" => send_and_consume,
    "send_and_consume_floor" => |messages| decode::<Shipment>(SHIPMENT, messages),
    "serde_json" => |messages| decode::<Order>(ORDER, messages),
    "serde_json_1k" => |messages| decode::<Large>(LARGE, messages),
}

const SUBJECT: &str = "order.e";

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

fn still() -> impl Clock {
    ManualClock::new(Timestamp::EPOCH)
}

fn codecs() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).build().expect("two codecs")
}

fn json(done: Done, _: QueueSender) -> impl Service<Message, Response = Disposition, Error = Infallible> {
    decoding::<Order>(done)
}

/// One route, and the codec is chosen by the message's ContentType.
fn decoding<T: DeserializeOwned + 'static>(
    done: Done,
) -> impl Service<Message, Response = Disposition, Error = Infallible> {
    let handler = move |Body(order): Body<T>| {
        black_box(&order);
        done.one();
        async { Ok::<(), Transient>(()) }
    };
    Router::new(codecs()).route(SUBJECT, handler).build().expect("one route")
}

fn bytes(done: Done, _: QueueSender) -> impl Service<Message, Response = Disposition, Error = Infallible> {
    let handler = move |RawBody(body): RawBody| {
        black_box(&body);
        done.one();
        async {}
    };
    Router::new(Codecs::json()).fallback(handler).build().expect("one handler")
}

/// Eight routes. The message takes the fifth.
fn router(done: Done, _: QueueSender) -> impl Service<Message, Response = Disposition, Error = Infallible> {
    fn handler<const N: usize>(done: Done) -> impl Fn(Body<Order>) -> Ready<Result<(), Transient>> + use<N> {
        move |Body(order)| {
            black_box((N, &order));
            done.one();
            ready(Ok(()))
        }
    }
    Router::new(codecs())
        .route("order.a", handler::<0>(done.clone()))
        .route("order.b", handler::<1>(done.clone()))
        .route("order.c", handler::<2>(done.clone()))
        .route("order.d", handler::<3>(done.clone()))
        .route(SUBJECT, handler::<4>(done.clone()))
        .route("order.f", handler::<5>(done.clone()))
        .route("order.g", handler::<6>(done.clone()))
        .route("order.h", handler::<7>(done))
        .build()
        .expect("eight routes")
}

#[derive(Serialize)]
struct Confirmation {
    id: u64,
}

/// The handler sends a value to another queue, and the message is completed when it is there.
fn reply(done: Done, to: QueueSender) -> impl Service<Message, Response = Disposition, Error = Infallible> {
    let sender = ServiceBuilder::new().layer(EncodeLayer::new(Codecs::json())).service(SendService::new(to));
    let handler = move |Body(order): Body<Order>| {
        let mut sender = sender.clone();
        done.one();
        async move {
            sender.send(OutboundMessage::new(Confirmation { id: black_box(order.id) })).await.map_err(Transient::new)
        }
    };
    Router::new(codecs()).route(SUBJECT, handler).build().expect("one route")
}

fn pass<S: Service<Message, Response = Disposition>>(
    inner: S,
) -> impl Service<Message, Response = Disposition, Error = S::Error> {
    MapResponse::new(inner, |disposition: Disposition| disposition)
}

fn run<S>(
    clock: impl Clock,
    messages: u64,
    slots: Option<usize>,
    body: &'static [u8],
    service: impl FnOnce(Done, QueueSender) -> S,
) where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    let broker = Broker::with_clock(clock);
    let settings = || QueueSettings::default().max_size(u64::MAX);
    let queue = broker.create_queue("orders", settings()).expect("a new queue");
    let answers = broker.create_queue("confirmations", settings()).expect("a new queue");
    fill(&queue, messages, body);
    let done = Done { left: Arc::new(AtomicU64::new(messages)), all: Arc::new(Notify::new()) };
    let all = Arc::clone(&done.all);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let service = service(done, answers.sender().expect("a queue takes messages"));
    let mut consumer = Consumer::without_clone(queue.receiver(), service);
    if let Some(slots) = slots {
        consumer = consumer.concurrency(slots);
    }
    let mut consumer = Some(consumer.run_until(async move { all.notified().await }));
    counted(&mut || {
        let stats = runtime.block_on(consumer.take().expect("one run")).expect("no failure");
        assert_eq!(stats.completed(), messages);
    });
}

/// Both sides on one thread: plain messages without an id and a ContentType are sent 64 at a time, and consumed.
fn send_and_consume(messages: u64) {
    const BURST: u64 = 64;
    let broker = Broker::with_clock(still());
    let settings = QueueSettings::default().max_size(u64::MAX);
    let queue = broker.create_queue("shipments", settings).expect("a new queue");
    let sender = queue.sender().expect("a queue takes messages");
    let done = Done { left: Arc::new(AtomicU64::new(messages)), all: Arc::new(Notify::new()) };
    let all = Arc::clone(&done.all);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let handler = move |Body(shipment): Body<Shipment>| {
        let done = done.clone();
        async move {
            black_box(&shipment);
            done.one();
            Ok::<(), Transient>(())
        }
    };
    let router = Router::new(codecs()).fallback(handler).build().expect("one handler");
    let consumer = Consumer::without_clone(queue.receiver(), router);
    let sending = async move {
        for sent in 0..messages {
            sender.send(Message::new(SHIPMENT.to_vec())).await.expect("accepted");
            if sent % BURST == BURST - 1 {
                yield_now().await;
            }
        }
    };
    let mut both = Some(join(sending, consumer.run_until(async move { all.notified().await })));
    counted(&mut || {
        let ((), stats) = runtime.block_on(both.take().expect("one run"));
        assert_eq!(stats.expect("no failure").completed(), messages);
    });
}

fn fill(queue: &Queue, messages: u64, body: &'static [u8]) {
    let sender = queue.sender().expect("a queue takes messages");
    let message = Message::builder().message_id("m-1").subject(SUBJECT).content_type("application/json");
    let message = message.build(body).expect("a valid message");
    for _ in 0..messages {
        sender.send(message.clone()).now_or_never().expect("ready at once").expect("accepted");
    }
}

fn decode<T: DeserializeOwned>(body: &[u8], messages: u64) {
    counted(&mut || {
        for _ in 0..messages {
            black_box(serde_json::from_slice::<T>(black_box(body)).expect("valid"));
        }
    });
}
