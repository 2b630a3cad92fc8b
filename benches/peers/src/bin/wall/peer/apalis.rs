//! apalis over its storage in memory, which is a channel and passes values on as they are: no serialization. Its tasks
//! here are bodies, which the handler decodes as that of every other peer. Each task gets an id. No acknowledgement and no
//! second delivery.
//!
//! The worker has no layers: with `concurrency` or `parallelize` it does more. A storage that sends and receives by one
//! sink cannot be shared by two threads (its `start_send` panics when the worker is just looking at the sink), so that the
//! producer has a sink of its own into the same channel.

use std::{any::Any, sync::Arc};

use apalis::prelude::{MemorySink, MemoryStorage, MemoryStorageError, Task, TaskBuilder, WorkerBuilder};
use futures_channel::mpsc;
use futures_util::{SinkExt, StreamExt, lock::Mutex};

use super::{Peer, Sender};
use crate::arrivals::{self, Order};

pub struct Apalis;

pub struct ApalisSender(MemorySink<Vec<u8>>);

async fn consume(body: Vec<u8>) {
    arrivals::handle(&serde_json::from_slice(&body).expect("valid JSON"));
}

impl Peer for Apalis {
    type Sender = ApalisSender;

    async fn start(&self, _: usize) -> (ApalisSender, Box<dyn Any>) {
        let (sender, receiver) = mpsc::unbounded::<Task<Vec<u8>>>();
        let sink = || {
            let sender = sender.clone().sink_map_err(MemoryStorageError::from);
            MemorySink::new(Arc::new(Mutex::new(Box::new(sender))))
        };
        let storage = MemoryStorage::new_with(sink(), receiver.boxed());
        let worker = WorkerBuilder::new("orders").backend(storage).build(consume);
        (ApalisSender(sink()), Box::new(tokio::spawn(worker.run())))
    }
}

impl Sender for ApalisSender {
    async fn send(&mut self, body: &[u8]) {
        self.0.send(TaskBuilder::new(body.to_vec()).build()).await.expect("a receiver");
    }

    async fn send_value(&mut self, order: &Order) {
        let body = serde_json::to_vec(order).expect("a value that can be encoded");
        self.0.send(TaskBuilder::new(body).build()).await.expect("a receiver");
    }
}
