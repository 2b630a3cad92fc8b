//! A router has two fallbacks.

use consign::{codecs::Codecs, routing::Router};

async fn other() {}

fn main() {
    let _ = Router::new(Codecs::json()).fallback(other).fallback(other).build();
}
