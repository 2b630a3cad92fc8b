//! This library: a queue of the broker in memory, a consumer with its default of 16 handlers at once, a router and the
//! codecs. Each message is locked, decoded by the codec that its ContentType or the default names, and completed; one that
//! is not comes again, or becomes a dead letter.

use std::any::Any;

use consign::{
    Disposition,
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueSender},
    codecs::{And, Codecs, Json, NoCodec},
    consumer::{ConsumeError, Consumer, Stats},
    middleware::encode::{EncodeLayer, OutboundMessage},
    routing::{Body, Router},
    transport::{SendExt, SendService, Sender as _},
};
use tokio::task::JoinHandle;
use tower::{BoxError, Layer, Service};

use super::{Peer, Sender};
use crate::arrivals::{self, Order};

const SUBJECT: &str = "order.created";

#[derive(Clone, Copy)]
pub struct ConsignSetup {
    /// Handlers at once; `None` is the default.
    pub concurrency: Option<usize>,
    /// Whether a handler has another task do its work, and awaits it.
    pub spawns: bool,
    /// Whether messages have an id, a subject that is routed by, and a ContentType.
    pub is_labelled: bool,
}

#[derive(Clone, Copy)]
pub struct Consign(pub ConsignSetup);

pub struct ConsignSender {
    sender: QueueSender,
    stack: <EncodeLayer<And<NoCodec, Json>> as Layer<SendService<QueueSender>>>::Service,
    is_labelled: bool,
}

impl Consign {
    pub const PLAIN: Self = Self(ConsignSetup { concurrency: None, spawns: false, is_labelled: false });
    pub const LABELLED: Self = Self(ConsignSetup { is_labelled: true, ..Self::PLAIN.0 });
}

async fn inline(Body(order): Body<Order>) {
    arrivals::handle(&order);
}

async fn spawned(Body(order): Body<Order>) {
    tokio::spawn(async move { arrivals::handle(&order) }).await.expect("no panic");
}

fn consume<S>(queue: &Queue, service: S, concurrency: Option<usize>) -> JoinHandle<Result<Stats, ConsumeError>>
where
    S: Service<Message, Response = Disposition, Future: Send> + Send + 'static,
    S::Error: Into<BoxError>,
{
    let consumer = Consumer::without_clone(queue.receiver(), service);
    tokio::spawn(match concurrency {
        Some(concurrency) => consumer.concurrency(concurrency).run(),
        None => consumer.run(),
    })
}

impl Peer for Consign {
    type Sender = ConsignSender;

    async fn start(&self, _: usize) -> (ConsignSender, Box<dyn Any>) {
        let Self(ConsignSetup { concurrency, spawns, is_labelled }) = *self;
        let settings = QueueSettings::default().max_size(u64::MAX);
        let queue = Broker::new().create_queue("orders", settings).expect("a new queue");
        let router = Router::new(Codecs::json());
        let running = match (spawns, is_labelled) {
            (true, _) => consume(&queue, router.fallback(spawned).build().expect("one handler"), concurrency),
            (_, true) => consume(&queue, router.route(SUBJECT, inline).build().expect("one route"), concurrency),
            _ => consume(&queue, router.fallback(inline).build().expect("one handler"), concurrency),
        };
        let sender = queue.sender().expect("a queue takes messages");
        let stack = EncodeLayer::new(Codecs::json()).layer(SendService::new(sender.clone()));
        (ConsignSender { sender, stack, is_labelled }, Box::new(running))
    }
}

impl Sender for ConsignSender {
    async fn send(&mut self, body: &[u8]) {
        let body = body.to_vec();
        let message = if self.is_labelled {
            let labelled = Message::builder().message_id("m-1000000").subject(SUBJECT).content_type("application/json");
            labelled.build(body).expect("a valid message")
        } else {
            Message::new(body)
        };
        self.sender.send(message).await.expect("a queue that is not full");
    }

    async fn send_value(&mut self, order: &Order) {
        self.stack.send(OutboundMessage::new(order)).await.expect("a queue that is not full");
    }
}
