use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use consign_core::{
    Message,
    message::{SequenceNumber, limits},
    time::Timestamp,
    transport::{
        AcceptSession, BoxFuture, Capabilities, Delivery, EntityInfo, ErrorKind, ReceiveError, Receiver, Session,
        SessionSource, SettleError,
    },
};
use tokio::time::{sleep, timeout};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{
    Inner, PostgresLease, PostgresReceiver,
    capabilities::CAPABILITIES,
    chores::{Job, Place},
    database::Parameter,
    entity::Entity,
    failure::Failure,
    fetch::{Call, Fetch, Locked},
    idle::Joined,
    receiver::{self, Source},
};

/// Locks sessions of a queue or a subscription: one by its id, or the one that has waited longest.
///
/// # Errors
///
/// Those of a receive; [`InvalidOperation`](ErrorKind::InvalidOperation) for an entity without sessions;
/// [`SessionCannotBeLocked`](ErrorKind::SessionCannotBeLocked) for a session that another holds.
pub struct PostgresSessions {
    inner: Arc<Inner>,
    entity: Entity,
    fetch: Fetch<PostgresSession>,
}

impl PostgresSessions {
    pub(crate) fn new(inner: Arc<Inner>, entity: Entity) -> Self {
        Self { inner, entity, fetch: Fetch::new() }
    }

    /// Locks the session that has waited longest, as soon as there is one with a message and without a holder. Without one
    /// within `wait` it returns [`ServiceTimeout`](ErrorKind::ServiceTimeout).
    pub async fn next_within(&mut self, wait: Duration) -> Result<PostgresSession, ReceiveError> {
        let waiting = Waiting(self);
        let accepted = std::future::poll_fn(|cx| waiting.0.poll_accept(cx));
        match tokio::time::timeout(wait, accepted).await {
            Ok(accepted) => accepted,
            Err(_) => Err(ReceiveError::new(ErrorKind::ServiceTimeout).with_detail("no session")),
        }
    }
}

struct Waiting<'s>(&'s mut PostgresSessions);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl SessionSource for PostgresSessions {
    type Session = PostgresSession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<PostgresSession, ReceiveError>> {
        let (inner, entity) = (&self.inner, &self.entity);
        self.fetch.poll(cx, |not_before| Call::spawn(not_before, |call| next(Arc::clone(inner), entity.clone(), call)))
    }

    fn stop(&mut self) {
        self.fetch.stop();
    }

    fn entity_info(&self) -> EntityInfo {
        EntityInfo::new(self.entity.path.as_str()).max_delivery_count(self.entity.max_deliveries)
    }
}

impl AcceptSession for PostgresSessions {
    type Session = PostgresSession;
    type Accept = BoxFuture<Result<PostgresSession, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        Box::pin(accept(Arc::clone(&self.inner), self.entity.clone(), id.to_owned()))
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
}

impl fmt::Debug for PostgresSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSessions").field("path", &self.entity.path).finish_non_exhaustive()
    }
}

/// A lock on a session, which is given up when it is dropped.
struct Lock {
    entity: i64,
    session: Vec<u8>,
    token: Uuid,
    /// How long it would hold, as long as the accept has no answer.
    unanswered: Option<Duration>,
    /// `None` once it is given up.
    place: Option<Place>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let session = std::mem::take(&mut self.session);
            let (entity, token, unanswered) = (self.entity, self.token, self.unanswered);
            place.send(Job::CloseSession { entity, session: Some(session), token, unanswered });
        }
    }
}

async fn place(inner: &Inner) -> Result<Place, ReceiveError> {
    let place = inner.chores.places(1).await.pop();
    place.ok_or_else(|| ReceiveError::new(ErrorKind::General).with_detail("the runtime is shutting down"))
}

pub(crate) async fn accept(inner: Arc<Inner>, entity: Entity, id: String) -> Result<PostgresSession, ReceiveError> {
    if id.encode_utf16().count() > limits::ID {
        let refused = ReceiveError::new(ErrorKind::InvalidArgument);
        return Err(refused.with_detail("a SessionId has at most 128 UTF-16 code units"));
    }
    let place = timeout(inner.database.timeout, place(&inner)).await.unwrap_or_else(|_| {
        Err(ReceiveError::new(ErrorKind::Throttled).with_detail("too many deliveries are unsettled"))
    })?;
    let holder = inner.lock_holder().await;
    // From here on it is given up if the call is dropped or its answer is lost.
    let mut lock = Lock {
        entity: entity.id,
        session: id.into_bytes(),
        token: Uuid::new_v4(),
        unanswered: Some(entity.lock),
        place: Some(place),
    };
    let sql = inner.sql("SELECT until, lock_ms FROM {s}.accept_session($1, $2, $3, $4)");
    let parameters: [Parameter<'_>; 4] =
        [(&entity.id, Type::INT8), (&lock.session, Type::BYTEA), (&holder, Type::INT4), (&lock.token, Type::UUID)];
    let answer = inner.database.row(&sql, &parameters).await;
    let row = match answer {
        Ok(row) => {
            lock.unanswered = None;
            row
        }
        Err(failure) => {
            if !failure.is_unanswered() {
                lock.place = None;
            }
            return Err(failure.into());
        }
    };
    let millis: Option<i64> = row.map(|row| row.try_get(1)).transpose().map_err(Failure::from)?;
    PostgresSession::new(inner, entity, lock, millis)
}

/// Locks the next session, waiting for one until the call is cancelled.
async fn next(
    inner: Arc<Inner>,
    entity: Entity,
    call: Arc<Call<PostgresSession>>,
) -> Result<PostgresSession, ReceiveError> {
    let token = Uuid::new_v4();
    let sql = inner.sql("SELECT session, wait_us, leaving, more, lock_ms FROM {s}.next_session($1, $2, $3)");
    let mut turn = None;
    while call.is_wanted() {
        let (place, holder) = (place(&inner).await?, inner.lock_holder().await);
        let mut news = inner.hub.watch(entity.id);
        let parameters: [Parameter<'_>; 3] = [(&entity.id, Type::INT8), (&holder, Type::INT4), (&token, Type::UUID)];
        let row = match inner.database.row(&sql, &parameters).await {
            Ok(Some(row)) => row,
            Ok(None) => continue,
            Err(failure) => {
                if failure.is_unanswered() {
                    // A session may be locked, and which is unknown.
                    let unanswered = Some(entity.lock);
                    place.send(Job::CloseSession { entity: entity.id, session: None, token, unanswered });
                }
                return Err(failure.into());
            }
        };
        let read = || {
            let (wait, leaving, is_more) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            Ok::<_, tokio_postgres::Error>((row.try_get(0)?, wait, leaving, is_more, row.try_get(4)?))
        };
        let (session, wait, leaving, is_more, millis): (Option<Vec<u8>>, Option<i64>, bool, bool, Option<i64>) =
            read().map_err(Failure::from)?;
        if leaving && session.is_none() {
            crate::pump::try_pump(&inner, entity.id).await;
        } else if leaving {
            // The lock of the session runs meanwhile.
            crate::pump::pump_soon(&inner, entity.id);
        }
        if let Some(session) = session {
            inner.idle.wake_one(entity.id);
            let lock = Lock { entity: entity.id, session, token, unanswered: None, place: Some(place) };
            return PostgresSession::new(inner, entity, lock, millis);
        }
        drop(place);
        if is_more {
            continue;
        }
        if turn.is_none() {
            match inner.idle.join(entity.id) {
                Joined::Polls(own) => turn = Some(own),
                Joined::Waits(woken) => {
                    call.pause(async { turn = woken.await.ok().flatten() }).await;
                    continue;
                }
            }
        }
        let wait = receiver::until_due(wait).map_or(inner.options.poll, |due| due.min(inner.options.poll));
        call.pause(async {
            tokio::select! {
                _ = news.changed() => {}
                () = sleep(wait) => {}
            }
        })
        .await;
    }
    Err(ReceiveError::new(ErrorKind::ServiceTimeout))
}

/// A locked session: its messages in order, and its state. A dropped session is given up in the background.
///
/// When the lock runs out, or is lost with the connection, every call returns [`SessionLockLost`](ErrorKind::SessionLockLost).
pub struct PostgresSession {
    inner: Arc<Inner>,
    id: String,
    receiver: PostgresReceiver,
    lock: Lock,
    lock_duration: Duration,
    /// The next number of a peek.
    peeked: SequenceNumber,
}

/// Dropping it closes the session in the background.
impl Locked for PostgresSession {
    fn give_back(self) -> BoxFuture<()> {
        drop(self);
        Box::pin(std::future::ready(()))
    }
}

impl PostgresSession {
    /// `lock_millis` is how long its lock holds, which may have changed since the entity was looked up.
    fn new(inner: Arc<Inner>, entity: Entity, lock: Lock, lock_millis: Option<i64>) -> Result<Self, ReceiveError> {
        let id = String::from_utf8(lock.session.clone()).map_err(|error| {
            ReceiveError::new(ErrorKind::General).with_detail("a SessionId is not UTF-8").with_source(error)
        })?;
        let lock_millis = lock_millis.and_then(|millis| u64::try_from(millis).ok());
        let lock_duration = lock_millis.map_or(entity.lock, Duration::from_millis);
        let source = Source { entity, part: 0, deletes: false, session: Some((lock.session.clone(), lock.token)) };
        let receiver = PostgresReceiver::new(Arc::clone(&inner), source);
        Ok(Self { inner, id, receiver, lock, lock_duration, peeked: SequenceNumber::new(0) })
    }

    fn named(&self) -> [Parameter<'_>; 3] {
        [(&self.lock.entity, Type::INT8), (&self.lock.session, Type::BYTEA), (&self.lock.token, Type::UUID)]
    }
}

fn lost() -> SettleError {
    SettleError::new(ErrorKind::SessionLockLost)
}

impl Receiver for PostgresSession {
    type Lease = PostgresLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<PostgresLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        Poll::Ready(ready!(self.receiver.poll_receive(cx, max, out)))
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.poll_stopped(cx)
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn entity_info(&self) -> EntityInfo {
        self.receiver.entity_info()
    }
}

impl Session for PostgresSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        &self.id
    }

    fn lock_duration(&self) -> Duration {
        self.lock_duration
    }

    fn renew(&self) -> Self::Renew {
        let (inner, entity, token) = (Arc::clone(&self.inner), self.lock.entity, self.lock.token);
        let session = self.lock.session.clone();
        Box::pin(async move {
            let parameters: [Parameter<'_>; 3] = [(&entity, Type::INT8), (&session, Type::BYTEA), (&token, Type::UUID)];
            let until: Option<i64> = inner.value("SELECT {s}.renew_session($1, $2, $3)", &parameters).await?;
            until.map(Timestamp::from_millis).ok_or_else(lost)
        })
    }

    fn close(mut self) -> Self::Close {
        Box::pin(async move {
            self.receiver.stop();
            // What a receive still locks that was given up is released by its own end. Without a database that could take long, and
            // the end of the session releases it too.
            let stopped = std::future::poll_fn(|cx| self.receiver.poll_stopped(cx));
            let _ = tokio::time::timeout(self.inner.database.timeout, stopped).await;
            let sql = "SELECT {s}.close_session($1, $2, $3)";
            let held: Option<bool> = self.inner.value(sql, &self.named()).await?;
            self.lock.place = None;
            self.inner.arrived(self.lock.entity);
            if held == Some(true) { Ok(()) } else { Err(lost()) }
        })
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        let (inner, entity, token) = (Arc::clone(&self.inner), self.lock.entity, self.lock.token);
        let session = self.lock.session.clone();
        async move {
            let sql = "SELECT state FROM {s}.sessions
                WHERE entity = $1 AND session = $2 AND token = $3 AND until > {s}.now()";
            let parameters: [Parameter<'_>; 3] = [(&entity, Type::INT8), (&session, Type::BYTEA), (&token, Type::UUID)];
            let row = inner.database.row(&inner.sql(sql), &parameters).await?;
            let state: Option<Vec<u8>> = row.ok_or_else(lost)?.try_get(0).map_err(Failure::from)?;
            Ok(state.map(Bytes::from))
        }
    }

    /// A state of more than 1 MiB is refused as [`MessageSizeExceeded`](ErrorKind::MessageSizeExceeded).
    fn set_state(&self, state: Option<Bytes>) -> impl Future<Output = Result<(), SettleError>> + Send + use<> {
        let (inner, entity, token) = (Arc::clone(&self.inner), self.lock.entity, self.lock.token);
        let session = self.lock.session.clone();
        async move {
            if state.as_ref().is_some_and(|state| state.len() > 1 << 20) {
                return Err(SettleError::new(ErrorKind::MessageSizeExceeded).with_detail("a state has at most 1 MiB"));
            }
            let sql = "UPDATE {s}.sessions SET state = $4
                WHERE entity = $1 AND session = $2 AND token = $3 AND until > {s}.now() RETURNING 1";
            let state = state.as_deref();
            let parameters: [Parameter<'_>; 4] =
                [(&entity, Type::INT8), (&session, Type::BYTEA), (&token, Type::UUID), (&state, Type::BYTEA)];
            inner.database.row(&inner.sql(sql), &parameters).await?.map(drop).ok_or_else(lost)
        }
    }

    async fn receive_deferred(
        &mut self,
        numbers: &[SequenceNumber],
    ) -> Result<Vec<Delivery<PostgresLease>>, ReceiveError> {
        receiver::receive_deferred(&self.inner, self.receiver.source(), numbers).await
    }

    async fn peek(&mut self, max: usize) -> Result<Vec<Message>, ReceiveError> {
        let (entity, session) = (self.lock.entity, Some(&self.lock.session));
        let messages = crate::peek::peek(&self.inner, entity, 0, self.peeked, max, session).await?;
        if let Some(last) = messages.last().and_then(Message::received) {
            self.peeked = last.sequence_number.next();
        }
        Ok(messages)
    }
}

impl fmt::Debug for PostgresSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSession").field("session_id", &self.id).finish_non_exhaustive()
    }
}
