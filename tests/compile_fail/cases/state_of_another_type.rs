//! A handler needs another state than the router has.

use consign::{
    codecs::Codecs,
    routing::{Router, State},
};

#[derive(Clone)]
struct Database;

async fn created(State(database): State<Database>) {
    drop(database);
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).build();
}
