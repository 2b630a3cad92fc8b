//! A handler takes a body that borrows from the message.
//!
//! Own the data (`sku: String`), or take `Payload<C>` and decode from it.

use consign::{
    codecs::Codecs,
    routing::{Body, Router},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct OrderRef<'a> {
    sku: &'a str,
}

async fn created(Body(order): Body<OrderRef<'_>>) {
    drop(order);
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).build();
}
