use std::{
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;

use super::{Capabilities, Capability, Delivery, EntityInfo, ReceiveError, Receiver, SettleError, Unsupported};
use crate::{Message, message::SequenceNumber, time::Timestamp};

/// Where sessions come from: one after the other they are locked for this process.
pub trait SessionSource: Send + Unpin {
    /// A locked session.
    type Session: Session;

    /// Locks the next session that has a message and no lock. Without such a session it is pending, and wakes the task
    /// when there may be one.
    ///
    /// A session is locked in the same poll that returns it, so dropping a future that polls this leaves no lock.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>>;

    /// The caller will not poll for now: a wake-up that was meant for it goes to another.
    fn stop(&mut self) {}

    /// Returns the entity, for log lines. By default nothing of it is known.
    fn entity_info(&self) -> EntityInfo {
        EntityInfo::default()
    }
}

/// A locked session. It delivers the messages of one session in order, and no other receiver gets any of them
/// meanwhile.
///
/// Dropping it releases the lock, as [`close`](Session::close) does.
pub trait Session: Receiver + 'static {
    /// The future of [`renew`](Self::renew).
    type Renew: Future<Output = Result<Timestamp, SettleError>> + Send + 'static;
    /// The future of [`close`](Self::close).
    type Close: Future<Output = Result<(), SettleError>> + Send + 'static;

    /// Returns the id that its messages have in common.
    fn session_id(&self) -> &str;

    /// Returns how long the lock holds from the accept or the last renewal.
    fn lock_duration(&self) -> Duration;

    /// Extends the lock to its full duration from now, and answers until when it holds.
    fn renew(&self) -> Self::Renew;

    /// Gives the lock up. Deliveries that are not settled do not count.
    fn close(self) -> Self::Close;

    /// Returns the state of the session; `None` if it has none. It is opaque bytes that the application sets, and outlives the
    /// lock.
    ///
    /// # Errors
    ///
    /// [`SessionLockLost`](super::ErrorKind::SessionLockLost), and [`NotSupported`](super::ErrorKind::NotSupported) without
    /// [`Capability::SessionState`].
    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send {
        async { Err(unsupported(Capability::SessionState).into()) }
    }

    /// Sets the state of the session; `None` removes it. The embedded broker takes 256 KiB; a transport says how much it takes.
    ///
    /// # Errors
    ///
    /// As [`state`](Self::state).
    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send {
        let _ = state;
        async { Err(unsupported(Capability::SessionState).into()) }
    }

    /// Receives deferred messages of the session by their sequence numbers: all of them, or none.
    ///
    /// # Errors
    ///
    /// As [`ReceiveDeferred::receive_deferred`](super::ReceiveDeferred::receive_deferred), and
    /// [`NotSupported`](super::ErrorKind::NotSupported) without [`Capability::Deferral`].
    fn receive_deferred(
        &mut self,
        numbers: &[SequenceNumber],
    ) -> impl Future<Output = Result<Vec<Delivery<Self::Lease>>, ReceiveError>> + Send {
        let _ = numbers;
        async { Err(unsupported(Capability::Deferral).into()) }
    }

    /// Returns up to `max` messages of the session, in order, continuing after the last one that this session peeked.
    ///
    /// # Errors
    ///
    /// As [`PeekMessages::peek`](super::PeekMessages::peek), and [`NotSupported`](super::ErrorKind::NotSupported) without
    /// [`Capability::Peek`].
    fn peek(&mut self, max: usize) -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send {
        let _ = max;
        async { Err(unsupported(Capability::Peek).into()) }
    }
}

fn unsupported(capability: Capability) -> Unsupported {
    Unsupported::new(capability)
}

/// Where one session is locked by its id.
pub trait AcceptSession: Send + 'static {
    /// A locked session.
    type Session: Session;
    /// The future of [`accept`](Self::accept).
    type Accept: Future<Output = Result<Self::Session, ReceiveError>> + Send + 'static;

    /// Locks the session of this id, at most 128 UTF-16 code units, which may have no message so far.
    /// [`SessionCannotBeLocked`](super::ErrorKind::SessionCannotBeLocked) while another holds it. Dropping the future
    /// releases the lock that it has taken, or may still take.
    fn accept(&mut self, id: &str) -> Self::Accept;

    /// Returns the capabilities of the transport. The default claims nothing.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }
}
