//! What erased types cost a message: a router of 1, 50 and 500 routes, with the types of its handlers erased and without, and a
//! publisher beside the same layers.
//! `cargo xtask bench --only erased` counts it. The subjects of the messages are those of all routes in turn. The command
//! line is that of `scenario`.
#![allow(unsafe_code, reason = "a counting allocator")]

mod counting;
mod payload;
#[macro_use]
mod scenario;

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    codecs::{CodecSet, Codecs, Json, MessagePack},
    consumer::Consumer,
    middleware::{
        encode::{EncodeLayer, OutboundMessage},
        in_flight::InFlightLayer,
        message_id::MessageIdLayer,
        retry::Backoff,
        send_retry::SendRetryLayer,
    },
    publisher::Publisher,
    routing::{Body, Router, Routes},
    settlement::Transient,
    time::{ManualClock, Timestamp},
    transport::{Batch, SendError, SendService, Sender},
};
use futures_util::FutureExt;
use payload::{ORDER, Order};
use scenario::counted;
use tokio::sync::Notify;
use tower::{Service, ServiceBuilder, ServiceExt};

scenarios! {
    "static_1" => |messages| run(messages, 1, static_1),
    "static_50" => |messages| run(messages, 50, static_50),
    "erased_1" => |messages| run(messages, 1, |done| erased(done, 1)),
    "erased_50" => |messages| run(messages, 50, |done| erased(done, 50)),
    "erased_500" => |messages| run(messages, 500, |done| erased(done, 500)),
    "layers" => |messages| send(messages, {
        let stack = ServiceBuilder::new()
            .layer(MessageIdLayer::new())
            .layer(EncodeLayer::new(Codecs::json()))
            .layer(InFlightLayer::default())
            .service(SendService::new(Nowhere));
        move |value| stack.clone().oneshot(OutboundMessage::new(value).subject("order.placed"))
    }),
    "publisher" => |messages| send(messages, {
        let publisher = Publisher::new(Codecs::json(), Nowhere);
        move |value| publisher.publish("order.placed", &value)
    }),
    "publisher_retry" => |messages| send(messages, {
        let retry = SendRetryLayer::new(Backoff::fixed(Duration::from_secs(1)));
        let publisher = Publisher::builder(Codecs::json()).layer(retry).build(Nowhere);
        move |value| publisher.publish("order.placed", &value)
    }),
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

fn subject(route: usize) -> String {
    format!("order.event-{route:03}")
}

fn handler(done: &Done, route: usize) -> impl Fn(Body<Order>) -> Ready<Result<(), Transient>> + use<> {
    let done = done.clone();
    move |Body(order)| {
        black_box((route, &order));
        done.one();
        ready(Ok(()))
    }
}

fn erased(done: &Done, count: usize) -> impl Service<Message, Response = Disposition, Error = Infallible> + use<> {
    let add = |routes: Routes<_, _>, route| routes.route(subject(route), handler(done, route));
    Router::new(codecs()).merge((0..count).fold(Routes::new(), add)).build().expect("routes")
}

fn static_1(done: &Done) -> impl Service<Message, Response = Disposition, Error = Infallible> + use<> {
    Router::new(codecs()).route(subject(0), handler(done, 0)).build().expect("one route")
}

macro_rules! routes {
    ($builder:expr, $done:ident: $($tens:literal)*) => {{
        let builder = $builder;
        $(let builder = builder
            .route(subject($tens), handler($done, $tens))
            .route(subject($tens + 1), handler($done, $tens + 1))
            .route(subject($tens + 2), handler($done, $tens + 2))
            .route(subject($tens + 3), handler($done, $tens + 3))
            .route(subject($tens + 4), handler($done, $tens + 4))
            .route(subject($tens + 5), handler($done, $tens + 5))
            .route(subject($tens + 6), handler($done, $tens + 6))
            .route(subject($tens + 7), handler($done, $tens + 7))
            .route(subject($tens + 8), handler($done, $tens + 8))
            .route(subject($tens + 9), handler($done, $tens + 9));)*
        builder
    }};
}

fn static_50(done: &Done) -> impl Service<Message, Response = Disposition, Error = Infallible> + use<> {
    routes!(Router::new(codecs()), done: 0 10 20 30 40).build().expect("fifty routes")
}

/// Accepts every message, and drops it.
#[derive(Clone)]
struct Nowhere;

impl Sender for Nowhere {
    type Send = Ready<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        black_box(message);
        ready(Ok(()))
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        black_box(batch);
        ready(Ok(()))
    }
}

fn send<F: Future<Output = Result<(), SendError>>>(messages: u64, send: impl Fn((u64, u32)) -> F) {
    counted(&mut || {
        for number in 0..messages {
            send(black_box((number, 3))).now_or_never().expect("ready at once").expect("accepted");
        }
    });
}

fn run<S>(messages: u64, routes: usize, service: impl FnOnce(&Done) -> S)
where
    S: Service<Message, Response = Disposition, Error = Infallible>,
{
    let broker = Broker::with_clock(ManualClock::new(Timestamp::EPOCH));
    let queue = broker.create_queue("orders", QueueSettings::default().max_size(u64::MAX)).expect("a new queue");
    let sender = queue.sender().expect("a queue takes messages");
    // As many messages for one route as for many: what they cost the allocator is not in the difference.
    let all: Vec<Message> = (0..500)
        .map(|number| {
            let message =
                Message::builder().message_id("m-1").subject(subject(number % routes)).content_type("application/json");
            message.build(ORDER).expect("a valid message")
        })
        .collect();
    for message in all.iter().cycle().zip(0..messages).map(|(message, _)| message) {
        sender.send(message.clone()).now_or_never().expect("ready at once").expect("accepted");
    }
    let done = Done { left: Arc::new(AtomicU64::new(messages)), all: Arc::new(Notify::new()) };
    let notified = Arc::clone(&done.all);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let consumer = Consumer::without_clone(queue.receiver(), service(&done));
    let mut consumer = Some(consumer.run_until(async move { notified.notified().await }));
    counted(&mut || {
        let stats = runtime.block_on(consumer.take().expect("one run")).expect("no failure");
        assert_eq!(stats.completed(), messages);
    });
}
