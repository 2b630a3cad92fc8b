//! The side that asks.

mod answers;
mod builder;
mod call;

use std::{
    fmt,
    num::NonZeroUsize,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use tower_service::Service;

pub use self::{
    answers::{Answers, Gather, GatherFuture},
    builder::{BuildError, RequesterBuilder},
    call::CallFuture,
};
use super::{
    CallError, Correlate,
    correlate::ORIGINAL_ID,
    pending::{Pending, Ticket},
};
use crate::{Message, message::InvalidArgument, transport::SendError};

/// A deadline that never comes: 30 years.
const FAR_AWAY: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// Sends a request and waits for its reply: a `Service<Message, Response = Message>`, so timeouts, limits, retries and load
/// shedding go around it as layers. A [`Gather`] is a request for several replies.
///
/// A request gets a new random `MessageId`, the address of the replies, and the time that is left as its time to live. The
/// message's own time to live is the deadline of its call, or else the [default](RequesterBuilder::timeout). One deadline
/// covers the send and the wait.
///
/// Dropping the future of a call gives the call up. Its late reply is taken out of the reply entity and counted.
///
/// Clones share the table of calls. When the last is dropped and no call waits, [`Replies::run`](super::Replies::run) ends.
pub struct Requester<S> {
    sender: S,
    handle: Arc<Handle>,
}

/// What the requesters of one reply entity share with the loop that receives from it.
pub(super) struct Shared {
    pub(super) pending: Arc<Pending>,
    pub(super) closed: Notify,
}

/// Closes when the last requester and the last call go.
struct Handle {
    shared: Arc<Shared>,
    settings: Settings,
}

/// The place of one call, which lets replies come as long as it waits.
struct Place {
    ticket: Ticket,
    _open: Arc<Handle>,
}

/// What is stamped on each request, and for how long it is waited.
struct Settings {
    reply_to: Box<str>,
    reply_to_session_id: Option<Box<str>>,
    timeout: Duration,
    correlate: Correlate,
}

impl Shared {
    fn close(&self) {
        self.pending.close();
        self.closed.notify_one();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl<S> Requester<S> {
    /// Builds a requester whose requests go through `sender`, a stack whose innermost service sends to the entity of the
    /// responders: a queue, or a topic for requests to many.
    pub fn builder(sender: S) -> RequesterBuilder<S> {
        RequesterBuilder::new(sender)
    }

    /// A requester that sends elsewhere, to another queue or to a topic, and shares everything else: the reply entity, the
    /// table of calls and its bound.
    #[must_use]
    pub fn with_sender<T>(&self, sender: T) -> Requester<T> {
        Requester { sender, handle: Arc::clone(&self.handle) }
    }

    /// Fails the calls that wait, and every later one, as [`Closed`](super::CallErrorKind::Closed). The loop of the replies ends.
    pub fn close(&self) {
        self.handle.shared.close();
    }

    /// How many calls wait for replies.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.handle.shared.pending.len()
    }

    /// How many replies were handed to the calls that waited for them.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.handle.shared.pending.answered()
    }

    /// How many messages came to the reply entity that no call waited for: late, repeated, forged, or without a
    /// `CorrelationId`. They are completed.
    #[must_use]
    pub fn orphans(&self) -> u64 {
        self.handle.shared.pending.orphans()
    }

    /// Gives the request a place in the table and stamps it.
    fn prepare(&self, request: &mut Message, wanted: usize) -> Result<(Place, Instant), CallError> {
        let Handle { shared, settings } = &*self.handle;
        let timeout = request.time_to_live().unwrap_or(settings.timeout);
        // A time to live may be longer than any clock counts.
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or_else(|| now + FAR_AWAY);
        let ticket = shared.pending.register(wanted, deadline).map_err(CallError::not_sent)?;
        stamp(request, settings, ticket.id().text(), timeout)?;
        let place = Place { ticket, _open: Arc::clone(&self.handle) };
        Ok((place, deadline))
    }
}

fn stamp(request: &mut Message, settings: &Settings, id: String, timeout: Duration) -> Result<(), InvalidArgument> {
    let properties = request.properties_mut();
    if settings.correlate != Correlate::MessageId {
        properties.set_correlation_id(id.clone());
    }
    if properties.application().get(ORIGINAL_ID).is_some() {
        // A reply would name that id, and not this one.
        properties.application_mut().remove(ORIGINAL_ID);
    }
    properties.set_message_id(id)?;
    properties.set_reply_to(settings.reply_to.to_string());
    if let Some(session) = &settings.reply_to_session_id {
        properties.set_reply_to_session_id(session.to_string())?;
    }
    properties.set_time_to_live(timeout)?;
    Ok(())
}

impl<S> Service<Message> for Requester<S>
where
    S: Service<Message, Response = ()>,
    S::Error: Into<SendError>,
{
    type Response = Message;
    type Error = CallError;
    type Future = CallFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        self.sender.poll_ready(cx).map_err(|error| error.into().into())
    }

    fn call(&mut self, mut request: Message) -> CallFuture<S::Future> {
        match self.prepare(&mut request, 1) {
            Ok((place, deadline)) => CallFuture::sending(self.sender.call(request), place, deadline),
            Err(error) => CallFuture::refused(error),
        }
    }
}

impl<S> Service<Gather> for Requester<S>
where
    S: Service<Message, Response = ()>,
    S::Error: Into<SendError>,
{
    type Response = Answers;
    type Error = CallError;
    type Future = GatherFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        self.sender.poll_ready(cx).map_err(|error| error.into().into())
    }

    fn call(&mut self, gather: Gather) -> GatherFuture<S::Future> {
        let Gather { mut request, max } = gather;
        match self.prepare(&mut request, NonZeroUsize::get(max)) {
            Ok((place, deadline)) => GatherFuture::sending(self.sender.call(request), place, deadline, max),
            Err(error) => GatherFuture::refused(error),
        }
    }
}

impl<S: Clone> Clone for Requester<S> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), handle: Arc::clone(&self.handle) }
    }
}

impl<S> fmt::Debug for Requester<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requester")
            .field("reply_to", &self.handle.settings.reply_to)
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
