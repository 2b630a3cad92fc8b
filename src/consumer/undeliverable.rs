use crate::{
    Message,
    settlement::{Changes, DeadLetter},
};

/// A message that cannot have its outcome: it was removed when it was received and was not completed, or a handler or a decoder
/// dead-lettered it, and it is already a dead letter.
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
