//! What one consumed message costs: `cargo xtask instructions` counts it under callgrind.
//!
//! `consume SCENARIO MESSAGES` handles that many messages inside `hot_phase` and prints the allocations that it saw.
#![allow(unsafe_code, reason = "a counting allocator")]

mod counting;

use std::{
    convert::Infallible,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use consign::{
    Disposition, Message,
    broker::{Broker, Queue, QueueSettings},
    codecs::{Codecs, Json, MessagePack},
    consumer::Consumer,
    routing::{Body, Raw, Router},
    settlement::Transient,
    time::{Clock, ManualClock, SystemClock, Timestamp},
    transport::Sender,
};
use futures_util::FutureExt;
use serde::Deserialize;
use tokio::sync::Notify;
use tower::{BoxError, Service, util::MapResponse};

#[derive(Deserialize)]
struct Order {
    id: u64,
    quantity: u32,
}

const JSON: &[u8] = br#"{"id":1000000,"quantity":37}"#;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [scenario, messages] = &*arguments else {
        println!("usage: consume SCENARIO MESSAGES");
        return;
    };
    let messages = messages.parse().expect("a number of messages");
    let (name, slots) = scenario.split_once('@').unwrap_or((scenario, "1"));
    let slots = slots.parse().expect("a number of slots");
    let still = || ManualClock::new(Timestamp::EPOCH);
    match name {
        "bytes" => run(still(), messages, slots, bytes),
        "json" => run(still(), messages, slots, json),
        "json_real_clock" => run(SystemClock::new(), messages, slots, json),
        "json_four_layers" => run(still(), messages, slots, |done| pass(pass(pass(pass(json(done)))))),
        "serde_json" => hot_phase(&mut || {
            for _ in 0..messages {
                let order: Order = serde_json::from_slice(black_box(JSON)).expect("valid");
                black_box((order.id, order.quantity));
            }
        }),
        other => println!("no scenario {other}"),
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

fn json(done: Done) -> impl Service<Message, Response = Disposition, Error = Infallible> {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).build().expect("two codecs");
    let handler = move |Body(order): Body<Order>| {
        black_box((order.id, order.quantity));
        done.one();
        async { Ok::<(), Transient>(()) }
    };
    Router::new(codecs).route("order.created", handler).build().expect("one route")
}

fn bytes(done: Done) -> impl Service<Message, Response = Disposition, Error = Infallible> {
    let handler = move |Raw(body): Raw| {
        black_box(&body);
        done.one();
        async {}
    };
    Router::new(Codecs::json()).otherwise(handler).build().expect("one handler")
}

fn pass<S: Service<Message, Response = Disposition>>(
    inner: S,
) -> impl Service<Message, Response = Disposition, Error = S::Error> {
    MapResponse::new(inner, |disposition: Disposition| disposition)
}

fn run<S>(clock: impl Clock, messages: u64, slots: usize, service: impl FnOnce(Done) -> S)
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    let queue = filled(clock, messages);
    let done = Done { left: Arc::new(AtomicU64::new(messages)), all: Arc::new(Notify::new()) };
    let all = Arc::clone(&done.all);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let consumer = Consumer::new(queue.receiver(), service(done)).concurrency(slots);
    let mut consumer = Some(consumer.run_until(async move { all.notified().await }));
    let before = counting::allocations();
    hot_phase(&mut || {
        let stats = runtime.block_on(consumer.take().expect("one run")).expect("no failure");
        assert_eq!(stats.completed(), messages);
    });
    println!("allocations {}", counting::allocations() - before);
}

fn filled(clock: impl Clock, messages: u64) -> Queue {
    let broker = Broker::with_clock(clock);
    let queue = broker.create_queue("orders", QueueSettings::default().with_max_size(u64::MAX)).expect("a new queue");
    let sender = queue.sender().expect("a queue takes messages");
    let message = Message::builder()
        .message_id("m-1")
        .subject("order.created")
        .content_type("application/json")
        .build(JSON)
        .expect("a valid message");
    for _ in 0..messages {
        sender.send(message.clone()).now_or_never().expect("ready at once").expect("accepted");
    }
    queue
}

#[inline(never)]
fn hot_phase(phase: &mut dyn FnMut()) {
    phase();
    black_box(());
}
