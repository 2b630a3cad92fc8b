//! A property that the broker sets is given to a builder.

use consign::Message;

fn main() {
    let _ = Message::builder().sequence_number(1).build("");
    let _ = Message::builder().delivery_count(0).build("");
}
