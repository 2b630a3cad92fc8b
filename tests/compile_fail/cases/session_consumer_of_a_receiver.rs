//! A session consumer is given a receiver.

use consign::{Disposition, Message, broker::Broker, consumer::SessionConsumer};

async fn handle(_: Message) -> Disposition {
    Disposition::Complete
}

fn main() {
    let broker = Broker::new();
    let queue = broker.queue("orders").unwrap();
    let _ = SessionConsumer::new(queue.receiver(), handle);
}
