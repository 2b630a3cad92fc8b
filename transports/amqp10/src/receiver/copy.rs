//! Copies of a delivery: the transport's form of what the broker does not do.

use bytes::Bytes;
use consign_core::{
    Message,
    message::limits,
    settlement::{Changes, DeadLetter},
    time::Timestamp,
    transport::{ErrorKind, SettleError},
};

use super::held::Held;
use crate::{
    error::Failure,
    wire::{self, Stamp},
};

/// The copy that replaces an abandoned message. It has one more failure.
pub(super) fn abandoned(held: &Held, changes: Changes) -> Result<Bytes, Failure> {
    encoded(held, &changed(held, changes), held.failed.saturating_add(1), None)
}

/// The copy that replaces a message which is redelivered at `due`.
pub(super) fn delayed(held: &Held, changes: Changes, failed: u32, due: Timestamp) -> Result<Bytes, Failure> {
    encoded(held, &changed(held, changes), failed, Some(due))
}

/// The copy for the dead-letter address. If its properties exceed their limits, it has the reason `HeaderSizeExceeded` instead,
/// without the changes. A reason alone stays.
pub(super) fn dead(held: &Held, dead_letter: DeadLetter) -> Result<Bytes, Failure> {
    let written = |dead_letter: DeadLetter| {
        let mut message = held.message.clone();
        dead_letter.write_to(message.properties_mut().application_properties_mut());
        message
    };
    let is_reason_alone = dead_letter.description.is_empty() && dead_letter.changes.is_empty();
    let mut message = written(dead_letter);
    if !is_reason_alone && message.properties().check().is_err() {
        message = written(DeadLetter::header_size_exceeded());
    }
    encoded_as(held, &message, &Stamp { never_expires: true, ..stamp(held, held.failed, None) })
}

/// Returns whether the changes would make the properties of the message too large.
pub(super) fn outgrows(held: &Held, changes: &Changes) -> bool {
    !changes.is_empty() && changed(held, changes.clone()).properties().check().is_err()
}

/// Checks what is written into a dead letter.
pub(super) fn check(dead_letter: &DeadLetter) -> Result<(), SettleError> {
    let is_long =
        |text: &str| text.len() > limits::DEAD_LETTER_TEXT && text.encode_utf16().count() > limits::DEAD_LETTER_TEXT;
    if is_long(dead_letter.reason.as_str()) || is_long(&dead_letter.description) {
        let detail = "the reason and the description of a dead letter have at most 4,096 UTF-16 code units";
        return Err(SettleError::new(ErrorKind::InvalidArgument).with_detail(detail));
    }
    Ok(())
}

fn changed(held: &Held, changes: Changes) -> Message {
    let mut message = held.message.clone();
    let changes = changes.into_permitted();
    if !changes.is_empty() {
        message.properties_mut().application_properties_mut().merge(changes);
    }
    message
}

fn encoded(held: &Held, message: &Message, failed: u32, due: Option<Timestamp>) -> Result<Bytes, Failure> {
    encoded_as(held, message, &stamp(held, failed, due))
}

fn stamp(held: &Held, failed: u32, due: Option<Timestamp>) -> Stamp {
    Stamp { number: held.number, enqueued: held.enqueued, failed, due, never_expires: false }
}

fn encoded_as(held: &Held, message: &Message, stamp: &Stamp) -> Result<Bytes, Failure> {
    let product = held.origin.source.core.product();
    wire::write(message, stamp, product).map_err(|error| Failure::new(error.kind(), error.to_string()))
}
