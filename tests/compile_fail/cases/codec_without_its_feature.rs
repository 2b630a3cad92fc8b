//! A codec is used without its feature.
//!
//! Enable the feature in `Cargo.toml`. The lines after the first one name it.

use consign::codecs::{Codecs, Json, MessagePack};

fn main() {
    let _ = Codecs::builder().with(Json::default()).with(MessagePack).build();
}
