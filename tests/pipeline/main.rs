//! Pipelines that describe themselves, and wrong ones, through the public API.
#![cfg(feature = "full")]
// Clippy lets them pass in test functions, not in what those call.
#![allow(clippy::unwrap_used)]

mod asyncapi;
mod asyncapi_replies;
mod asyncapi_types;
mod described;
mod json_schema;
mod layers;
mod payload;
mod places;
mod wrong;

use consign::{
    codecs::{CodecSet, Codecs, Json, MessagePack},
    message_types::MessageTypes,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, MessageTypes)]
enum Event {
    #[message("order.created", alias = "OrderCreated", version = 2, from(1 = u8))]
    Created(Order),
    #[message("order.shipped", codec = "msgpack")]
    Shipped(u64),
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
}

impl From<u8> for Order {
    fn from(id: u8) -> Self {
        Self { id: id.into() }
    }
}

fn codecs() -> Codecs<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack"]).build().unwrap()
}
