//! A function returns `Routes` without its state and its set of codecs.
//! Make the function generic over the codecs: `fn routes<C: CodecSet>() -> Routes<(), C>`.

use consign::routing::{Body, Routes};

async fn placed(Body(_): Body<u64>) {}

fn routes() -> Routes {
    Routes::new().route("order.placed", placed)
}

fn main() {
    let _ = routes();
}
