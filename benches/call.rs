//! What one call costs, from a value to the value that answers it: the task that calls, requester, embedded broker and
//! responder on one current-thread runtime. `cargo xtask bench` counts and times it.
//!
//! The command line is that of `scenario`. A scenario lets so many other calls wait, warms up for as many calls as it counts,
//! says `ready`, waits for a line or the end of its standard input, and runs the calls one after the other.
//! `call in_flight_64 CALLS` runs calls so many at once, and prints percentiles of their wall clock in nanoseconds.
#![allow(unsafe_code, reason = "a counting allocator")]

mod counting;
#[macro_use]
mod scenario;

use std::{
    future::Future,
    hint::black_box,
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueSender},
    codecs::{And, Codecs, Json, NoCodec},
    consumer::Consumer,
    message::EntityPath,
    routing::Body,
    rpc::{Client, Reply, ReplyQueue, Requester, Responder},
    transport::SendService,
};
use scenario::counted;
use serde::{Deserialize, Serialize};
use tokio::{
    runtime::Runtime,
    task::{JoinSet, yield_now},
    time::Instant,
};
use tower::Service;

#[derive(Serialize, Deserialize)]
struct Ask {
    sku: u64,
    count: u32,
}

#[derive(Serialize, Deserialize)]
struct Quote {
    total: u64,
    days: u32,
}

type QuoteRequester = Requester<SendService<QueueSender>>;
type QuoteClient = Client<QuoteRequester, And<NoCodec, Json>>;

/// A request that is completed without an answer, so that its call goes on waiting.
const UNANSWERED: &str = "unanswered";
const HOUR: Duration = Duration::from_secs(3_600);

scenarios! {
    "round_trip" => |calls| count(0, calls),
    "round_trip_100k" => |calls| count(100_000, calls),
    "in_flight_1" => |calls| time(1, calls),
    "in_flight_64" => |calls| time(64, calls),
    "in_flight_1024" => |calls| time(1_024, calls),
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn count(pending: usize, calls: u64) {
    let runtime = runtime();
    let _guard = runtime.enter();
    let (requests, requester) = both_sides(pending + 1);
    let waiting = runtime.block_on(wait(&requests, &requester, pending));
    let client = client(requester.clone());
    let calling = || runtime.block_on(tokio::spawn(one_by_one(client.clone(), calls))).expect("every call is answered");
    calling();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    counted(&mut || calling());
    assert_eq!((requester.pending(), requester.answered()), (pending, 2 * calls));
    drop(waiting);
}

fn time(in_flight: usize, calls: u64) {
    let runtime = runtime();
    let _guard = runtime.enter();
    let (_, requester) = both_sides(in_flight);
    let client = client(requester);
    let each = calls / in_flight as u64 + 1;
    let mut times = runtime.block_on(async {
        timed(&client, in_flight, each).await;
        timed(&client, in_flight, each).await
    });
    times.sort_unstable();
    for percent in [50, 99] {
        println!("p{percent} {}", times[times.len() * percent / 100].as_nanos());
    }
}

async fn timed(client: &QuoteClient, in_flight: usize, each: u64) -> Vec<Duration> {
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        let client = client.clone();
        callers.spawn(async move {
            let mut times = Vec::new();
            for number in 0..each {
                let begun = Instant::now();
                ask(&client, number).await;
                times.push(begun.elapsed());
            }
            times
        });
    }
    callers.join_all().await.concat()
}

async fn one_by_one(client: QuoteClient, calls: u64) {
    for number in 0..calls {
        ask(&client, number).await;
    }
}

async fn ask(client: &QuoteClient, number: u64) {
    let quote: Quote = client.call(&Ask { sku: 1_000_000, count: 37 }).await.expect("an answer");
    assert_eq!(quote.total, 37_000_000, "call {number}");
    black_box(quote.days);
}

fn client(requester: QuoteRequester) -> QuoteClient {
    Client::new(requester, Codecs::json()).subject("quote")
}

/// The tasks of both sides, and what calls.
fn both_sides(max_in_flight: usize) -> (Queue, QuoteRequester) {
    let broker = Broker::new();
    let settings = QueueSettings::default().max_size(u64::MAX);
    let requests = broker.create_queue("requests", settings.clone()).expect("a new queue");
    let replies = broker.create_queue("replies.7f3a", settings).expect("a new queue");
    let senders = move |to: &EntityPath| Ok(SendService::new(broker.sender(to)?));
    let responder = Responder::builder(senders)
        .codecs(Codecs::json())
        .answer("quote", async |Body(ask): Body<Ask>| Reply(Quote { total: ask.sku * u64::from(ask.count), days: 3 }))
        .route(UNANSWERED, async || {})
        .build()
        .expect("two routes");
    tokio::spawn(Consumer::new(requests.receiver(), responder).concurrency(64).run());
    let (requester, receiving) =
        Requester::builder(SendService::new(requests.sender().expect("a queue takes messages")))
            .timeout(HOUR)
            .max_in_flight(max_in_flight)
            .build(ReplyQueue::new("replies.7f3a", replies.receiver()))
            .expect("a queue of its own");
    tokio::spawn(receiving.run());
    (requests, requester)
}

/// Starts calls that get no reply.
async fn wait(requests: &Queue, requester: &QuoteRequester, calls: usize) -> Vec<Pin<Box<dyn Future<Output = ()>>>> {
    let request = Message::builder().subject(UNANSWERED).build("").expect("a valid message");
    let mut requester = requester.clone();
    let begin = |_| {
        let answer = requester.call(request.clone());
        let mut call: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async { drop(answer.await) });
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        call
    };
    let waiting = (0..calls).map(begin).collect();
    while requests.counts().active + requests.counts().locked > 0 {
        yield_now().await;
    }
    waiting
}
