use std::{
    collections::HashSet,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use consign_core::{
    message::EntityPath,
    transport::{AcceptSession, BoxFuture, Capabilities, EntityInfo, ErrorKind, ReceiveError, SessionSource},
};
use tokio::time::Instant;

use super::ServiceBusSession;
use crate::{
    capabilities::CAPABILITIES,
    core::Core,
    error::Failure,
    management::sessions,
    receiver::{Live, Mode, Source, Wanted, attach},
    retry::{Effect, repeat, retry},
};

/// The source of the sessions of one entity.
pub struct ServiceBusSessions {
    core: Arc<Core>,
    path: EntityPath,
    /// The link that waits for a session. Dropped, it is detached, with a session that it may have locked.
    next: Option<BoxFuture<Result<ServiceBusSession, Failure>>>,
}

impl ServiceBusSessions {
    /// Creates a source, after it has checked that the entity has sessions.
    pub(crate) async fn open(core: &Arc<Core>, path: &EntityPath) -> Result<Self, Failure> {
        if path.is_sub_queue() {
            return Err(Failure::new(ErrorKind::InvalidOperation, "a sub-queue has no sessions"));
        }
        let listing = core.manage(path, Effect::Repeatable, |management| async move { management.sessions(0).await });
        match listing.await {
            // The accept says more.
            Err(failure) if matches!(failure.kind(), ErrorKind::General | ErrorKind::NotSupported) => {}
            listed => drop(listed?),
        }
        Ok(Self { core: Arc::clone(core), path: path.clone(), next: None })
    }

    /// Waits for a session that has messages and no holder.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no lock.
    pub async fn accept_next(&mut self) -> Result<ServiceBusSession, ReceiveError> {
        let waiting = Waiting(self);
        poll_fn(|cx| waiting.0.poll_accept(cx)).await
    }

    /// Accepts the next session, like [`accept_next`](Self::accept_next), or fails as
    /// [`ServiceTimeout`](ErrorKind::ServiceTimeout) after `wait`.
    ///
    /// # Errors
    ///
    /// Those of [`accept_next`](Self::accept_next).
    pub async fn accept_next_within(&mut self, wait: Duration) -> Result<ServiceBusSession, ReceiveError> {
        match tokio::time::timeout(wait, self.accept_next()).await {
            Ok(accepted) => accepted,
            Err(_) => Err(ReceiveError::new(ErrorKind::ServiceTimeout).with_detail("no session")),
        }
    }

    /// Returns the ids of the sessions that have messages or a state.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn list(&self) -> Result<Vec<String>, ReceiveError> {
        let mut all = Pages::default();
        loop {
            let skip = all.read;
            let page = self
                .core
                .manage(&self.path, Effect::Repeatable, |management| async move { management.sessions(skip).await });
            let page = page.await?;
            let is_last = page.len() < usize::from(sessions::PAGE);
            let is_new = all.add(page);
            if is_last {
                return Ok(all.ids);
            }
            if !is_new {
                let failure = Failure::new(ErrorKind::General, "the server has sent a page of sessions again");
                return Err(failure.for_good().into());
            }
        }
    }
}

/// The sessions of the pages so far.
#[derive(Default)]
struct Pages {
    ids: Vec<String>,
    seen: HashSet<String>,
    /// Those that were there before are among them.
    read: usize,
}

impl Pages {
    /// Adds a page. Returns whether it has a session that was not there before.
    fn add(&mut self, page: Vec<String>) -> bool {
        let before = self.ids.len();
        self.read += page.len();
        self.ids.extend(page.into_iter().filter(|id| self.seen.insert(id.clone())));
        self.ids.len() > before
    }
}

struct Waiting<'s>(&'s mut ServiceBusSessions);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Attaches a link for a session, once.
async fn accept(core: &Arc<Core>, path: &EntityPath, wanted: Wanted) -> Result<ServiceBusSession, Failure> {
    let attached = attach(core, path, Mode::PeekLock, Some(wanted)).await?;
    let Some(session) = attached.session(core.now()) else {
        return Err(Failure::new(ErrorKind::General, "the server did not name the session").for_good());
    };
    let mut source = Source::new(core, path.clone(), Mode::PeekLock);
    source.session = Some(Arc::new(session));
    let source = Arc::new(source);
    let live = Live::new(attached, Arc::clone(&source));
    Ok(ServiceBusSession::new(source, live))
}

/// A server that does not wait as long as requested may have a session at any time: the pauses double so often at most.
const MOST_EARLY: u32 = 3;

/// Waits until a session is free. The server waits for a part of the timeout of a call at a time.
async fn accept_next(core: Arc<Core>, path: EntityPath) -> Result<ServiceBusSession, Failure> {
    let wait = core.options.timeout * 3 / 4;
    // Whether the last link was refused, or has ended, for the lack of a token.
    let was_unauthorized = AtomicBool::new(false);
    // How often in a row the server has not waited.
    let mut early = 0_u32;
    loop {
        let began = Instant::now();
        let attempt = || async {
            match accept(&core, &path, Wanted::Next(wait)).await {
                // There was none: it is no failure.
                Err(failure) if failure.condition() == Some("com.microsoft:timeout") => {
                    was_unauthorized.store(false, Ordering::Relaxed);
                    Ok(None)
                }
                // The token may have expired while the server waited. The next link decides.
                Err(failure)
                    if failure.kind() == ErrorKind::Unauthorized
                        && failure.has_ended()
                        && !was_unauthorized.swap(true, Ordering::Relaxed) =>
                {
                    Ok(None)
                }
                accepted => accepted.map(Some),
            }
        };
        // Each step of an attempt has its timeout. The time that the server waits is none of them.
        if let Some(session) = repeat(&core, Effect::Repeatable, attempt, drop).await? {
            return Ok(session);
        }
        early = if began.elapsed() < wait / 2 { early + 1 } else { 0 };
        if early > 0 {
            tokio::time::sleep(core.pause((early - 1).min(MOST_EARLY))).await;
        }
    }
}

impl SessionSource for ServiceBusSessions {
    type Session = ServiceBusSession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<ServiceBusSession, ReceiveError>> {
        let next = self.next.get_or_insert_with(|| Box::pin(accept_next(Arc::clone(&self.core), self.path.clone())));
        let accepted = ready!(next.as_mut().poll(cx));
        self.next = None;
        Poll::Ready(Ok(accepted?))
    }

    fn stop(&mut self) {
        self.next = None;
    }

    fn entity_info(&self) -> EntityInfo {
        EntityInfo::new(self.path.as_str())
    }
}

impl AcceptSession for ServiceBusSessions {
    type Session = ServiceBusSession;
    type Accept = BoxFuture<Result<ServiceBusSession, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        let (core, path, id) = (Arc::clone(&self.core), self.path.clone(), id.to_owned());
        Box::pin(async move {
            let accepting = || accept(&core, &path, Wanted::Named(id.clone()));
            Ok(retry(&core, Effect::Repeatable, accepting).await?)
        })
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
}

impl std::fmt::Debug for ServiceBusSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceBusSessions").field("path", &self.path).finish_non_exhaustive()
    }
}
