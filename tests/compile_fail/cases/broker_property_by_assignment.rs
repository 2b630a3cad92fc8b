//! A property that the broker sets is assigned.
//!
//! Remove the assignment.

use consign::{Message, message::SequenceNumber};

fn main() {
    let mut message = Message::new("");
    message.properties_mut().sequence_number = SequenceNumber::new(1);
    message.received().unwrap().delivery_count = 0;
}
