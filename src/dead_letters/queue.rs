use std::future::Future;

use crate::{
    Message,
    message::SequenceNumber,
    transport::{ReceiveError, Receiver},
};

/// A dead-letter sub-queue: what it shows without a lock, and a receiver. The embedded broker's queues are it; for another
/// transport implement it on whatever knows the entity.
///
/// Messages of both must say in [`Received`](crate::message::Received) that they are dead letters; others are left alone.
pub trait DeadLetterQueue: Send + Sync {
    /// The type that [`receiver`](Self::receiver) returns.
    type Receiver: Receiver;

    /// Returns a receiver in peek-lock mode.
    fn receiver(&self) -> Self::Receiver;

    /// Returns up to `max` messages from sequence number `from` on, in order, without locking or counting; none at the
    /// end only.
    fn peek(&self, from: SequenceNumber, max: usize)
    -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send;
}

#[cfg(feature = "embedded")]
impl DeadLetterQueue for crate::broker::Queue {
    type Receiver = crate::broker::QueueReceiver;

    fn receiver(&self) -> Self::Receiver {
        Self::receiver(self)
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Ok(Self::peek(self, from, max))
    }
}
