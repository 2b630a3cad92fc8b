//! The function that is passed to a consumer does not return a `Disposition`.

use consign::{Message, broker::QueueReceiver, consumer::Consumer};

async fn handle(_: Message) -> bool {
    true
}

async fn consume(receiver: QueueReceiver) {
    let _ = Consumer::new(receiver, handle).run().await;
}

fn main() {}
