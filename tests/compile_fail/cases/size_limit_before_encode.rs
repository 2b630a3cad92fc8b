//! `SizeLimitLayer` comes before `EncodeLayer`.

use consign::{
    codecs::Codecs,
    middleware::{
        encode::{EncodeLayer, OutboundMessage},
        size_limit::SizeLimitLayer,
    },
    transport::{SendExt, SendService, Sender},
};
use tower::ServiceBuilder;

async fn send(sender: impl Sender) {
    let mut stack = ServiceBuilder::new()
        .layer(SizeLimitLayer::default())
        .layer(EncodeLayer::new(Codecs::json()))
        .service(SendService::new(sender));
    let _ = stack.send(OutboundMessage::new(1)).await;
}

fn main() {}
