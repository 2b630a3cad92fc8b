//! What a receive loop publishes for a disposition.

use bytes::Bytes;
use consign_core::{
    Disposition,
    settlement::{DeadLetter, DeadLetterReason},
    transport::SendError,
};
use lapin::{BasicProperties, message::Delivery};

use super::{abandoned, dead_letter};

/// What a receive loop publishes before it acknowledges a delivery; see [`settlement`].
#[derive(Debug, PartialEq)]
pub enum Settlement {
    /// Nothing.
    Complete,
    /// The copy of [`abandoned`]. Publish it to the default exchange, with the name of the queue as the routing key.
    Abandon((BasicProperties, Bytes)),
    /// The copy of [`dead_letter`]. Publish it to a dead-letter exchange, with the key of [`routing_key`](super::routing_key).
    DeadLetter((BasicProperties, Bytes)),
}

/// Returns what to publish for a disposition before the delivery is acknowledged.
///
/// `Abandon` and `Defer` return the copy of [`abandoned`] with their changes. If these do not fit beside the properties of the
/// message, they return its dead letter with the reason `HeaderSizeExceeded`. A [delay](consign_core::settlement::Changes::delay)
/// is not part of the copy: the loop may wait before it publishes.
///
/// # Errors
///
/// As [`dead_letter`].
pub fn settlement(delivery: &Delivery, disposition: Disposition) -> Result<Settlement, SendError> {
    let letter = match disposition {
        Disposition::Complete => return Ok(Settlement::Complete),
        Disposition::DeadLetter(letter) => *letter,
        Disposition::Abandon(changes) | Disposition::Defer(changes) => match abandoned(delivery, changes) {
            Ok(copy) => return Ok(Settlement::Abandon(copy)),
            Err(error) => DeadLetter::new(DeadLetterReason::HeaderSizeExceeded, error.to_string()),
        },
    };
    dead_letter(delivery, letter).map(Settlement::DeadLetter)
}
