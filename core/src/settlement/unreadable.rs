use std::{error::Error, fmt};

use super::{DeadLetter, Disposition};
use crate::Message;

/// The error of a client's delivery that cannot be converted to a message without a loss. It has the message that could be
/// read, without the unreadable parts, and the dead letter that names the first of them.
///
/// It is a [`Disposition`] by `into()`, so that a receive loop settles it as the result of a handler.
#[derive(Debug)]
pub struct UnreadableMessage {
    message: Box<Message>,
    dead_letter: Box<DeadLetter>,
}

impl UnreadableMessage {
    /// Creates an error with the readable rest of the message.
    #[must_use]
    pub fn new(message: Message, dead_letter: DeadLetter) -> Self {
        Self { message: Box::new(message), dead_letter: Box::new(dead_letter) }
    }

    /// Returns the dead letter: a reason of the closed list or `MalformedHeader`, and the name of the part.
    #[must_use]
    pub fn dead_letter(&self) -> &DeadLetter {
        &self.dead_letter
    }

    /// Returns the message without the parts that could not be read. A payload that could not be decoded is a body of bytes.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the same, for a loop that handles such a message nevertheless.
    #[must_use]
    pub fn into_message(self) -> Message {
        *self.message
    }
}

impl fmt::Display for UnreadableMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.dead_letter.reason, self.dead_letter.description)
    }
}

impl Error for UnreadableMessage {}

impl From<UnreadableMessage> for Disposition {
    fn from(unreadable: UnreadableMessage) -> Self {
        Self::DeadLetter(unreadable.dead_letter)
    }
}
