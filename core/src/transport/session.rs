use std::{
    future::Future,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;

use super::{Capabilities, Capability, Delivery, EntityInfo, ReceiveError, Receiver, SettleError, Unsupported};
use crate::{Message, message::SequenceNumber, time::Timestamp};

/// Locks the sessions of an entity for this process, one after the other.
///
/// # Examples
///
/// A source around another one that keeps the ids of its sessions:
///
/// ```
/// use std::task::{Context, Poll, ready};
///
/// use consign::transport::{EntityInfo, ReceiveError, Session, SessionSource};
///
/// struct Seen<A> {
///     inner: A,
///     ids: Vec<String>,
/// }
///
/// impl<A: SessionSource> SessionSource for Seen<A> {
///     type Session = A::Session;
///
///     fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<A::Session, ReceiveError>> {
///         let session = ready!(self.inner.poll_accept(cx))?;
///         self.ids.push(session.session_id().to_owned());
///         Poll::Ready(Ok(session))
///     }
///
///     fn stop(&mut self) {
///         self.inner.stop();
///     }
///
///     fn entity_info(&self) -> EntityInfo {
///         self.inner.entity_info()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not accept sessions: pass the `session_acceptor()` of a queue, or what `Sessions::sessions` of a transport returns",
    label = "not a source of sessions"
)]
pub trait SessionSource: Send + Unpin {
    /// A locked session.
    type Session: Session;

    /// Locks the next session that has a message and no lock. Without such a session it is pending, and wakes the task
    /// when there may be one.
    ///
    /// # Errors
    ///
    /// Those of the connection, and [`EntityNotFound`](super::ErrorKind::EntityNotFound) if the entity was deleted.
    ///
    /// # Cancel safety
    ///
    /// A session is locked in the same poll that returns it, so dropping a future that polls this leaves no lock.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>>;

    /// Declares that the caller does not poll for now: its wake-up is passed to another one.
    fn stop(&mut self) {}

    /// Returns the entity, for log lines. By default it is unknown.
    fn entity_info(&self) -> EntityInfo {
        EntityInfo::default()
    }
}

/// A locked session. It delivers the messages of one session in order, and no other receiver gets any of them
/// meanwhile.
///
/// Dropping it releases the lock, as [`close`](Session::close) does.
///
/// # Examples
///
/// A function over the sessions of every transport. It counts in the state of the session, which outlives the lock:
///
/// ```
/// use consign::transport::{ReceiverExt, Session, SettleError};
///
/// async fn count(session: &impl Session) -> Result<u8, SettleError> {
///     let before = session.state().await?.and_then(|state| state.first().copied()).unwrap_or(0);
///     session.set_state(Some(vec![before + 1].into())).await?;
///     Ok(before + 1)
/// }
/// # use consign::{administration::QueueSettings, broker::Broker};
/// # tokio_test::block_on(async {
/// # let queue = Broker::new().create_queue("orders", QueueSettings::default().requires_session(true))?;
/// # for expected in [1, 2] {
/// #     let session = queue.accept_session("customer-7")?;
/// #     assert_eq!(count(&session).await?, expected);
/// #     Session::close(session).await?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Session: Receiver + 'static {
    /// The future of [`renew`](Self::renew).
    type Renew: Future<Output = Result<Timestamp, SettleError>> + Send + 'static;
    /// The future of [`close`](Self::close).
    type Close: Future<Output = Result<(), SettleError>> + Send + 'static;

    /// Returns the id that its messages have in common.
    fn session_id(&self) -> &str;

    /// Returns how long the lock holds from the accept or the last renewal.
    fn lock_duration(&self) -> Duration;

    /// Extends the lock to its full duration from now, and returns until when it holds.
    ///
    /// # Errors
    ///
    /// The future returns [`SessionLockLost`](super::ErrorKind::SessionLockLost) if the lock is lost.
    fn renew(&self) -> Self::Renew;

    /// Releases the lock. Deliveries that are not settled do not count.
    ///
    /// # Errors
    ///
    /// As [`renew`](Session::renew).
    fn close(self) -> Self::Close;

    /// Returns the state of the session; `None` if it has none. It is opaque bytes that the application sets, and outlives the
    /// lock. The future does not borrow the session, so a handler may read the state while the session receives.
    ///
    /// # Errors
    ///
    /// [`SessionLockLost`](super::ErrorKind::SessionLockLost), and [`NotSupported`](super::ErrorKind::NotSupported) without
    /// [`Capability::SessionState`].
    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<Self> {
        async { Err(unsupported(Capability::SessionState).into()) }
    }

    /// Sets the state of the session; `None` removes it. Its maximum is 256 KiB on the embedded broker; the README of a
    /// transport has its maximum.
    ///
    /// # Errors
    ///
    /// As [`state`](Self::state).
    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<Self> {
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

/// Locks one session of an entity by its id.
///
/// # Examples
///
/// Accepting a session of every transport, for at most a minute:
///
/// ```
/// use std::time::Duration;
///
/// use consign::transport::{AcceptSession, ErrorKind, ReceiveError};
///
/// async fn accept<A: AcceptSession>(source: &mut A, id: &str) -> Result<A::Session, ReceiveError> {
///     // The accept is dropped when the time is over, which leaves no lock.
///     match tokio::time::timeout(Duration::from_secs(60), source.accept(id)).await {
///         Ok(accepted) => accepted,
///         Err(_) => Err(ReceiveError::new(ErrorKind::ServiceTimeout)),
///     }
/// }
/// # use consign::{administration::QueueSettings, broker::Broker, transport::Session};
/// # tokio_test::block_on(async {
/// # let queue = Broker::new().create_queue("orders", QueueSettings::default().requires_session(true))?;
/// # assert_eq!(accept(&mut queue.session_acceptor()?, "customer-7").await?.session_id(), "customer-7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait AcceptSession: Send + 'static {
    /// A locked session.
    type Session: Session;
    /// The future of [`accept`](Self::accept).
    type Accept: Future<Output = Result<Self::Session, ReceiveError>> + Send + 'static;

    /// Locks the session of this id, at most 128 UTF-16 code units, which may have no message so far.
    ///
    /// # Errors
    ///
    /// The future returns [`SessionCannotBeLocked`](super::ErrorKind::SessionCannotBeLocked) while another receiver holds it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no lock: one that is acquired later is released.
    fn accept(&mut self, id: &str) -> Self::Accept;

    /// Returns the capabilities of the transport. The default has none.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }
}
