use std::future::Future;

use crate::{
    Message,
    message::{EntityPath, SequenceNumber},
    transport::{Capability, DynReceiver, DynTransport, PeekMessages, ReceiveError, ReceiveMode, Receiver, Transport},
};

/// A dead-letter sub-queue. [`DeadLetters::of`](super::DeadLetters::of) makes one of an entity of a transport; the queues of the
/// embedded broker implement it too. Implement it for a client of your own.
///
/// Messages of both methods are marked as dead letters in [`Received`](crate::message::Received); others are left alone.
pub trait DeadLetterQueue: Send + Sync {
    /// The type that [`receiver`](Self::receiver) returns.
    type Receiver: Receiver;

    /// Creates a receiver in peek-lock mode.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    fn receiver(&self) -> impl Future<Output = Result<Self::Receiver, ReceiveError>> + Send;

    /// Returns up to `max` messages from sequence number `from` on, in order, without locking or counting; none at the
    /// end only.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    fn peek(&self, from: SequenceNumber, max: usize)
    -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send;

    /// Returns whether [`peek`](Self::peek) is supported, and sequence numbers with it. Without it, dead letters are listed
    /// under their locks.
    fn can_peek(&self) -> bool {
        true
    }
}

#[cfg(feature = "embedded")]
impl DeadLetterQueue for crate::broker::Queue {
    type Receiver = crate::broker::QueueReceiver;

    async fn receiver(&self) -> Result<Self::Receiver, ReceiveError> {
        Ok(Self::receiver(self))
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Ok(Self::peek(self, from, max))
    }
}

/// The dead-letter sub-queue of an entity, on any transport.
#[derive(Clone, Debug)]
pub struct EntityDeadLetters {
    transport: DynTransport,
    path: EntityPath,
}

impl EntityDeadLetters {
    pub(super) fn new(transport: DynTransport, entity: &EntityPath) -> Self {
        let path = if entity.is_sub_queue() { entity.clone() } else { entity.dead_letter() };
        Self { transport, path }
    }

    pub(super) fn transport(&self) -> &DynTransport {
        &self.transport
    }

    /// The path of the sub-queue.
    pub(super) fn path(&self) -> &EntityPath {
        &self.path
    }
}

impl DeadLetterQueue for EntityDeadLetters {
    type Receiver = DynReceiver;

    async fn receiver(&self) -> Result<DynReceiver, ReceiveError> {
        self.transport.receiver(&self.path, ReceiveMode::PeekLock).await
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        self.transport.peek(&self.path, from, max).await
    }

    fn can_peek(&self) -> bool {
        let capabilities = self.transport.capabilities();
        [Capability::Peek, Capability::SequenceNumbers].into_iter().all(|needed| capabilities.supports(needed))
    }
}
