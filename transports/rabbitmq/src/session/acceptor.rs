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
use futures_util::future::{join_all, try_join_all};
use lapin::{options::QueueDeclareOptions, types::FieldTable};
use tokio::time::{sleep, timeout};

use super::{
    layout::{lock, queue, slot_of},
    receiver::RabbitMqSession,
    request, slot,
};
use crate::{
    RabbitMq,
    client::Shared,
    error::{Failure, within},
    link::Leased,
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
    search: Option<BoxFuture<Result<RabbitMqSession, ReceiveError>>>,
}

/// The pause between two searches: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// How long the first message of a slot with messages may take.
const FIRST: Duration = Duration::from_millis(500);

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
        Ok(SessionAcceptor { client: Arc::clone(&self.0), source: self.session_source(path)?, search: None })
    }

    /// As [`session_acceptor`](Self::session_acceptor), with the settings of the entity, which the first accept finds otherwise.
    pub(crate) async fn resolved_acceptor(&self, path: &str) -> Result<SessionAcceptor, ReceiveError> {
        let source = self.session_source(path)?;
        source.resolve(&self.0).await?;
        source.check_sessions()?;
        Ok(SessionAcceptor { client: Arc::clone(&self.0), source, search: None })
    }

    fn session_source(&self, path: &str) -> Result<Source, ReceiveError> {
        let path = check_path(path)?;
        if self.0.entities.is_subject_from_routing_key(&path) {
            let why = "a queue with sessions does not take the Subject from routing keys: those are of its slots";
            return Err(ReceiveError::new(ErrorKind::InvalidOperation).with_detail(why));
        }
        let settings = Settings::kept(&self.0, &path);
        let source = Source { path, mode: Mode::PeekLock, settings, subject_from_routing_key: false };
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
    pin.hold(&id).map(RabbitMqSession::new)
}

/// Finds a session. It locks nothing but its result: slots that it keeps open are given up when it is dropped.
async fn search(client: Arc<Shared>, source: Source) -> Result<RabbitMqSession, ReceiveError> {
    source.resolve(&client).await?;
    source.check_sessions()?;
    let mut asking: Option<Leased> = None;
    let mut pause = PAUSES.0;
    loop {
        let changed = client.slots.changed.notified();
        let channel = match asking.take().filter(|leased| leased.channel.status().connected()) {
            Some(channel) => channel,
            None => client.link.channel().await?,
        };
        let Candidates { pins: candidates, elsewhere } = candidates(&client, &source, &channel).await?;
        let opened = join_all(candidates.into_iter().map(|(pin, has_some)| first(pin, has_some))).await;
        let mut open = Vec::new();
        for pin in opened {
            match pin {
                Ok(pin) => open.push(pin),
                Err(failure) if failure.kind() == ErrorKind::SessionCannotBeLocked => {}
                Err(failure) => return Err(failure.into()),
            }
        }
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
        asking = Some(channel);
        tokio::select! {
            () = changed => {}
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

struct Candidates {
    /// Slots that may have a session to accept, and whether a message is in transit.
    pins: Vec<(slot::Pin, bool)>,
    /// Slots of other clients.
    elsewhere: Vec<u16>,
}

async fn candidates(client: &Arc<Shared>, source: &Source, leased: &Leased) -> Result<Candidates, Failure> {
    let slots = source.settings.session_slots;
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
    let declaring = try_join_all((0..slots).map(|slot| {
        leased.channel.queue_declare(queue(&source.path, slot, slots).into(), options, FieldTable::default())
    }));
    let counts = within(client.link.deadline(), "queue.declare", declaring).await?;
    let (mut pins, mut elsewhere) = (Vec::new(), Vec::new());
    for (slot, counted) in (0..slots).zip(counts) {
        let is_free = counted.message_count() > 0 && counted.consumer_count() == 0;
        if let Some(pin) = client.slots.pin_open(source, slot) {
            pins.push((pin, false));
            continue;
        }
        if client.slots.is_handed_over(source, slot) {
            continue;
        }
        if is_free || client.slots.was_left(source, slot) {
            pins.push((client.slots.pin(client, source, slot), true));
        } else if counted.consumer_count() > 0 {
            elsewhere.push(slot);
        }
    }
    Ok(Candidates { pins, elsewhere })
}

/// Waits until a slot is open and, if it should have messages, until the first has come.
async fn first(pin: slot::Pin, has_some: bool) -> Result<slot::Pin, Failure> {
    pin.ready().await?;
    if !has_some {
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
    // Another may have read it meanwhile.
    let _ = timeout(FIRST, arrived).await;
    Ok(pin)
}

impl SessionAcceptor {
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
        let (client, source) = (&self.client, &self.source);
        let search = self.search.get_or_insert_with(|| Box::pin(search(Arc::clone(client), source.clone())));
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
