//! omniqueue over its backend in memory: an unbounded channel of tokio. Each delivery is acknowledged, and holds a second
//! copy of its body, for a negative acknowledgement sends it again. No locks that expire, no count of deliveries, no dead
//! letters.

use std::any::Any;

use omniqueue::backends::{InMemoryBackend, InMemoryProducer};

use super::{Peer, Sender};
use crate::arrivals::{self, Order};

pub struct Omniqueue;

pub struct OmniqueueSender(InMemoryProducer);

impl Peer for Omniqueue {
    type Sender = OmniqueueSender;

    async fn start(&self, _: usize) -> (OmniqueueSender, Box<dyn Any>) {
        let (producer, mut consumer) = InMemoryBackend::builder().build_pair().await.expect("a queue");
        let consumer = tokio::spawn(async move {
            while let Ok(delivery) = consumer.receive().await {
                let order: Order = delivery.payload_serde_json().expect("valid JSON").expect("a payload");
                arrivals::handle(&order);
                delivery.ack().await.expect("a first acknowledgement");
            }
        });
        (OmniqueueSender(producer), Box::new(consumer))
    }
}

impl Sender for OmniqueueSender {
    async fn send(&mut self, body: &[u8]) {
        self.0.send_raw(body).await.expect("a receiver");
    }

    async fn send_value(&mut self, order: &Order) {
        self.0.send_serde_json(order).await.expect("a receiver");
    }
}
