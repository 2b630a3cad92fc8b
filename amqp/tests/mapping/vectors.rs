//! The messages that Proton and rhea wrote.

use std::fs;

use consign_amqp::{
    codec,
    mapping::{Direction, InboundMessage, MappingErrorKind},
    message::{EncodedMessage, Sections},
    value::Symbol,
};

use crate::{sorted, write};

fn messages(file: &str) -> Vec<(String, EncodedMessage)> {
    let path = [env!("CARGO_MANIFEST_DIR"), "tests", "vectors", file].iter().collect::<std::path::PathBuf>();
    let hex = |digits: &str| -> bytes::Bytes {
        digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    };
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(' ')).filter(|(id, _)| id.starts_with("message-"));
    lines.map(|(id, digits)| (id.to_owned(), EncodedMessage::split(hex(digits)).unwrap())).collect()
}

/// Rules.
#[test]
fn messages_of_proton_and_rhea_have_the_same_sections_behind_a_message() {
    for (file, count) in [("proton.txt", 3), ("rhea.txt", 4)] {
        let messages = messages(file);
        assert_eq!(messages.len(), count, "{file}");
        for (id, encoded) in messages {
            let mut sections = Sections::decode(&encoded).unwrap();
            // The partition key that both wrote is not the session, which a message does not allow.
            let annotations = &mut sections.message_annotations.as_mut().unwrap().0;
            annotations.0.retain(|(name, _)| *name != "x-opt-partition-key");
            annotations.push(Symbol::from_static("x-opt-partition-key"), "session");
            let inbound = InboundMessage::from_sections(sections.clone(), Direction::Deliver).unwrap();
            let message = &inbound.message;
            assert_eq!(message.received().unwrap().sequence_number.get(), 42, "{file}: {id}");
            assert_eq!(message.received().unwrap().delivery_count, 4, "{file}: {id}");
            assert_eq!((message.subject(), message.session_id()), (Some("order"), Some("session")), "{file}: {id}");
            let mut again = write(message, Direction::Deliver);
            again.delivery_annotations = Some(consign_amqp::message::DeliveryAnnotations(inbound.delivery_annotations));
            // Neither wrote when the message was enqueued.
            if let Some(annotations) = &mut again.message_annotations {
                annotations.0.0.retain(|(name, _)| *name != "x-opt-enqueued-time");
            }
            let encoded = codec::encode(&again).unwrap();
            let again = Sections::decode(&EncodedMessage::split(encoded).unwrap()).unwrap();
            assert_eq!(sorted(again), sorted(sections), "{file}: {id}");
        }
    }
}

/// Rules: V-06.
#[test]
fn a_session_and_another_partition_key_are_refused() {
    for (id, encoded) in messages("proton.txt").into_iter().chain(messages("rhea.txt")) {
        let error = InboundMessage::decode(&encoded, Direction::Send).unwrap_err();
        let expected = (MappingErrorKind::InvalidArgument, Some("x-opt-partition-key"));
        assert_eq!((error.kind(), error.key()), expected, "{id}");
    }
}
