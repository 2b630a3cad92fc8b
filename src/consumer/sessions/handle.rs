use std::{
    fmt,
    sync::{Arc, Weak},
};

use bytes::Bytes;

use super::registry::{HeldSession, session_of};
use crate::{
    Disposition, Message,
    routing::{Context, FromMessage},
    settlement::{Changes, IntoDisposition},
    transport::{ErrorKind, SettleError, deadline::Timed},
};

/// The session of a message: an argument of a handler that a [`SessionConsumer`](super::SessionConsumer) runs.
///
/// The state is opaque bytes that the application sets. It belongs to the session and outlives its lock, so the next consumer of
/// the session continues with it. Messages of a session are handled one at a time, so no other handler changes it meanwhile.
///
/// It does not keep the session. A handle that outlives the session's consumer returns
/// [`SessionLockLost`](ErrorKind::SessionLockLost).
///
/// # Examples
///
/// A handler that counts the messages of its session:
///
/// ```
/// use consign::{
///     Message,
///     administration::QueueSettings,
///     broker::Broker,
///     codecs::Codecs,
///     consumer::{SessionConsumer, SessionHandle},
///     routing::Router,
///     settlement::Transient,
///     transport::Sender,
/// };
///
/// async fn count(session: SessionHandle) -> Result<(), Transient> {
///     let before = session.state().await.map_err(Transient::new)?.map_or(0, |state| state[0]);
///     session.set_state(Some(vec![before + 1].into())).await.map_err(Transient::new)?;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tower::BoxError> {
/// let queue = Broker::new().create_queue("orders", QueueSettings::default().requires_session(true))?;
/// for body in ["first", "second"] {
///     queue.sender()?.send(Message::builder().session_id("customer-7").build(body)?).await?;
/// }
/// let router = Router::new(Codecs::json()).fallback(count).build()?;
/// let consumer = SessionConsumer::new(queue.session_acceptor()?, router);
/// let stats = consumer.stats();
/// let handled = async move {
///     while stats.completed() < 2 {
///         tokio::task::yield_now().await;
///     }
/// };
/// consumer.run_until(handled).await?;
/// assert_eq!(queue.accept_session("customer-7")?.state()?.as_deref(), Some(&[2][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SessionHandle {
    id: Arc<str>,
    session: Weak<dyn HeldSession>,
}

impl SessionHandle {
    /// Returns the session of a message that a handler has: for a service that is not a [`Router`](crate::routing::Router), and
    /// for layers. `None` if no [`SessionConsumer`](super::SessionConsumer) runs it, or if the session was given up.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        let session = session_of(message)?;
        Some(Self { id: Arc::clone(session.id()), session: Arc::downgrade(&session) })
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.id
    }

    /// Returns the state of the session; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`SessionLockLost`](ErrorKind::SessionLockLost) if the session was given up,
    /// [`ServiceTimeout`](ErrorKind::ServiceTimeout) after the
    /// [operation timeout](super::SessionConsumer::operation_timeout) of the consumer, and
    /// [`NotSupported`](ErrorKind::NotSupported) on a transport without
    /// [`Capability::SessionState`](crate::transport::Capability::SessionState).
    pub async fn state(&self) -> Result<Option<Bytes>, SettleError> {
        let state = {
            let session = self.session()?;
            Timed::new(session.state(), session.operation_timeout())
        };
        state.await?
    }

    /// Sets the state of the session; `None` removes it. It is stored when the future ends, however the message is settled.
    ///
    /// # Errors
    ///
    /// As [`state`](Self::state), and [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) for a state that is too large.
    ///
    /// # Cancel safety
    ///
    /// Whether a dropped call has stored the state is unknown.
    pub async fn set_state(&self, state: Option<Bytes>) -> Result<(), SettleError> {
        let set = {
            let session = self.session()?;
            Timed::new(session.set_state(state), session.operation_timeout())
        };
        set.await?
    }

    fn session(&self) -> Result<Arc<dyn HeldSession>, SettleError> {
        let given_up = || SettleError::new(ErrorKind::SessionLockLost).with_detail("the session was given up");
        self.session.upgrade().ok_or_else(given_up)
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<S, C> FromMessage<S, C> for SessionHandle {
    type Rejection = NoSession;

    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, NoSession> {
        Self::of(message).ok_or(NoSession)
    }
}

/// A handler with a [`SessionHandle`] got a message without one: no [`SessionConsumer`](super::SessionConsumer) runs the
/// handler, or the session was given up. The message is abandoned with this as its cause.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSession;

impl fmt::Display for NoSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handler takes a SessionHandle, and no SessionConsumer holds the session of the message")
    }
}

impl std::error::Error for NoSession {}

impl IntoDisposition for NoSession {
    #[cold]
    fn into_disposition(self) -> Disposition {
        Disposition::Abandon(Changes::coded("NoSession", self.to_string()))
    }
}
