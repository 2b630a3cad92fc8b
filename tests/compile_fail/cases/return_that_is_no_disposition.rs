//! A handler returns a type that does not settle the message.

use consign::{
    codecs::Codecs,
    routing::{Body, Router},
};

async fn created(Body(id): Body<u64>) -> u64 {
    id
}

async fn cancelled(Body(id): Body<u64>) -> Result<(), std::num::ParseIntError> {
    let _ = id;
    Ok(())
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).route("order.cancelled", cancelled).build();
}
