//! The `Result` of `build` is passed to a consumer.

use consign::{broker::QueueReceiver, codecs::Codecs, consumer::Consumer, routing::Router};

async fn created() {}

async fn consume(receiver: QueueReceiver) {
    let router = Router::new(Codecs::json()).route("order.created", created).build();
    let _ = Consumer::new(receiver, router).run().await;
}

fn main() {}
