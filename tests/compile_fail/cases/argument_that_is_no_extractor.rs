//! A handler takes a type that is not an extractor.

use consign::{
    codecs::Codecs,
    routing::{Body, Router},
};

struct Database;

async fn created(database: Database, Body(id): Body<u64>) {
    drop((database, id));
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).build();
}
