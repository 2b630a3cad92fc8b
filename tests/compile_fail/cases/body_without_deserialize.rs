//! The type of a body does not implement `Deserialize`.

use consign::{
    codecs::Codecs,
    routing::{Body, Router},
};

struct Order {
    id: u64,
}

async fn created(Body(order): Body<Order>) {
    drop(order);
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).build();
}
