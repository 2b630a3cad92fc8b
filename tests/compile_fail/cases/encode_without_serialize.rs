//! The type of a value to encode does not implement `Serialize`.

use consign::codecs::Codecs;

struct Order {
    id: u64,
}

fn main() {
    let _ = Codecs::json().encode(&Order { id: 1 });
}
