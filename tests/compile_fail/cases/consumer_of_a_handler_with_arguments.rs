//! A handler with extractors is passed to a consumer without a router.

use consign::{broker::QueueReceiver, consumer::Consumer, routing::Body};

async fn created(Body(id): Body<u64>) {
    drop(id);
}

async fn consume(receiver: QueueReceiver) {
    let _ = Consumer::new(receiver, created).run().await;
}

fn main() {}
