use consign::{Message, message::SequenceNumber};

fn main() {
    let mut message = Message::new("");
    message.properties_mut().sequence_number = SequenceNumber::new(1);
    message.properties_mut().set_sequence_number(SequenceNumber::new(1));
    message.received().unwrap().delivery_count = 0;
}
