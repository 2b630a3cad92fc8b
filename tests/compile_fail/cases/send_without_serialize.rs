//! The type of a value to send does not implement `Serialize`.

use consign::{
    administration::QueueSettings,
    broker::Broker,
    codecs::Codecs,
    middleware::encode::{EncodeLayer, OutboundMessage},
    transport::SendService,
};
use tower::{Service, ServiceBuilder};

struct Order {
    id: u64,
}

fn main() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let sender = SendService::new(queue.sender().unwrap());
    let mut stack = ServiceBuilder::new().layer(EncodeLayer::new(Codecs::json())).service(sender);
    let _ = stack.call(OutboundMessage::new(Order { id: 1 }));
}
