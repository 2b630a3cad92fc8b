//! A handler is an `async` closure that captures a value.
//! Take the value as `State`, or clone it before the `async` block, as the notes show.

use consign::{
    codecs::Codecs,
    routing::{Body, Router},
};

fn main() {
    let name = String::from("orders");
    let handler = async move |Body(id): Body<u64>| println!("{name} {id}");
    let _ = Router::new(Codecs::json()).route("order.created", handler).build();
}
