use std::{
    fmt,
    future::{Ready, poll_fn, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use consign_core::{
    Message,
    message::{Field, InvalidArgument, Problem, SequenceNumber, limits},
    time::Timestamp,
    transport::{
        AcceptSession, Capabilities, Delivery, EntityInfo, ErrorKind, ManageError, ReceiveError, ReceiveMode, Receiver,
        Session, SessionSource, SettleError,
    },
};

use super::{
    Acknowledged, Broker, Queue,
    engine::{Accepted, Line, Refused, Source},
    lease::QueueLease,
    receiver::{Removed, poll_source},
    wait::Wait,
};

/// Locks the sessions of an entity of the embedded broker.
pub struct SessionAcceptor {
    queue: Queue,
    mode: ReceiveMode,
    wait: Wait,
}

impl SessionAcceptor {
    pub(super) fn new(queue: Queue) -> Self {
        let wait = Wait::new(Arc::clone(&queue.shared), Line::Sessions(queue.store));
        Self { queue, mode: ReceiveMode::PeekLock, wait }
    }

    /// Sets receive-and-delete mode for the receivers of this acceptor: a message is removed when it is delivered.
    #[must_use]
    pub fn receive_and_delete(mut self) -> Self {
        self.mode = ReceiveMode::ReceiveAndDelete;
        self
    }

    /// Locks the session of this id, at most 128 UTF-16 code units, which may be empty so far:
    /// [`Queue::accept_session`].
    pub fn accept(&self, id: &str) -> Result<SessionReceiver, ReceiveError> {
        if limits::is_longer_than(id, limits::ID) {
            return Err(InvalidArgument::new(Field::SessionId, Problem::TooLong { limit: limits::ID }).into());
        }
        self.queue.shared.check_open::<ReceiveError>()?;
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        let accepted = self.queue.shared.with(|state| state.engine.accept_session(now, store, Some(id)));
        let accepted = accepted.map_err(|error| self.queue.session_refusal(id, error))?;
        let accepted = accepted.ok_or_else(|| ReceiveError::new(ErrorKind::General))?;
        Ok(SessionReceiver::new(self.queue.clone(), self.mode, accepted))
    }

    /// Locks the free session with a message whose first message was accepted first, or waits for one. Cancel-safe:
    /// dropping the future loses nothing and leaves no lock. Errors: those of a receive, and
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) on an entity without sessions.
    pub async fn accept_next(&mut self) -> Result<SessionReceiver, ReceiveError> {
        let waiting = Waiting(self);
        poll_fn(|cx| waiting.0.poll_accept(cx)).await
    }

    /// Accepts the next session, like [`SessionAcceptor::accept_next`], or fails as
    /// [`ServiceTimeout`](ErrorKind::ServiceTimeout) after `wait`.
    pub async fn accept_next_within(&mut self, wait: Duration) -> Result<SessionReceiver, ReceiveError> {
        match tokio::time::timeout(wait, self.accept_next()).await {
            Ok(accepted) => accepted,
            Err(_) => Err(ReceiveError::new(ErrorKind::ServiceTimeout).with_detail("no session")),
        }
    }
}

struct Waiting<'a>(&'a mut SessionAcceptor);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl SessionSource for SessionAcceptor {
    type Session = SessionReceiver;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<SessionReceiver, ReceiveError>> {
        let (queue, mode) = (&self.queue, self.mode);
        queue.shared.check_open::<ReceiveError>()?;
        self.wait
            .poll(cx, |engine, now| engine.accept_session(now, queue.store, None).transpose())
            .map_ok(|accepted| SessionReceiver::new(queue.clone(), mode, accepted))
            .map_err(|error| queue.refusal(error))
    }

    fn stop(&mut self) {
        let store = self.queue.store;
        self.wait.stop(|engine| engine.has_session(store));
    }

    fn entity_info(&self) -> EntityInfo {
        self.queue.info()
    }
}

impl AcceptSession for SessionAcceptor {
    type Session = SessionReceiver;
    type Accept = Ready<Result<SessionReceiver, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        ready(Self::accept(self, id))
    }

    fn capabilities(&self) -> Capabilities {
        Broker { shared: Arc::clone(&self.queue.shared) }.capabilities()
    }
}

impl Drop for SessionAcceptor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for SessionAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAcceptor").field("queue", &self.queue.path()).finish_non_exhaustive()
    }
}

/// A locked session: the exclusive right to receive its messages, also those that arrive later.
///
/// The lock lasts as long as the lock of a message, and can be renewed. Dropping the receiver closes the session.
/// When the lock is lost, calls and the settlements of its messages return
/// [`SessionLockLost`](ErrorKind::SessionLockLost). While the entity is closed to receivers the session can only be
/// closed, peeked and deleted from; other calls return [`EntityDisabled`](ErrorKind::EntityDisabled). A peek or a deletion finds
/// nothing once the lock is lost.
pub struct SessionReceiver {
    queue: Queue,
    mode: ReceiveMode,
    id: Box<str>,
    lane: u32,
    lock: u64,
    until: Timestamp,
    wait: Wait,
    removed: Removed,
    /// Where the next peek begins.
    cursor: SequenceNumber,
    is_open: bool,
}

impl SessionReceiver {
    fn new(queue: Queue, mode: ReceiveMode, accepted: Accepted) -> Self {
        let Accepted { id, lane, lock, until } = accepted;
        let wait = Wait::new(Arc::clone(&queue.shared), Line::Session(queue.store, lane));
        let (removed, cursor) = (Removed::default(), SequenceNumber::new(1));
        Self { queue, mode, id, lane, lock, until, wait, removed, cursor, is_open: true }
    }

    fn source(&self) -> Source {
        Source::Session { lane: self.lane, lock: self.lock }
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.id
    }

    /// Returns when the lock ends, by the last accept or renewal.
    #[must_use]
    pub fn locked_until(&self) -> Timestamp {
        self.until
    }

    /// Extends the lock to its full duration from now, and returns when it ends.
    pub fn renew(&mut self) -> Result<Timestamp, SettleError> {
        self.until = self.renewed()?;
        Ok(self.until)
    }

    fn renewed(&self) -> Result<Timestamp, SettleError> {
        self.queue.shared.check_open::<SettleError>()?;
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        Ok(self.queue.shared.with(|state| state.engine.renew_session(now, store, self.lane, self.lock))?)
    }

    /// Returns the state, `None` if it was never set or is cleared. It outlives its holders.
    pub fn state(&self) -> Result<Option<Bytes>, SettleError> {
        self.queue.shared.check_open::<SettleError>()?;
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        let state = self.queue.shared.with(|state| state.engine.session_state(now, store, self.lane, self.lock));
        Ok(state?)
    }

    /// Sets the state, or clears it. Errors besides the lost lock:
    /// [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded) if it is larger than a message may be,
    /// [`QuotaExceeded`](ErrorKind::QuotaExceeded) if the entity is full.
    pub fn set_state(&self, mut to: Option<Bytes>) -> Acknowledged<(), SettleError> {
        if let Err(failure) = self.queue.shared.check_open() {
            return Acknowledged::ready(Err(failure));
        }
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        let (lane, lock) = (self.lane, self.lock);
        // The user may own the previous state, and the refused one: both are dropped here.
        let set =
            self.queue.shared.with_answer(|state| state.engine.set_session_state(now, store, lane, lock, &mut to));
        self.queue.shared.acknowledge(set.map_err(Into::into))
    }

    /// Locks deferred messages of this session by their sequence numbers: [`Queue::receive_deferred`].
    pub fn receive_deferred(&self, numbers: &[SequenceNumber]) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        self.receive_deferred_within(numbers, u64::MAX)
    }

    /// Locks deferred messages of this session as [`Queue::receive_deferred_within`] does.
    pub fn receive_deferred_within(
        &self,
        numbers: &[SequenceNumber],
        max_bytes: u64,
    ) -> Result<Vec<Delivery<QueueLease>>, ReceiveError> {
        self.queue.receive_deferred_from(self.source(), numbers, max_bytes)
    }

    /// Returns up to `max` messages of this session as [`Queue::peek`] does, from after the last one that was peeked.
    /// Returns none once the lock is lost. Visits every locked message of the session, and every scheduled one of the entity.
    pub fn peek(&mut self, max: usize) -> Vec<Message> {
        let peeked = self.peek_from(self.cursor, max);
        if let Some(last) = peeked.last().and_then(Message::received) {
            self.cursor = last.sequence_number.next();
        }
        peeked
    }

    /// Returns up to `max` messages of this session from sequence number `from` on, as [`Queue::peek`] does. Returns none once the
    /// lock is lost.
    #[must_use]
    pub fn peek_from(&self, from: SequenceNumber, max: usize) -> Vec<Message> {
        self.peek_within(from, max, usize::MAX)
    }

    /// Returns messages as [`SessionReceiver::peek_from`] does, up to the one with which they have `max_bytes`:
    /// [`Queue::peek_within`].
    #[must_use]
    pub fn peek_within(&self, from: SequenceNumber, max: usize, max_bytes: usize) -> Vec<Message> {
        self.queue.shared.peek(self.queue.store, self.source(), from, max, max_bytes)
    }

    /// Removes messages of this session as [`Queue::delete_messages`] does. Removes none once the lock is lost.
    pub fn delete_messages(&self, max: usize, enqueued_before: Option<Timestamp>) -> Acknowledged<usize, ManageError> {
        self.queue.delete_from(self.source(), max, enqueued_before)
    }

    /// Returns whether messages were removed that a poll has not returned yet: [`QueueReceiver::is_removing`](super::QueueReceiver::is_removing).
    #[must_use]
    pub fn is_removing(&self) -> bool {
        self.removing() > 0
    }

    /// Returns how many messages those of [`SessionReceiver::is_removing`] are.
    #[must_use]
    pub fn removing(&self) -> usize {
        self.removed.waiting()
    }

    /// Releases the lock at once. Messages that are not settled are released without a count.
    pub fn close(mut self) -> Result<(), SettleError> {
        self.queue.shared.check_open::<SettleError>()?;
        Ok(self.end()?)
    }

    fn end(&mut self) -> Result<(), Refused> {
        self.stop();
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        let (now, store) = (self.queue.shared.now(), self.queue.store);
        self.queue.shared.with(|state| state.engine.close_session(now, store, self.lane, self.lock))
    }
}

impl Receiver for SessionReceiver {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let source = self.source();
        poll_source(&mut self.wait, &mut self.removed, cx, &self.queue, self.mode, source, max, out)
    }

    fn stop(&mut self) {
        self.wait.stop(|_| false);
    }

    fn capabilities(&self) -> Capabilities {
        Broker { shared: Arc::clone(&self.queue.shared) }.capabilities()
    }

    fn entity_info(&self) -> EntityInfo {
        self.queue.info()
    }
}

impl Session for SessionReceiver {
    type Renew = Ready<Result<Timestamp, SettleError>>;
    type Close = Ready<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        &self.id
    }

    fn lock_duration(&self) -> Duration {
        self.queue.settings().map_or(Duration::ZERO, |settings| settings.lock_duration)
    }

    fn renew(&self) -> Self::Renew {
        ready(self.renewed())
    }

    fn close(self) -> Self::Close {
        ready(self.close())
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        ready(Self::state(self))
    }

    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<> {
        Self::set_state(self, state)
    }

    fn receive_deferred(
        &mut self,
        numbers: &[SequenceNumber],
    ) -> impl Future<Output = Result<Vec<Delivery<QueueLease>>, ReceiveError>> + Send {
        ready(Self::receive_deferred(self, numbers))
    }

    fn peek(&mut self, max: usize) -> impl Future<Output = Result<Vec<Message>, ReceiveError>> + Send {
        let peeked = Self::peek(self, max);
        // Without a message that a disk could not read, the list is not whole.
        ready(self.queue.shared.check_open().map(|()| peeked))
    }
}

impl Drop for SessionReceiver {
    fn drop(&mut self) {
        // A lock that is lost needs no closing.
        let _ = self.end();
    }
}

impl fmt::Debug for SessionReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionReceiver").field("queue", &self.queue.path()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use consign_core::{
        administration::QueueSettings,
        message::EntityPath,
        transport::{DynTransport, ReceiverExt, Sender, Sessions, Transport},
    };

    use super::*;
    use crate::Broker;

    /// A default method of the trait refuses each of these.
    #[tokio::test]
    async fn a_session_of_a_transport_has_state_deferred_messages_and_a_peek() {
        let broker = Broker::new();
        broker.create_queue("orders", QueueSettings::default().requires_session(true)).unwrap();
        let transport = DynTransport::from(broker);
        let path = EntityPath::new("orders").unwrap();
        let message = Message::builder().session_id("s").build("a").unwrap();
        transport.sender(&path).await.unwrap().send(message).await.unwrap();
        let mut session = transport.sessions(&path).await.unwrap().accept("s").await.unwrap();

        session.set_state(Some(Bytes::from_static(b"1"))).await.unwrap();
        assert_eq!(session.state().await.unwrap(), Some(Bytes::from_static(b"1")));
        let peeked = session.peek(10).await.unwrap();
        let number = peeked[0].received().unwrap().sequence_number;
        session.receive().await.unwrap().defer().await.unwrap();
        assert_eq!(session.receive_deferred(&[number]).await.unwrap().len(), 1);
    }
}
