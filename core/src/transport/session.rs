use std::{
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use super::{Capabilities, EntityInfo, Level, ReceiveError, Receiver, SettleError};
use crate::time::Timestamp;

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
        Capabilities::all(Level::Unsupported)
    }
}
