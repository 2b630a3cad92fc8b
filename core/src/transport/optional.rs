//! The operations that only some transports have.

use std::future::Future;

use super::{AcceptSession, Delivery, ManageError, ReceiveError, SendError, Session, SessionSource, Transport};
use crate::{
    Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
};

/// A [`Transport`] whose messages can be peeked: [`Capability::Peek`](super::Capability::Peek).
pub trait PeekMessages: Transport {
    /// Returns up to `max` messages of an entity from the sequence number `from` on, in order, without locking or counting
    /// them. Messages in every state are among them, locked ones too. An empty answer means that there are no further
    /// messages.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound), and those of the connection.
    fn peek(
        &self,
        path: &EntityPath,
        from: SequenceNumber,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send;
}

/// A [`Transport`] that schedules messages: [`Capability::Scheduling`](super::Capability::Scheduling).
pub trait ScheduleMessages: Transport {
    /// Sends messages that become visible at `at`, and returns their sequence numbers in order.
    ///
    /// # Errors
    ///
    /// As a send. If the transport stores the messages one by one, some may have been stored.
    fn schedule(
        &self,
        path: &EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> impl Future<Output = Result<Vec<SequenceNumber>, SendError>> + Send;

    /// Cancels scheduled messages: all of them, or none.
    ///
    /// # Errors
    ///
    /// [`MessageNotFound`](super::ErrorKind::MessageNotFound) if one is not scheduled (any more), and
    /// [`NotSupported`](super::ErrorKind::NotSupported) without
    /// [`Capability::CancelScheduled`](super::Capability::CancelScheduled).
    fn cancel_scheduled(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> impl Future<Output = Result<(), SendError>> + Send;
}

/// A [`Transport`] whose messages can be deferred: [`Capability::Deferral`](super::Capability::Deferral).
pub trait ReceiveDeferred: Transport {
    /// Receives deferred messages by their sequence numbers: all of them, or none.
    ///
    /// # Errors
    ///
    /// [`MessageNotFound`](super::ErrorKind::MessageNotFound) if one of them is not deferred, or is locked by another
    /// receiver.
    fn receive_deferred(
        &self,
        path: &EntityPath,
        numbers: &[SequenceNumber],
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send;
}

/// A [`Transport`] that removes messages without receiving them: [`Capability::Purge`](super::Capability::Purge).
pub trait PurgeMessages: Transport {
    /// Removes up to `max` messages that are not locked, the oldest first, and returns how many. With an instant, only messages
    /// that were accepted before it are removed.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound), and those of the connection; some messages may have been removed.
    fn purge(
        &self,
        path: &EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> impl Future<Output = Result<usize, ManageError>> + Send;
}

/// A [`Transport`] with sessions: [`Capability::Sessions`](super::Capability::Sessions).
pub trait Sessions: Transport {
    /// A locked session.
    type Session: Session<Lease = Self::Lease>;
    /// The source of the sessions of one entity.
    type SessionSource: SessionSource<Session = Self::Session> + AcceptSession<Session = Self::Session>;

    /// Creates a source of the sessions of a queue or a subscription.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound), and
    /// [`InvalidOperation`](super::ErrorKind::InvalidOperation) for an entity without sessions.
    fn sessions(&self, path: &EntityPath) -> impl Future<Output = Result<Self::SessionSource, ReceiveError>> + Send;
}
