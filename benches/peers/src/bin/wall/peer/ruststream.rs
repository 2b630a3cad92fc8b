//! `RustStream` over its broker in memory: unbounded channels, one for each subscription. The handler gets what the codec
//! made of the payload, and what it returns acknowledges. Deliveries are handled one after the other, in one task, which is
//! its default and here the fastest; `workers` and `threads` hand each delivery to another task or thread. No locks that
//! expire and no bound of the queue.

use std::any::Any;

use ruststream::{OutgoingMessage, memory::MemoryPublisher, memory::prelude::*};

use super::{Peer, Sender};
use crate::arrivals::{self, Order};

pub struct RustStreamPeer;

pub struct RustStreamSender(MemoryPublisher);

#[subscriber("orders")]
async fn consume(order: &Order) -> HandlerOutcome {
    arrivals::handle(order);
    HandlerOutcome::ack()
}

impl Peer for RustStreamPeer {
    type Sender = RustStreamSender;

    async fn start(&self, _: usize) -> (RustStreamSender, Box<dyn Any>) {
        let broker = MemoryBroker::new();
        let app = RustStream::new(AppInfo::new("bench", "0.0.0")).with_broker(broker.clone(), |scope| {
            scope.include(consume);
        });
        let running = app.start().await.expect("the service starts");
        (RustStreamSender(broker.publisher()), Box::new(running))
    }
}

impl Sender for RustStreamSender {
    async fn send(&mut self, body: &[u8]) {
        self.0.publish(OutgoingMessage::new("orders", body), None).await.expect("a broker that runs");
    }

    async fn send_value(&mut self, order: &Order) {
        self.0.message(order).to("orders").publish().await.expect("a broker that runs");
    }
}
