//! What a case reads from a message.

use consign::{
    Message,
    message::{Received, SequenceNumber},
};

use crate::Failure;

/// Returns the broker's facts of a message that it delivered or showed.
pub(crate) fn facts(message: &Message) -> Result<&Received, Failure> {
    message.received().ok_or_else(|| Failure::behaviour("the transport says nothing of what it delivers"))
}

pub(crate) fn number(message: &Message) -> Result<SequenceNumber, Failure> {
    Ok(facts(message)?.sequence_number)
}

pub(crate) fn numbers<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Result<Vec<u64>, Failure> {
    messages.into_iter().map(|message| number(message).map(SequenceNumber::get)).collect()
}

pub(crate) fn text(message: &Message) -> String {
    message.payload().map_or_else(|| "no bytes".into(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

pub(crate) fn texts<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<String> {
    messages.into_iter().map(text).collect()
}

/// Returns the reason and the description of a dead letter.
pub(crate) fn why(message: &Message) -> (&str, &str) {
    (message.dead_letter_reason().unwrap_or_default(), message.dead_letter_description().unwrap_or_default())
}
