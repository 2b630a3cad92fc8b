use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use consign_core::{
    message::limits,
    transport::{AcceptSession, BoxFuture, Capabilities, EntityInfo, ErrorKind, ReceiveError, SessionSource},
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    counts::{Count, Counts},
    layout::{lock, slot_of},
    receiver::RabbitMqSession,
    request, slot,
    task::at,
};
use crate::{
    RabbitMq,
    client::Shared,
    error::{Failure, within},
    receiver::{Mode, Settings, Source},
    settings::check_path,
};

/// The source of the sessions of one entity.
///
/// It asks the broker which slots have messages and no reader, and reads these until it has found the session with the oldest
/// one. While there is none it repeats that, for all slots at once and up to four times a second.
pub struct SessionAcceptor {
    client: Arc<Shared>,
    source: Source,
    begun: Arc<Mutex<Begun>>,
    search: Option<BoxFuture<Result<RabbitMqSession, ReceiveError>>>,
}

/// The pause between two searches: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// How long the first message of a slot with messages may take.
const FIRST: Duration = Duration::from_millis(500);
/// How much longer than the first slot with a session another slot may take.
const SLOWER: Duration = Duration::from_secs(3);

/// What an accept that ends early leaves to the next one.
#[derive(Default)]
struct Begun {
    counts: Counts,
    /// When a session was found, while slots with an older one may still be opened.
    found: Option<Instant>,
    /// When the last search ended.
    ended: Option<Instant>,
}

/// The search that goes on.
struct Searching<'a>(MutexGuard<'a, Begun>);

impl<'a> Searching<'a> {
    fn new(mut begun: MutexGuard<'a, Begun>) -> Self {
        // The slots that the last search has opened are given up by then. Those of the session that it found and of older ones
        // are looked at again.
        if begun.ended.is_some_and(|at| at.elapsed() >= slot::KEPT) {
            begun.found = None;
        }
        Self(begun)
    }
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.0.ended = Some(Instant::now());
    }
}

impl RabbitMq {
    /// Locks one session, which may have no message so far. It does not wait for one. It must be called within a runtime.
    ///
    /// # Errors
    ///
    /// `SessionCannotBeLocked` while it is held, or while another client holds a session of the same slot; `InvalidOperation`
    /// for an entity without sessions, or if a channel was wrapped; `InvalidArgument` for an id of more than 128 UTF-16 code
    /// units; `EntityNotFound`.
    pub async fn accept_session(&self, path: &str, id: &str) -> Result<RabbitMqSession, ReceiveError> {
        accept(Arc::clone(&self.0), self.session_source(path)?, id.to_owned()).await
    }

    /// Accepts one session after the other.
    ///
    /// # Errors
    ///
    /// Those of a path; `InvalidOperation` for an entity without sessions, from the first accept if this client does not have
    /// its settings.
    pub fn session_acceptor(&self, path: &str) -> Result<SessionAcceptor, ReceiveError> {
        Ok(SessionAcceptor::new(&self.0, self.session_source(path)?))
    }

    /// As [`session_acceptor`](Self::session_acceptor), with the settings of the entity, which the first accept finds otherwise.
    pub(crate) async fn resolved_acceptor(&self, path: &str) -> Result<SessionAcceptor, ReceiveError> {
        let source = self.session_source(path)?;
        source.resolve(&self.0).await?;
        source.check_sessions()?;
        Ok(SessionAcceptor::new(&self.0, source))
    }

    fn session_source(&self, path: &str) -> Result<Source, ReceiveError> {
        let path = check_path(path)?;
        if self.0.entities.is_subject_from_routing_key(&path) {
            let why = "a queue with sessions does not take the Subject from routing keys: those are of its slots";
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail(why));
        }
        let settings = Settings::kept(&self.0, &path);
        let (mode, has_delivery_limit) = (Mode::PeekLock, Arc::default());
        let source = Source { path, mode, settings, subject_from_routing_key: false, has_delivery_limit };
        if source.settings.is_found() || source.path.is_sub_queue() {
            source.check_sessions()?;
        }
        Ok(source)
    }
}

async fn accept(client: Arc<Shared>, source: Source, id: String) -> Result<RabbitMqSession, ReceiveError> {
    if id.encode_utf16().count() > limits::ID {
        let why = "a session id has at most 128 UTF-16 code units";
        return Err(ReceiveError::new(ErrorKind::InvalidArgument).with_detail(why));
    }
    source.resolve(&client).await?;
    source.check_sessions()?;
    let pin = client.slots.pin(&client, &source, slot_of(&id, source.settings.session_slots));
    pin.ready().await?;
    pin.seen();
    pin.hold(&id).map(RabbitMqSession::new)
}

/// Finds a session. It locks nothing but its result. If it is dropped, and the next search follows within 1 s, that one continues
/// with what it has begun: the answers of the broker, and the slots that it opens. Otherwise accepts with a timeout that is
/// shorter than a search would find nothing, and their requests and the slots that they open and release would keep other clients
/// from theirs.
async fn search(
    client: Arc<Shared>,
    source: Source,
    begun: Arc<Mutex<Begun>>,
) -> Result<RabbitMqSession, ReceiveError> {
    source.resolve(&client).await?;
    source.check_sessions()?;
    let mut searching = Searching::new(begun.lock().await);
    let begun = &mut *searching.0;
    let mut pause = PAUSES.0;
    loop {
        let changed = client.slots.changed.notified();
        // An accept may end before the answer arrives: its pins keep these slots open for the next one.
        let unseen = client.slots.pin_unseen(&source);
        let (channel, counted) = begun.counts.ask(&client, &source).await?;
        let Candidates { pins: candidates, elsewhere } = candidates(&client, &source, &counted);
        drop(unseen);
        let open = open(candidates, &mut begun.found).await?;
        let mut oldest: Vec<_> = open.iter().filter_map(|pin| Some((pin.slot().oldest()?, pin))).collect();
        oldest.sort_by(|one, two| one.0.cmp(&two.0));
        for ((_, id), pin) in oldest {
            // Another search may have been faster.
            if let Ok(hold) = pin.hold(&id) {
                return Ok(RabbitMqSession::new(hold));
            }
        }
        drop(open);
        if !elsewhere.is_empty() {
            // A client with two more slots than this one gives one up, so one request at a time is enough.
            let lock = lock(&source.path, elsewhere[fastrand::usize(..elsewhere.len())], source.settings.session_slots);
            let (kept, _) = client.slots.count(&source);
            within(client.link.deadline(), "basic.publish", request::publish(&channel.channel, lock, kept)).await?;
        }
        tokio::select! {
            () = changed => {}
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

struct Candidates {
    /// Slots that may have a session to accept.
    pins: Vec<slot::Pin>,
    /// Slots of other clients.
    elsewhere: Vec<u16>,
}

fn candidates(client: &Arc<Shared>, source: &Source, counted: &[Count]) -> Candidates {
    let (mut pins, mut elsewhere) = (Vec::new(), Vec::new());
    for (slot, count) in (0..).zip(counted) {
        if let Some(pin) = client.slots.pin_open(source, slot) {
            pins.push(pin);
            continue;
        }
        if client.slots.is_handed_over(source, slot) {
            continue;
        }
        if count.is_free() || client.slots.was_left(source, slot) {
            pins.push(client.slots.pin(client, source, slot));
        } else if count.readers > 0 {
            elsewhere.push(slot);
        }
    }
    Candidates { pins, elsewhere }
}

/// Opens slots to be looked at. It waits for all of them, as the oldest session may be in the last one, but not longer than `SLOWER`
/// after the first session is found: another client may be about to get a slot.
async fn open(candidates: Vec<slot::Pin>, found: &mut Option<Instant>) -> Result<Vec<slot::Pin>, Failure> {
    let mut opening: FuturesUnordered<_> = candidates.into_iter().map(first).collect();
    let mut open = Vec::new();
    loop {
        let end = found.map(|at| at + SLOWER);
        tokio::select! {
            biased;
            opened = opening.next() => match opened {
                Some(Ok(pin)) => {
                    if pin.slot().oldest().is_some() {
                        found.get_or_insert_with(Instant::now);
                    }
                    open.push(pin);
                }
                Some(Err(failure)) if failure.kind() == ErrorKind::SessionCannotBeLocked => {}
                Some(Err(failure)) => {
                    *found = None;
                    return Err(failure);
                }
                None => break,
            },
            () = at(end) => break,
        }
    }
    *found = None;
    open.iter().for_each(slot::Pin::seen);
    Ok(open)
}

/// Waits until a slot is open and, if it is new, until its first message has arrived.
async fn first(pin: slot::Pin) -> Result<slot::Pin, Failure> {
    let opened = pin.ready().await?;
    if !pin.slot().is_unseen() {
        return Ok(pin);
    }
    let arrived = async {
        loop {
            let changed = pin.slot().client.slots.changed.notified();
            if pin.slot().state().arrived > 0 {
                break;
            }
            changed.await;
        }
    };
    // Another may have read it meanwhile. Accepts that end early share this time, so that they do not wait for it again and again.
    let _ = timeout_at(opened + FIRST, arrived).await;
    Ok(pin)
}

impl SessionAcceptor {
    fn new(client: &Arc<Shared>, source: Source) -> Self {
        Self { client: Arc::clone(client), source, begun: Arc::default(), search: None }
    }

    /// Waits for a session that has messages and no holder.
    pub async fn accept_next(&mut self) -> Result<RabbitMqSession, ReceiveError> {
        let waiting = Waiting(self);
        poll_fn(|cx| waiting.0.poll_accept(cx)).await
    }

    /// Accepts the next session, like [`accept_next`](Self::accept_next), or fails as `ServiceTimeout` after `wait`.
    pub async fn accept_next_within(&mut self, wait: Duration) -> Result<RabbitMqSession, ReceiveError> {
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

impl SessionSource for SessionAcceptor {
    type Session = RabbitMqSession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<RabbitMqSession, ReceiveError>> {
        let (client, source, begun) = (&self.client, &self.source, &self.begun);
        let search =
            self.search.get_or_insert_with(|| Box::pin(search(Arc::clone(client), source.clone(), Arc::clone(begun))));
        let found = std::task::ready!(Pin::new(search).poll(cx));
        self.search = None;
        Poll::Ready(found)
    }

    fn stop(&mut self) {
        self.search = None;
    }

    fn entity_info(&self) -> EntityInfo {
        self.source.info()
    }
}

impl AcceptSession for SessionAcceptor {
    type Session = RabbitMqSession;
    type Accept = BoxFuture<Result<RabbitMqSession, ReceiveError>>;

    fn accept(&mut self, id: &str) -> Self::Accept {
        Box::pin(accept(Arc::clone(&self.client), self.source.clone(), id.to_owned()))
    }

    fn capabilities(&self) -> Capabilities {
        RabbitMq::CAPABILITIES
    }
}

impl fmt::Debug for SessionAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAcceptor").field("path", &self.source.path).finish_non_exhaustive()
    }
}
