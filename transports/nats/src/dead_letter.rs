//! Dead letters as messages of a stream.

use async_nats::HeaderMap;
use bytes::Bytes;
use consign_core::{
    Message,
    message::Properties,
    settlement::{DeadLetter, DeadLetterReason},
    transport::{SendError, SettleError},
};

use crate::{error::Fault, wire};

/// Bytes that are reserved of the largest message of a server: for the reason of a dead letter.
pub(crate) const ROOM_FOR_REASON: usize = 16 << 10;

/// Returns the message with the properties of a dead letter. If these exceed the limits, the reason is `HeaderSizeExceeded`
/// instead, without the changes. A reason alone stays: the largest properties of the message are removed for it.
fn marked(message: &Message, dead_letter: &DeadLetter) -> Message {
    let written = |dead_letter: DeadLetter| {
        let mut message = message.clone();
        dead_letter.write_to(message.properties_mut().application_properties_mut());
        message
    };
    let is_reason_alone = dead_letter.changes.is_empty() && dead_letter.description.is_empty();
    let mut marked = written(dead_letter.clone());
    if !is_reason_alone && marked.check().is_err() {
        marked = written(DeadLetter::header_size_exceeded());
    }
    marked.properties_mut().fit();
    marked
}

/// Encodes a dead letter with its original headers. If a stream does not take that many, the message loses those that exceed
/// its limits, then its largest properties, and then the dead letter itself is replaced: it must not be redelivered without end.
pub(crate) fn encode(
    message: &Message,
    dead_letter: &DeadLetter,
    came: &HeaderMap,
    max_payload: usize,
) -> Result<(HeaderMap, Bytes), SettleError> {
    const SMALLER: [usize; 4] = [40 << 10, 24 << 10, 8 << 10, 0];
    let fits = |headers: &HeaderMap, payload: &Bytes| {
        let size = wire::size(headers) + wire::ROOM_FOR_OWN;
        size <= wire::MAX_HEADERS && size + payload.len() <= max_payload
    };
    let encoded = |message: &Message, dead_letter: &DeadLetter| {
        wire::encode_copy(&marked(message, dead_letter), came)
            .map_err(|error| SettleError::from(Fault::new(error.kind(), error.to_string())))
    };
    let (headers, payload) = encoded(message, dead_letter)?;
    let mut all = headers.clone();
    wire::add_unread(came, message, &mut all);
    if fits(&all, &payload) {
        return Ok((all, payload));
    }
    if fits(&headers, &payload) {
        return Ok((headers, payload));
    }
    for dead_letter in [dead_letter, &DeadLetter::header_size_exceeded()] {
        for bytes in SMALLER {
            let mut smaller = message.clone();
            smaller.properties_mut().fit_within(bytes);
            let (headers, payload) = encoded(&smaller, dead_letter)?;
            if fits(&headers, &payload) {
                return Ok((headers, payload));
            }
        }
    }
    Ok((headers, payload))
}

/// Encodes a dead letter whose payload leaves little space: with each value once, and with the reason alone. Without space for the
/// other properties they are left out, the MessageId last. `None` if the reason does not fit either.
pub(crate) fn encode_short(
    message: &Message,
    reason: &DeadLetterReason,
    came: &HeaderMap,
    max_payload: usize,
) -> Result<Option<(HeaderMap, Bytes)>, SendError> {
    let mut whole = message.clone();
    let properties = whole.properties_mut().application_properties_mut();
    properties.remove(DeadLetter::REASON);
    properties.remove(DeadLetter::DESCRIPTION);
    let mut ids = whole.clone();
    ids.properties_mut().fit_within(0);
    let mut id = Message::from_parts(Properties::new(), message.body().clone());
    let bare = id.clone();
    if let Some(text) = message.message_id() {
        // It was taken a moment ago.
        let _ = id.properties_mut().set_message_id(text.to_owned());
    }
    for message in [whole, ids, id, bare] {
        let (mut headers, payload) = wire::encode_short(&message, came)?;
        wire::write_reason(reason.as_str(), &mut headers);
        let size = wire::size(&headers);
        if size <= wire::MAX_HEADERS && size + payload.len() <= max_payload {
            return Ok(Some((headers, payload)));
        }
    }
    Ok(None)
}
