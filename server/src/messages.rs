//! Messages between the wire and the broker.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use consign_amqp::{
    codec::{self, EncodeError},
    mapping::{self, Direction, InboundMessage, annotation},
    message::{
        Annotations, BATCH_FORMAT, Batch, BatchError, Body, Data, DeliveryAnnotations, EncodedMessage, Sections,
    },
    value::{Symbol, Timestamp, Uuid},
};
use consign_core::{Message, message::LockToken, time::Timestamp as Instant};

use crate::errors::Failure;

/// The most messages of a batch: more than fit into 256 KiB, the default size of a message.
const MAX_BATCH: usize = 32_768;

/// A message below this size is copied when it is received: its parts are slices, and would keep a whole read of the connection, or a
/// whole batch, in memory. On delivery a body below this size is copied, as a piece of its own costs more.
const SMALL: usize = 4_096;

/// What a client has sent in one transfer.
#[derive(Debug)]
pub(crate) enum Sent {
    One(Message),
    Batch(Vec<Message>),
}

/// Decodes a transfer.
pub(crate) fn decode(format: u32, payload: Bytes) -> Result<Sent, Failure> {
    if format != BATCH_FORMAT {
        return decode_one(payload).map(Sent::One);
    }
    let batch = Batch::split(payload, MAX_BATCH).map_err(of_batch)?;
    let messages = batch.envelope().data().map(|data| decode_one(data.map_err(malformed)?.0.0));
    messages.collect::<Result<_, _>>().map(Sent::Batch)
}

/// Decodes one message.
pub(crate) fn decode_one(payload: Bytes) -> Result<Message, Failure> {
    let payload = if payload.len() < SMALL { Bytes::copy_from_slice(&payload) } else { payload };
    let encoded = EncodedMessage::split(payload).map_err(malformed)?;
    Ok(InboundMessage::decode(&encoded, Direction::Send)?.message)
}

#[allow(clippy::needless_pass_by_value, reason = "it maps errors")]
pub(crate) fn malformed(error: codec::DecodeError) -> Failure {
    let mut failure = Failure::argument(error.to_string());
    failure.condition = consign_amqp::types::condition::DECODE_ERROR;
    failure
}

fn of_batch(error: BatchError) -> Failure {
    match error {
        BatchError::Malformed(cause) => malformed(cause),
        other => Failure::argument(other.to_string()),
    }
}

/// Encodes a message that a client receives: the chunks of the payload. A large body is not copied.
///
/// A lock token is of peek-lock. A message of a session has no lock of its own.
pub(crate) fn encode_delivery(
    message: &Message,
    token: Option<LockToken>,
    in_session: bool,
) -> Result<Vec<Bytes>, Failure> {
    let mut sections = mapping::to_sections(message, Direction::Deliver)?;
    show_time_to_live(message, &mut sections);
    // Clients expect the section also if it is empty.
    let annotations = sections.delivery_annotations.get_or_insert_with(|| DeliveryAnnotations(Annotations::default()));
    if let Some(token) = token {
        annotations.0.push(Symbol::from_static(annotation::LOCK_TOKEN), Uuid(*token.as_bytes()));
    }
    if in_session && let Some(annotations) = &mut sections.message_annotations {
        annotations.0.0.retain(|(name, _)| *name != annotation::LOCKED_UNTIL);
    }
    Ok(chunks(sections)?)
}

/// Encodes a message that a client peeks, or fetches by sequence number, in one piece.
pub(crate) fn encode_whole(message: &Message, direction: Direction) -> Result<Bytes, Failure> {
    let mut sections = mapping::to_sections(message, direction)?;
    show_time_to_live(message, &mut sections);
    Ok(sections.to_bytes()?)
}

/// Sets when the message expires in relation to its creation. Clients take the difference as the time to live, as one
/// that is long does not fit into the header.
fn show_time_to_live(message: &Message, sections: &mut Sections) {
    let (Some(ttl), Some(received)) = (message.time_to_live(), message.received()) else { return };
    let Some(properties) = &mut sections.properties else { return };
    if ttl == Duration::MAX {
        return;
    }
    if ttl.as_millis() > u32::MAX.into() {
        properties.creation_time.get_or_insert(Timestamp(received.enqueued_time.as_millis()));
    }
    if let Some(Timestamp(created)) = properties.creation_time {
        let expiry = Instant::from_millis(created).saturating_add(ttl);
        properties.absolute_expiry_time = Some(Timestamp(expiry.as_millis()));
    }
}

fn chunks(mut sections: Sections) -> Result<Vec<Bytes>, EncodeError> {
    let large = match &mut sections.body {
        Body::Data(data) if data.iter().any(|section| section.len() >= SMALL) => std::mem::take(data),
        _ => return Ok(vec![sections.to_bytes()?]),
    };
    let footer = sections.footer.take();
    let mut chunks = Vec::with_capacity(large.len() * 2 + 1);
    let mut head = BytesMut::from(&*sections.to_bytes()?);
    for section in large {
        head.put_slice(&[0x00, 0x53, Data::DESCRIPTOR]);
        if let Ok(length) = u8::try_from(section.len()) {
            head.put_slice(&[0xa0, length]);
        } else {
            head.put_u8(0xb0);
            head.put_u32(u32::try_from(section.len()).map_err(|_| EncodeError::TooLong)?);
        }
        if section.len() < SMALL {
            head.put_slice(&section);
        } else {
            chunks.push(head.split().freeze());
            chunks.push(section.0);
        }
    }
    if let Some(footer) = footer {
        head.put_slice(&codec::encode(&footer)?);
    }
    if !head.is_empty() {
        chunks.push(head.freeze());
    }
    Ok(chunks)
}

/// Returns the delivery tag of a lock token: the bytes of a .NET GUID.
pub(crate) fn tag(token: LockToken) -> Bytes {
    Bytes::copy_from_slice(&Uuid(*token.as_bytes()).to_guid_bytes())
}

#[cfg(test)]
mod tests {
    use consign_amqp::message::Footer;
    use consign_core::message::Value as CoreValue;

    use super::*;

    /// Rules: A-10.
    #[test]
    fn a_tag_is_the_token_in_the_order_of_a_guid() {
        let token = LockToken::from_bytes([
            0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
        ]);
        let tag = tag(token);
        assert_eq!(&tag[..], (0..16).map(|byte| byte * 0x11).collect::<Vec<u8>>());
    }

    #[test]
    fn a_large_body_is_a_chunk_of_its_own_and_the_same_message() {
        let large = Bytes::from(vec![7; 10_000]);
        for bodies in
            [vec![large.clone()], vec![Bytes::from_static(b"small"), large.clone(), Bytes::from(vec![1; 300])]]
        {
            let footer = Annotations(vec![(Symbol::from_static("f"), 1_i32.into())]);
            let sections = Sections {
                body: Body::Data(bodies.into_iter().map(Into::into).collect()),
                footer: Some(Footer(footer)),
                ..Sections::default()
            };
            let pieces = chunks(sections.clone()).unwrap();
            assert!(pieces.iter().any(|piece| piece.as_ptr() == large.as_ptr()));
            assert_eq!(pieces.concat(), codec::encode(&sections).unwrap());
        }
    }

    /// The mapping allows a value in a footer as many levels as the codec, and the footer has levels of its own.
    #[test]
    fn a_message_that_cannot_be_encoded_is_an_error_and_not_empty() {
        let nested = |levels| (0..levels).fold(CoreValue::List(Vec::new()), |value, _| CoreValue::List(vec![value]));
        let with_footer = |levels| {
            let mut message = Message::new(vec![7; 10_000]);
            message.properties_mut().pass_through_mut().footer.push(("f".into(), nested(levels)));
            message
        };
        let mut too_deep = 0;
        for levels in 50..70 {
            let message = with_footer(levels);
            match encode_delivery(&message, None, false) {
                Ok(chunks) => {
                    let mut whole = mapping::to_sections(&message, Direction::Deliver).unwrap();
                    whole.delivery_annotations = Some(DeliveryAnnotations(Annotations::default()));
                    assert!(codec::encode(&whole).unwrap() == chunks.concat(), "{levels} levels");
                }
                Err(refused) => {
                    if mapping::to_sections(&message, Direction::Deliver).is_ok() {
                        assert_eq!(refused.description, EncodeError::TooDeep.to_string());
                        too_deep += 1;
                    }
                    assert!(encode_whole(&message, Direction::Peek).is_err());
                }
            }
        }
        assert!((1..10).contains(&too_deep), "{too_deep} pass the mapping only");
        assert!(encode_whole(&Message::new(nested(70)), Direction::Peek).is_err());
    }

    /// Also of a batch.
    #[test]
    fn a_small_message_does_not_keep_the_memory_of_the_read() {
        let encoded = encode_whole(&Message::new(vec![1; 100]), Direction::Send).unwrap();
        let batch = Bytes::from(
            [
                codec::encode(&Data(encoded.clone().into())).unwrap(),
                codec::encode(&Data(encoded.clone().into())).unwrap(),
            ]
            .concat(),
        );
        let is_in = |message: &Message, source: &Bytes| {
            let start = source.as_ptr() as usize;
            (start..start + source.len()).contains(&(message.payload().unwrap().as_ptr() as usize))
        };
        assert!(!is_in(&decode_one(encoded.clone()).unwrap(), &encoded));
        let Sent::Batch(messages) = decode(BATCH_FORMAT, batch.clone()).unwrap() else { panic!() };
        assert_eq!(messages.len(), 2);
        assert!(messages.iter().all(|message| message.payload() == Some(&[1; 100][..]) && !is_in(message, &batch)));
        let large = encode_whole(&Message::new(vec![1; 10_000]), Direction::Send).unwrap();
        assert!(is_in(&decode_one(large.clone()).unwrap(), &large));
    }
}
