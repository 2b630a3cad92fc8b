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

/// What becomes of such a message without a sink.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// It was removed when it was received.
    Lost,
    /// It is a dead letter, and stays in its queue.
    Deferred,
    Delayed,
}

impl Fate {
    /// As it is in log lines.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Lost => "a message of receive-and-delete mode was not handled: it is lost",
            Self::Deferred => "a dead letter failed again: it is deferred in the dead-letter queue",
            Self::Delayed => {
                "a dead letter failed again: it is redelivered after a delay, and its further failures are not logged"
            }
        }
    }
}
