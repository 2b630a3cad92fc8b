//! The messages in the table: encoded messages of AMQP 1.0, which other languages can write and read.

use bytes::Bytes;
use consign_amqp::{
    codec,
    mapping::{self, Direction, InboundMessage},
    message::EncodedMessage,
};
use consign_core::Message;

use crate::OutboxError;

pub(crate) fn encode(message: &Message) -> Result<Bytes, OutboxError> {
    message.check()?;
    let sections = mapping::to_sections(message, Direction::Send).map_err(OutboxError::invalid)?;
    codec::encode(&sections).map_err(OutboxError::invalid)
}

/// Returns the message of a row, or why it is none.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<Message, String> {
    // They have no sections, and a message has a body.
    if bytes.is_empty() {
        return Err("it has no bytes".into());
    }
    let encoded = EncodedMessage::split(Bytes::from(bytes)).map_err(|error| error.to_string())?;
    let inbound = InboundMessage::decode(&encoded, Direction::Send).map_err(|error| error.to_string())?;
    Ok(inbound.message)
}

#[cfg(test)]
mod tests {
    use consign_conformance::golden::{random, samples};

    use super::*;

    /// Rules: X-40.
    #[test]
    fn a_random_message_is_read_as_it_was_stored() {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
        println!("replay: SEED={seed} cargo test --package consign-outbox-postgres --lib a_random_message_is_read");
        let mut source = fastrand::Rng::with_seed(seed);
        let (mut stored, cases) = (0, 1_000);
        for _ in 0..cases {
            let mut message = random::message(&mut source);
            message.properties_mut().set_time_to_live(random::time_to_live(&mut source)).unwrap();
            // A text that AMQP 1.0 has in ASCII only is refused when it is added.
            let Ok(bytes) = encode(&message) else { continue };
            let read = decode(bytes.to_vec()).unwrap();
            assert_eq!(encode(&read).unwrap(), bytes, "{message:?}");
            assert!(read.body() == message.body(), "{read:?} instead of {message:?}");
            let (one, other) = (read.properties(), message.properties());
            assert_eq!(one.application_properties(), other.application_properties());
            assert_eq!((one.message_id(), one.session_id()), (other.message_id(), other.session_id()));
            assert_eq!((one.subject(), one.reply_to(), one.to()), (other.subject(), other.reply_to(), other.to()));
            assert_eq!(one.time_to_live(), other.time_to_live());
            stored += 1;
        }
        assert!(stored > cases / 3, "{stored}");
    }

    /// Rules: X-40.
    #[test]
    fn other_bytes_are_not_a_message() {
        for bytes in [&[][..], b"text", &[0, 0x53, 0x75, 0xa0, 9, 1], &[0xff; 40]] {
            assert!(decode(bytes.to_vec()).is_err(), "{bytes:?}");
        }
        for message in samples::timed() {
            assert!(encode(&message).is_ok());
        }
    }
}
