//! A bounded channel of tokio and `serde_json`: the floor. It has no settlement, no second delivery, no dead letters, no
//! properties: a message that is received is gone.

use std::any::Any;

use tokio::sync::mpsc;

use super::{Peer, Sender};
use crate::arrivals::{self, Order};

pub struct Mpsc;

pub struct MpscSender(mpsc::Sender<Vec<u8>>);

impl Peer for Mpsc {
    type Sender = MpscSender;

    async fn start(&self, capacity: usize) -> (MpscSender, Box<dyn Any>) {
        let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(capacity);
        let consumer = tokio::spawn(async move {
            while let Some(body) = receiver.recv().await {
                arrivals::handle(&serde_json::from_slice(&body).expect("valid JSON"));
            }
        });
        (MpscSender(sender), Box::new(consumer))
    }
}

impl Sender for MpscSender {
    async fn send(&mut self, body: &[u8]) {
        self.0.send(body.to_vec()).await.expect("a receiver");
    }

    async fn send_value(&mut self, order: &Order) {
        let body = serde_json::to_vec(order).expect("a value that can be encoded");
        self.0.send(body).await.expect("a receiver");
    }
}
