//! A handler is not `async`.

use consign::{
    codecs::Codecs,
    routing::{Body, Router},
};

fn created(Body(id): Body<u64>) {
    let _ = id;
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).build();
}
