//! The handlers of a module need a part of the state, without `FromRef`.

use consign::{
    codecs::{CodecSet, Codecs},
    routing::{Router, Routes, State},
};

#[derive(Clone)]
struct App;

#[derive(Clone)]
struct Database;

async fn created(State(database): State<Database>) {
    drop(database);
}

fn orders<C: CodecSet>() -> Routes<App, C> {
    Routes::new().route("order.created", created)
}

fn main() {
    let _ = Router::with_state(Codecs::json(), App).merge(orders()).build();
}
