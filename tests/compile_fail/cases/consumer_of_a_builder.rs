//! A router is passed to a consumer without `build`.

use consign::{broker::QueueReceiver, codecs::Codecs, consumer::Consumer, routing::Router};

async fn created() {}

async fn consume(receiver: QueueReceiver) {
    let router = Router::new(Codecs::json()).route("order.created", created);
    let _ = Consumer::new(receiver, router).run().await;
}

fn main() {}
