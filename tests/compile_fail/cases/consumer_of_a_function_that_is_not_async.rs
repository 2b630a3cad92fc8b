//! The function that is passed to a consumer is not `async`.

use consign::{Disposition, Message, broker::QueueReceiver, consumer::Consumer};

fn handle(_: Message) -> Disposition {
    Disposition::Complete
}

async fn consume(receiver: QueueReceiver) {
    let _ = Consumer::new(receiver, handle).run().await;
}

fn main() {}
