//! A queue sends.
//! Make a sender, `queue.sender()?`, with the trait `consign::transport::Sender` in scope.

use consign::{Message, broker::Broker};

fn main() {
    let broker = Broker::new();
    let queue = broker.queue("orders").unwrap();
    let _ = queue.send(Message::new("x"));
}
