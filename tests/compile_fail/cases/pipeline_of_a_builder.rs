//! A pipeline has a router without `build`.

use consign::{codecs::Codecs, pipeline::Pipeline, routing::Router};

async fn created() {}

fn main() {
    let router = Router::new(Codecs::json()).route("order.created", created);
    let _ = Pipeline::receiving("orders").router(router);
}
