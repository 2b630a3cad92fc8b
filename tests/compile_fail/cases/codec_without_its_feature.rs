use consign::codecs::{Codecs, Json, MessagePack};

fn main() {
    let _ = Codecs::builder().with(Json::default()).with(MessagePack).build();
}
