//! A property that the broker sets is set on `Properties`.

use consign::{Message, message::SequenceNumber};

fn main() {
    let mut message = Message::new("");
    message.properties_mut().set_sequence_number(SequenceNumber::new(1));
}
