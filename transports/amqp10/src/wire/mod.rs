//! Messages as they are encoded: those of AMQP 1.0, with annotations of this transport.

mod read;
mod write;

pub(crate) use self::{
    read::{Unreadable, read, unchanged},
    write::{Stamp, write},
};

/// Annotations of this transport.
mod names {
    use consign_amqp::value::Symbol;

    /// The sequence number that the sender gave the message: a long.
    pub(super) const NUMBER: Symbol = Symbol::from_static("x-opt-consign-sequence-number");
    /// When the message was sent: a timestamp.
    pub(super) const ENQUEUED: Symbol = Symbol::from_static("x-opt-consign-enqueued-time");
    /// How many deliveries had failed when the copy was made: a uint.
    pub(super) const FAILED: Symbol = Symbol::from_static("x-opt-consign-delivery-count");
    /// The time to live of a dead letter, which does not expire: a uint, in milliseconds.
    pub(super) const TIME_TO_LIVE: Symbol = Symbol::from_static("x-opt-consign-time-to-live");
    /// Whether the MessageId was made by this transport: a boolean.
    pub(super) const STAMPED: Symbol = Symbol::from_static("x-opt-consign-message-id-stamped");
    /// Whether the body is an encoded message, which the broker would change otherwise: a boolean.
    pub(super) const WRAPPED: Symbol = Symbol::from_static("x-opt-consign-wrapped");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use consign_amqp::message::{EncodedMessage, Sections};
    use consign_core::{
        Message,
        message::{MessageBody, PropertyValue, Value},
        time::Timestamp,
    };

    use super::{read::Facts, *};
    use crate::Product;

    fn stamp() -> Stamp {
        Stamp { number: 7, enqueued: Timestamp::from_millis(5_000), failed: 2, due: None, never_expires: false }
    }

    #[test]
    fn a_dead_letter_keeps_its_time_to_live_in_an_annotation() {
        let ttl = std::time::Duration::from_mins(1);
        let message = Message::builder().time_to_live(ttl).property("uri", PropertyValue::Uri("urn:a".into()));
        let message = message.build("").unwrap();
        for product in [Product::Generic, Product::RabbitMq3] {
            let written = write(&message, &Stamp { never_expires: true, ..stamp() }, product).unwrap();
            let sections = EncodedMessage::split(written.clone()).and_then(|split| Sections::decode(&split)).unwrap();
            assert_eq!(sections.header.and_then(|header| header.ttl), None, "{product:?}");
            assert_eq!(read(written).0.time_to_live(), Some(ttl), "{product:?}");
        }
    }

    fn there_and_back(message: &Message, product: Product) -> (Message, Facts) {
        let (read, facts, unreadable) = read(write(message, &stamp(), product).unwrap());
        assert!(unreadable.is_none(), "{unreadable:?}");
        (read, facts)
    }

    #[test]
    fn a_message_that_a_broker_would_change_is_wrapped() {
        let mut message = Message::builder().subject("s").message_id("m").property("n", 7_i64).build("").unwrap();
        message.properties_mut().stamp_message_id("made").unwrap();
        message.properties_mut().application_properties_mut().insert("uri", PropertyValue::Uri("urn:a".into()));
        message.properties_mut().pass_through_mut().user_id = Some(Bytes::from_static(b"user"));
        let sections = MessageBody::sections(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
        let bodies = [sections, MessageBody::Sequence([vec![Value::from(1_i32)]].into()), MessageBody::empty()];
        for body in bodies {
            let message = message.clone().with_body(body);
            for product in [Product::Generic, Product::RabbitMq3] {
                let (back, facts) = there_and_back(&message, product);
                assert_eq!(back.properties(), message.properties(), "{product:?}");
                assert_eq!(back.body(), message.body(), "{product:?}");
                assert_eq!((facts.number, facts.failed, facts.is_stamped), (7, 2, true));
                assert_eq!(facts.enqueued, Some(Timestamp::from_millis(5_000)));
            }
        }
    }

    /// Rules: K-283.
    #[test]
    fn what_is_beside_a_message_is_read_without_the_message() {
        use consign_amqp::{codec, message::Header};

        let encoded = write(&Message::new("a"), &stamp(), Product::Generic).unwrap();
        let split = consign_amqp::message::EncodedMessage::split(encoded).unwrap();
        let header = codec::encode(&Header { delivery_count: 3, ..Header::default() }).unwrap();
        let annotations = split.encoded(consign_amqp::message::Section::MessageAnnotations);
        // Application properties that are a list.
        let encoded = [&header[..], &annotations, b"\x00\x53\x74\x45"].concat();
        let (_, facts, unreadable) = read(encoded.into());
        assert!(unreadable.is_some());
        assert_eq!((facts.number, facts.failed, facts.failed_at_broker), (7, 2, 3));
    }

    /// Rules: K-283.
    #[test]
    fn what_a_broker_changes_is_not_of_the_message() {
        use consign_amqp::{
            codec,
            message::{Annotations, DeliveryAnnotations, Header, MessageAnnotations},
        };

        let delivered = |count: u32, rest: &[u8]| {
            let mut annotations = Annotations::default();
            annotations.push(consign_amqp::value::Symbol::from_static("x-opt-count"), count);
            let header = codec::encode(&Header { delivery_count: count, ..Header::default() }).unwrap();
            let of_hop = codec::encode(&DeliveryAnnotations(annotations.clone())).unwrap();
            let of_message = codec::encode(&MessageAnnotations(annotations)).unwrap();
            Bytes::from([&header[..], &of_hop, &of_message, rest].concat())
        };
        // An unknown section, application properties that are a list, and a body.
        for rest in [&b"\x00\x53\x7f\x40"[..], b"\x00\x53\x74\x45", b"\x00\x53\x75\xa0\x01a"] {
            for count in [1, 2] {
                assert_eq!(unchanged(&delivered(count, rest)), rest);
            }
            assert_eq!(unchanged(&Bytes::from_static(rest)), rest);
        }
    }

    #[test]
    fn what_is_not_a_message_is_delivered_as_bytes() {
        for bytes in [&b"\x00\x53"[..], b"no message"] {
            let (message, _, unreadable) = read(Bytes::copy_from_slice(bytes));
            assert!(unreadable.is_some());
            assert_eq!(message.payload(), Some(bytes));
        }
    }
}
