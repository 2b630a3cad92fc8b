use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use consign_core::{
    message::EntityPath,
    transport::{AcceptSession, BoxFuture, Capabilities, EntityInfo, ErrorKind, ReceiveError, SessionSource},
};
use futures_util::StreamExt;
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::{NatsSession, accept};
use crate::{Nats, error::Fault, session_lock, source::Source};

/// The source of the sessions of one entity.
///
/// It finds the session with the oldest message by reading messages from the oldest on, so with many messages in held sessions
/// it reads many. While there is none it listens for new messages and released locks, and checks once a second for locks that
/// have run out.
pub struct SessionAcceptor {
    entity: Arc<Source>,
    /// The search, in a task of its own: dropped half-way it would leave a lock. It ends when the other end of the channel is
    /// dropped, and a session that it finds then is given up.
    search: Option<Search>,
}

type Search = (JoinHandle<Result<NatsSession, ReceiveError>>, oneshot::Sender<()>);

/// How often it checks for locks that have run out.
const AGAIN: Duration = Duration::from_secs(1);

impl Nats {
    /// Locks one session, which may have no message so far. It does not wait.
    ///
    /// # Errors
    ///
    /// [`SessionCannotBeLocked`](ErrorKind::SessionCannotBeLocked) while another holds it;
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for an entity without sessions;
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an id of more than 128 UTF-16 code units; those of
    /// [`receiver`](Self::receiver).
    pub async fn accept_session(&self, path: &str, id: &str) -> Result<NatsSession, ReceiveError> {
        let entity = self.inner.source(&EntityPath::new(path)?).await?;
        accept::accept_in_task(entity, id.to_owned()).await
    }

    /// Accepts one session after the other.
    ///
    /// # Errors
    ///
    /// Those of [`accept_session`](Self::accept_session).
    pub async fn session_acceptor(&self, path: &str) -> Result<SessionAcceptor, ReceiveError> {
        let entity = self.inner.source(&EntityPath::new(path)?).await?;
        if !entity.settings.requires_session || entity.is_dead_letter() {
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the entity has no sessions"));
        }
        Ok(SessionAcceptor { entity, search: None })
    }
}

impl SessionAcceptor {
    /// Waits for a session that has messages and no holder.
    pub async fn accept_next(&mut self) -> Result<NatsSession, ReceiveError> {
        let waiting = Waiting(self);
        poll_fn(|cx| waiting.0.poll_accept(cx)).await
    }

    /// Accepts the next session, like [`accept_next`](Self::accept_next), or fails as
    /// [`ServiceTimeout`](ErrorKind::ServiceTimeout) after `wait`.
    pub async fn accept_next_within(&mut self, wait: Duration) -> Result<NatsSession, ReceiveError> {
        match timeout(wait, self.accept_next()).await {
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

/// Reads the sent messages as they arrive: a subscription buffers unread messages with their payloads.
async fn watch_sent(sent: &mut async_nats::Subscriber, changed: &Notify) {
    while sent.next().await.is_some() {
        changed.notify_one();
    }
    // The connection is closed.
    changed.notify_one();
}

/// Reads the records of the locks, for those that another holder releases. Holders write their records all the time.
async fn watch_locks(locks: &mut async_nats::Subscriber, changed: &Notify) {
    while let Some(written) = locks.next().await {
        if session_lock::is_free(written.headers.as_ref()) {
            changed.notify_one();
        }
    }
}

async fn search(entity: Arc<Source>, given_up: oneshot::Receiver<()>) -> Result<NatsSession, ReceiveError> {
    let broken = |error: async_nats::SubscribeError| Fault::new(ErrorKind::CommunicationProblem, error.to_string());
    let inner = &entity.inner;
    // Subscribe first, then search: so no message in between is missed.
    let mut sent = inner.client.subscribe(entity.subjects.clone()).await.map_err(broken)?;
    let mut locks = inner.client.subscribe(entity.beside.any_session()).await.map_err(broken)?;
    let changed = Notify::new();
    let watching = async {
        tokio::join!(watch_sent(&mut sent, &changed), watch_locks(&mut locks, &changed));
        std::future::pending().await
    };
    tokio::select! {
        found = find(&entity, given_up, &changed) => found,
        never = watching => never,
    }
}

async fn find(
    entity: &Arc<Source>,
    mut given_up: oneshot::Receiver<()>,
    changed: &Notify,
) -> Result<NatsSession, ReceiveError> {
    loop {
        if entity.inner.is_closed() {
            return Err(Fault::closed().into());
        }
        if let Some(fan_out) = &entity.fan_out {
            fan_out.check()?;
        }
        if let Some(session) = accept::accept_oldest(entity).await? {
            return Ok(session);
        }
        tokio::select! {
            _ = &mut given_up => return Err(ReceiveError::new(ErrorKind::ServiceTimeout)),
            () = changed.notified() => {}
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

impl SessionSource for SessionAcceptor {
    type Session = NatsSession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<NatsSession, ReceiveError>> {
        let (task, _) = self.search.get_or_insert_with(|| {
            let (keep, given_up) = oneshot::channel();
            (tokio::spawn(search(Arc::clone(&self.entity), given_up)), keep)
        });
        let Poll::Ready(found) = Pin::new(task).poll(cx) else { return Poll::Pending };
        self.search = None;
        Poll::Ready(found.unwrap_or_else(|error| Err(Fault::new(ErrorKind::General, error.to_string()).into())))
    }

    fn stop(&mut self) {
        self.search = None;
    }

    fn entity_info(&self) -> EntityInfo {
        self.entity.info()
    }
}

impl AcceptSession for SessionAcceptor {
    type Session = NatsSession;
    type Accept = BoxFuture<Result<NatsSession, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        Box::pin(accept::accept_in_task(Arc::clone(&self.entity), id.to_owned()))
    }

    fn capabilities(&self) -> Capabilities {
        Nats::CAPABILITIES
    }
}

impl fmt::Debug for SessionAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAcceptor").field("searching", &self.search.is_some()).finish_non_exhaustive()
    }
}
