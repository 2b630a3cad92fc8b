//! What `RustStream` costs: instructions and allocations per message, over its broker in memory, written as its own benches
//! write it: a current-thread runtime, the application started and its queue filled before anything is counted.
//!
//! The command line is that of `scenario`.
#![allow(unsafe_code, reason = "a counting allocator")]

#[path = "../../../counting/mod.rs"]
mod counting;
#[path = "../../../payload/mod.rs"]
mod payload;
#[macro_use]
#[path = "../../../scenario/mod.rs"]
mod scenario;

use std::{
    convert::Infallible,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use payload::{LARGE, Large, ORDER, Order};
use ruststream::{
    OutgoingMessage,
    memory::prelude::*,
    runtime::{BlanketLayer, BrokerScope, Handler, Identity, Layer, Outgoing as OutgoingView, PublishContext},
};
use scenario::counted;
use serde::Serialize;
use tokio::{runtime::Runtime, sync::Notify};

const KIND: &str = "kind";
const TIMEOUT: Duration = Duration::from_secs(5);

scenarios! {
    "json" => |n| consume(n, ORDER, &[], |b| drop(b.include(json))),
    "bytes" => |n| consume(n, ORDER, &[], |b| drop(b.include(bytes))),
    // A subscription of its hands one message after the other to its handler.
    "json_one" => |n| consume(n, ORDER, &[], |b| drop(b.include(json))),
    "bytes_one" => |n| consume(n, ORDER, &[], |b| drop(b.include(bytes))),
    "json_1k" => |n| consume(n, LARGE, &[], |b| drop(b.include(json_1k))),
    "one_layer" => one_layer,
    "four_layers" => four_layers,
    "router" => |n| consume(n, ORDER, &[(KIND, "order.e")], |b| drop(b.include(router))),
    "reply" => reply,
    "round_trip" => round_trip,
    "workers_4" => |n| consume(n, ORDER, &[], |b| drop(b.include(workers_4))),
    "batch_64" => |n| consume(n, ORDER, &[], |b| drop(b.include(batch.batch(nonzero!(64))))),
}

/// Ends the run after the last message.
#[derive(Clone, Default)]
struct Done(Arc<Left>);

#[derive(Default)]
struct Left {
    messages: AtomicU64,
    all: Notify,
}

impl Done {
    fn one(&self) {
        if self.0.messages.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.all.notify_one();
        }
    }
}

#[subscriber("orders")]
async fn json(order: &Order, ctx: &mut Context<'_, (), Done>) -> HandlerOutcome {
    black_box((order.id, order.quantity));
    ctx.state().one();
    HandlerOutcome::ack()
}

#[derive(Deserialized)]
struct Frame<'a>(&'a [u8]);

#[subscriber("orders")]
async fn bytes(frame: &Frame<'_>, ctx: &mut Context<'_, (), Done>) -> HandlerOutcome {
    black_box(frame.0);
    ctx.state().one();
    HandlerOutcome::ack()
}

#[subscriber("orders")]
async fn json_1k(order: &Large, ctx: &mut Context<'_, (), Done>) -> HandlerOutcome {
    black_box(order);
    ctx.state().one();
    HandlerOutcome::ack()
}

/// Eight kinds of messages on one subscription, told apart by a header.
#[derive(InMessages)]
#[in_messages(header = "kind")]
enum Kinds {
    #[in_messages(value = "order.a")]
    A(A),
    #[in_messages(value = "order.b")]
    B(B),
    #[in_messages(value = "order.c")]
    C(C),
    #[in_messages(value = "order.d")]
    D(D),
    #[in_messages(value = "order.e")]
    E(E),
    #[in_messages(value = "order.f")]
    F(F),
    #[in_messages(value = "order.g")]
    G(G),
    #[in_messages(value = "order.h")]
    H(H),
}

macro_rules! kinds {
    ($($kind:ident),*) => {$(
        #[derive(serde::Deserialize, MessageInfo)]
        struct $kind {
            id: u64,
            quantity: u32,
        }
    )*};
}
kinds!(A, B, C, D, E, F, G, H);

#[subscriber("orders")]
async fn router(kinds: &Kinds, ctx: &mut Context<'_, (), Done>) -> HandlerOutcome {
    match kinds {
        Kinds::A(A { id, quantity })
        | Kinds::B(B { id, quantity })
        | Kinds::C(C { id, quantity })
        | Kinds::D(D { id, quantity })
        | Kinds::E(E { id, quantity })
        | Kinds::F(F { id, quantity })
        | Kinds::G(G { id, quantity })
        | Kinds::H(H { id, quantity }) => {
            black_box((*id, *quantity));
        }
    }
    ctx.state().one();
    HandlerOutcome::ack()
}

#[derive(Debug, Serialize, Outgoing)]
#[outgoing(name = "confirmations")]
struct Confirmation {
    id: u64,
}

#[subscriber("orders", reply)]
async fn confirm(order: &Order, ctx: &mut Context<'_, (), Done>) -> Confirmation {
    ctx.state().one();
    Confirmation { id: black_box(order.id) }
}

#[subscriber("orders", workers(4))]
async fn workers_4(order: &Order, ctx: &mut Context<'_, (), Done>) -> HandlerOutcome {
    black_box((order.id, order.quantity));
    ctx.state().one();
    HandlerOutcome::ack()
}

#[subscriber("orders")]
async fn batch(orders: &[Order], ctx: &mut Context<'_, (), Done>) -> HandlerOutcome {
    for order in orders {
        black_box((order.id, order.quantity));
        ctx.state().one();
    }
    HandlerOutcome::ack()
}

/// A layer that does nothing but call on.
#[derive(Clone)]
struct Pass;

struct Passed<H>(H);

impl<H> Layer<H> for Pass {
    type Handler = Passed<H>;

    fn layer(&self, inner: H) -> Passed<H> {
        Passed(inner)
    }
}

impl<M: Send + Sync, C: Send, S: Send + Sync, H: Handler<M, C, S>> Handler<M, C, S> for Passed<H> {
    async fn handle(&self, message: &M, ctx: &mut Context<'_, C, S>) -> HandlerOutcome {
        self.0.handle(message, ctx).await
    }
}

impl BlanketLayer for Pass {
    fn apply<M, C, S, H>(&self, handler: H) -> impl Handler<M, C, S> + 'static
    where
        M: Send + Sync + 'static,
        C: Send + 'static,
        S: Send + Sync + 'static,
        H: Handler<M, C, S> + 'static,
    {
        Passed(handler)
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

type Headers<'a> = &'a [(&'static str, &'a str)];

fn consume(
    messages: u64,
    body: &[u8],
    headers: Headers<'_>,
    mount: impl FnOnce(&mut BrokerScope<MemoryBroker, Identity, (), Done>),
) {
    let (broker, done) = (MemoryBroker::new(), Done::default());
    let state = done.clone();
    let app = RustStream::new(AppInfo::new("bench", "0.0.0"))
        .on_startup(async move |()| Ok::<_, Infallible>(state))
        .with_broker(broker.clone(), mount);
    drain(messages, &broker, &done, body, headers, |runtime| runtime.block_on(app.start()).expect("started"));
}

/// A subscriber of the replies does not read them yet. Without one, the broker would drop them.
fn reply(messages: u64) {
    let (broker, done) = (MemoryBroker::new(), Done::default());
    let state = done.clone();
    let app = RustStream::new(AppInfo::new("bench", "0.0.0"))
        .on_startup(async move |()| Ok::<_, Infallible>(state))
        .with_broker(broker.clone(), |b| drop(b.include(confirm)));
    let answers = MemoryBroker::subscribe(&broker, "confirmations");
    drain(messages, &broker, &done, ORDER, &[], |runtime| runtime.block_on(app.start()).expect("started"));
    drop(answers);
}

fn one_layer(messages: u64) {
    let (broker, done) = (MemoryBroker::new(), Done::default());
    let state = done.clone();
    let app = RustStream::new(AppInfo::new("bench", "0.0.0"))
        .on_startup(async move |()| Ok::<_, Infallible>(state))
        .layer(Pass)
        .with_broker(broker.clone(), |b| drop(b.include(json)));
    drain(messages, &broker, &done, ORDER, &[], |runtime| runtime.block_on(app.start()).expect("started"));
}

fn four_layers(messages: u64) {
    let (broker, done) = (MemoryBroker::new(), Done::default());
    let state = done.clone();
    let app = RustStream::new(AppInfo::new("bench", "0.0.0"))
        .on_startup(async move |()| Ok::<_, Infallible>(state))
        .layer(Pass)
        .layer(Pass)
        .layer(Pass)
        .layer(Pass)
        .with_broker(broker.clone(), |b| drop(b.include(json)));
    drain(messages, &broker, &done, ORDER, &[], |runtime| runtime.block_on(app.start()).expect("started"));
}

/// Starts the application, fills its queue, and counts how it is emptied.
fn drain(
    messages: u64,
    broker: &MemoryBroker,
    done: &Done,
    body: &[u8],
    headers: Headers<'_>,
    start: impl FnOnce(&Runtime) -> RunningApp,
) {
    let runtime = runtime();
    let running = start(&runtime);
    done.0.messages.store(messages, Ordering::Release);
    let publisher = broker.publisher();
    runtime.block_on(async {
        for _ in 0..messages {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(Str::from_static(name), (*value).to_owned());
            }
            publisher.publish(OutgoingMessage::new("orders", body).with_headers(map), None).await.expect("published");
        }
    });
    assert_eq!(done.0.messages.load(Ordering::Acquire), messages, "nothing is handled before it is counted");
    counted(&mut || {
        runtime.block_on(async {
            while done.0.messages.load(Ordering::Acquire) > 0 {
                done.0.all.notified().await;
            }
        });
    });
    drop(running);
}

#[derive(Debug, Serialize, Outgoing)]
struct Answer {
    id: u64,
}

/// Answers where the request asks to be answered.
struct ReplyTo;

impl<C, Options> PublishTransform<ForReply<C>, Options> for ReplyTo {
    type Destination = Names;

    fn apply(&self, out: &mut OutgoingView<'_>, _: &mut Option<Options>, cx: &PublishContext<'_, C>) {
        if let Some(to) = cx.headers().get_shared("reply-to")
            && let Ok(to) = Str::try_from(to)
        {
            out.set_name(to);
        }
    }
}

#[subscriber("orders", reply("confirmations"))]
async fn answer(order: &Order) -> Answer {
    Answer { id: black_box(order.id) }
}

fn round_trip(calls: u64) {
    let (runtime, broker) = (runtime(), MemoryBroker::new());
    let app = RustStream::new(AppInfo::new("bench", "0.0.0"))
        .with_broker(broker.clone(), |b| drop(b.include(answer).out_reply(Publish).transform(ReplyTo)));
    let running = runtime.block_on(app.start()).expect("started");
    let requester = broker.requester();
    counted(&mut || {
        runtime.block_on(async {
            for _ in 0..calls {
                let message = requester.request(OutgoingMessage::new("orders", ORDER), TIMEOUT).await.expect("a reply");
                black_box(message.payload());
            }
        });
    });
    drop(running);
}
