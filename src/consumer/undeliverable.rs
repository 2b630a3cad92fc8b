use crate::{
    Message,
    settlement::{Changes, DeadLetter},
};

/// A message that a handler, or a decoder, dead-lettered where no dead-letter sub-queue can take it: it was removed when
/// it was received, or the message is already a dead letter.
#[derive(Debug)]
#[non_exhaustive]
pub struct Undeliverable {
    /// The message, as it was received.
    pub message: Message,
    /// Its intended settlement: a dead letter, or for a message that was received and deleted any outcome other than
    /// complete.
    pub dead_letter: Option<DeadLetter>,
}

/// The outcome of a message that cannot have it.
pub(super) enum NotSettled {
    DeadLetter(DeadLetter),
    Otherwise(Changes),
}
