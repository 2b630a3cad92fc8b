//! Conversions between messages and the headers and payload of [`async_nats`].
//!
//! They are for a program that publishes and consumes by async-nats itself and puts a stack around its loop. The mapping is
//! that of the [senders and receivers](crate#streams-consumers-and-headers) of this crate, and messages of other clients are read as they read
//! them: `Content-Type`, `Content-Encoding`, `Nats-Msg-Id`, `traceparent` and CloudEvents have their meaning, and any other
//! header is an application property.
//!
//! ```
//! use consign::Message;
//! use consign_nats::{async_nats::HeaderMap, convert};
//!
//! # fn run() -> Result<(), tower::BoxError> {
//! let order = Message::builder().message_id("order-7").subject("order.placed").content_type("text/plain").build("42")?;
//! let (headers, payload) = convert::to_nats(&order)?;
//! assert_eq!(headers.get("Content-Type").map(|value| value.as_str()), Some("text/plain"));
//!
//! let read = convert::from_nats(Some(&headers), payload)?;
//! assert_eq!((read.message_id(), read.payload()), (Some("order-7"), Some(&b"42"[..])));
//! # Ok(())
//! # }
//! # run().unwrap();
//! ```

use async_nats::{HeaderMap, header::NATS_MESSAGE_ID, jetstream};
use bytes::Bytes;
use consign_core::{
    Message,
    message::{PropertyValue, Received, SequenceNumber},
    settlement::{DeadLetter, DeadLetterReason, UnreadableMessage},
    transport::{Capability, ErrorKind, SendError, Unsupported},
};

use crate::{
    dead_letter,
    read::{self, Facts, Origin, Read, facts},
    wire::{self, Malformed},
};

mod confirmed;

pub use self::confirmed::confirmed;

/// Returns the headers and the payload of a message.
///
/// `Nats-Msg-Id` is the MessageId, by which a stream detects duplicates within its window. Before you publish a message again that
/// must not be dropped, such as the copy of `count_delivery`, make it empty: `headers.insert("Nats-Msg-Id", "")`. [`from_jetstream`] adds the count of such a
/// copy to that of JetStream.
///
/// # Errors
///
/// [`NotSupported`](ErrorKind::NotSupported) for a message with a time to live or a scheduled time, which NATS does not have;
/// [`Serialization`](ErrorKind::Serialization) for a value of a type that this version does not support, and
/// [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) for headers of more than 64 KiB; those of [`Message::check`].
pub fn to_nats(message: &Message) -> Result<(HeaderMap, Bytes), SendError> {
    message.check()?;
    if message.time_to_live().is_some() {
        return Err(Unsupported::new(Capability::TimeToLive).into());
    }
    if message.scheduled_enqueue_time().is_some() {
        return Err(Unsupported::new(Capability::Scheduling).into());
    }
    let (mut headers, payload) = wire::encode(message)?;
    if let Some(id) = message.message_id() {
        headers.insert(NATS_MESSAGE_ID, &*wire::plain_id(id));
    }
    if wire::size(&headers) > wire::MAX_HEADERS {
        let why = format!("the headers have more than {} bytes", wire::MAX_HEADERS);
        return Err(SendError::new(ErrorKind::MessageSizeExceeded).with_detail(why));
    }
    Ok((headers, payload))
}

/// Returns the message of headers and a payload: those of a message of core NATS, for example.
///
/// # Errors
///
/// An [`UnreadableMessage`] with the reason `MalformedHeader`, if an `Sb-` header has a value that this crate does not write,
/// or `HeaderSizeExceeded`, if the headers exceed the limits of a message. Its message has what the
/// other headers hold, and the unreadable headers as application properties, unchanged.
pub fn from_nats(headers: Option<&HeaderMap>, payload: Bytes) -> Result<Message, UnreadableMessage> {
    let (mut message, mut malformed) = wire::decode_readable(headers, payload);
    if message.properties_mut().fit() {
        malformed.get_or_insert(Malformed::TooLarge);
    }
    readable(message, malformed)
}

/// Returns the message of a delivery of JetStream, with its [`Received`]: the sequence number of the stream, the time when it
/// was stored, and the number of this delivery.
///
/// JetStream counts the deliveries of a copy from its publication on, so the application property of `count_delivery` is added to
/// the number. A loop that returns messages by `nak` needs no copies.
///
/// A message without an id has the name of its stream and its sequence number as MessageId, which is the same at each
/// delivery. The Subject of a message without one is the subject that it was published to.
///
/// # Errors
///
/// As [`from_nats`], and `MissingPayload` for a delivery of a consumer with `headers_only`, which [`dead_letter_of`] refuses too. A
/// message that JetStream has not delivered is converted without a `Received`.
pub fn from_jetstream(delivery: &jetstream::Message) -> Result<Message, UnreadableMessage> {
    let (Ok((facts, _)), Ok(info)) = (facts(&delivery.message), delivery.info()) else {
        return from_nats(delivery.headers.as_ref(), delivery.payload.clone());
    };
    let (origin, headers) = (Origin::Subject(&delivery.subject), delivery.headers.as_ref());
    let Read { message, number, enqueued, malformed, .. } =
        read::read(origin, headers, delivery.payload.clone(), facts.number, facts.stored, info.stream);
    let received = Received::new(SequenceNumber::new(number), enqueued, deliveries(&facts, &message));
    let message = message.with_received(received);
    if lacks_payload(delivery) {
        let reason = DeadLetterReason::Application("MissingPayload".into());
        return Err(UnreadableMessage::new(message, DeadLetter::new(reason, LACKS_PAYLOAD)));
    }
    readable(message, malformed)
}

/// Returns the copy of a message for a dead-letter subject of yours: with the reason and the description of the dead letter as
/// headers, and with its other headers unchanged, without those that begin with `Nats-`. The number of failed deliveries of
/// `count_delivery` is removed, so that a copy that is put back into its stream has all its attempts.
///
/// Publish it, wait for the acknowledgement of the stream, and then terminate the delivery by `AckKind::Term`. A failure in
/// between leaves two messages, never none. The copy has no `Nats-Msg-Id`, because a stream that has the message would drop
/// it.
///
/// The copy has at most 1 MiB, or as much as the original: what exceeds that of the reason's description and of the properties is
/// left out. If your server has a smaller `max_payload`, use [`dead_letter_of`]. A payload that leaves no space for the reason is not
/// shortened: the publication fails then.
///
/// # Errors
///
/// As [`to_nats`]. A message that was read from a server causes none.
pub fn dead_letter(
    headers: Option<&HeaderMap>,
    payload: Bytes,
    letter: DeadLetter,
) -> Result<(HeaderMap, Bytes), SendError> {
    /// The default of a server, which may permit more: it has taken the original.
    const MAX_PAYLOAD: usize = 1 << 20;
    let max_payload = MAX_PAYLOAD.max(headers.map_or(0, wire::size) + payload.len());
    let message = from_nats(headers, payload).unwrap_or_else(UnreadableMessage::into_message);
    copy(message.clone(), headers, letter.clone(), max_payload).or_else(|error| match error.kind() {
        // The server may take more than the original.
        ErrorKind::MessageSizeExceeded => copy(message, headers, letter, usize::MAX),
        _ => Err(error),
    })
}

/// Returns the same copy as [`dead_letter`] for a delivery of JetStream. In addition it keeps the Subject of
/// [`from_jetstream`], the subject that the message was published to, which the dead-letter subject replaces. It has at most as many
/// bytes as the server permits: if the payload leaves little space, it has the reason without the description, and then without the
/// properties of the message, the MessageId last.
///
/// # Errors
///
/// [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) if the payload leaves no space for the reason, about 60 bytes;
/// [`InvalidOperation`](ErrorKind::InvalidOperation) for a delivery without its payload, of a consumer with `headers_only`. Do not
/// terminate the delivery then. Otherwise as [`to_nats`]: a message that was read from a server causes none of these.
pub fn dead_letter_of(delivery: &jetstream::Message, letter: DeadLetter) -> Result<(HeaderMap, Bytes), SendError> {
    if lacks_payload(delivery) {
        return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(LACKS_PAYLOAD));
    }
    let headers = delivery.headers.as_ref();
    let mut message = from_nats(headers, delivery.payload.clone()).unwrap_or_else(UnreadableMessage::into_message);
    if message.subject().is_none() {
        message.properties_mut().set_subject(delivery.subject.to_string());
    }
    copy(message, headers, letter, delivery.context.client().max_payload())
}

fn copy(
    mut message: Message,
    headers: Option<&HeaderMap>,
    mut letter: DeadLetter,
    max_payload: usize,
) -> Result<(HeaderMap, Bytes), SendError> {
    let mut others = HeaderMap::new();
    wire::keep(headers, &mut others, |name| !wire::name::is_own(name) && name != COUNT);
    letter.fit(message.properties());
    message.properties_mut().application_properties_mut().remove(COUNT);
    let (copy, payload) = dead_letter::encode(&message, &letter, &others, max_payload)
        .map_err(|error| SendError::new(error.kind()).with_detail(error.to_string()))?;
    if wire::size(&copy) + payload.len() <= max_payload {
        return Ok((copy, payload));
    }
    dead_letter::encode_short(&message, &letter.reason, &others, max_payload)?.ok_or_else(|| {
        let why = format!("a payload of {} bytes leaves no space for a reason in {max_payload} bytes", payload.len());
        SendError::new(ErrorKind::MessageSizeExceeded).with_detail(why)
    })
}

const LACKS_PAYLOAD: &str = "the message has no payload: its consumer has headers_only";

/// Whether the server has left out the payload: it sends the size instead.
fn lacks_payload(delivery: &jetstream::Message) -> bool {
    let size = delivery.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Size"));
    delivery.payload.is_empty() && size.and_then(|size| size.as_str().parse::<u64>().ok()).is_some_and(|size| size > 0)
}

/// The application property of `count_delivery`.
const COUNT: &str = "x-delivery-count";

/// The number of this delivery, with the failed ones of the originals of a copy.
fn deliveries(facts: &Facts, message: &Message) -> u32 {
    let failed = message.application_properties().get(COUNT).and_then(PropertyValue::to_u64);
    u32::try_from(facts.deliveries.saturating_add(failed.unwrap_or(0))).unwrap_or(u32::MAX)
}

fn readable(message: Message, malformed: Option<Malformed>) -> Result<Message, UnreadableMessage> {
    match malformed {
        Some(malformed) => Err(UnreadableMessage::new(message, malformed.why())),
        None => Ok(message),
    }
}

#[cfg(test)]
mod tests;
