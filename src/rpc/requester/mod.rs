//! The client side of calls.

mod answers;
mod builder;
mod call;

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;
use tower_service::Service;

use self::{answers::GatherFuture, call::CallFuture};
pub use self::{
    answers::{Answers, Gather},
    builder::RequesterBuilder,
};
use super::{
    CallError, CallErrorKind, Correlate,
    address::ReplyAddress,
    pending::{Deadline, Key, Pending},
};
use crate::{
    Message,
    message::{InvalidArgument, Properties, text::Token},
    transport::SendError,
};

/// A deadline that never comes: 30 years.
const FAR_AWAY: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// Sends a request and waits for its reply: a `Service<Message, Response = Message>`, so timeouts, limits, retries and load
/// shedding go around it as layers. A [`Gather`] is a request for several replies.
///
/// A request gets a new random `MessageId`, the address of the replies, and the remaining time as its time to live.
/// Where the [transport](RequesterBuilder::capabilities) has no time to live, the property
/// [`x-timeout-ms`](Properties::TIMEOUT) has it. The message's own time to live is the deadline of its call, or else
/// the [default](RequesterBuilder::timeout). One deadline covers the send and the wait.
///
/// Dropping the future of a call cancels the call. A late reply is removed from the reply entity and counted.
///
/// Clones share the table of calls. When the last is dropped and no call waits, [`Replies::run`](super::Replies::run) ends.
pub struct Requester<S> {
    sender: S,
    handle: Arc<Handle>,
}

/// What the requesters of one reply entity share. Closes when the last requester and the last call go.
struct Handle {
    /// Shared with the loop that receives from the entity.
    pending: Arc<Pending>,
    settings: Settings,
}

/// The place of one call, which lets replies come as long as it waits. Dropping it empties the place.
struct Place {
    handle: Arc<Handle>,
    call: Key,
    /// Whether there is nothing in the place any more.
    is_left: bool,
}

/// How requests are correlated, and for how long they wait.
struct Settings {
    timeout: Duration,
    correlate: Correlate,
}

impl Place {
    fn new(handle: &Arc<Handle>, call: Key) -> Self {
        Self { handle: Arc::clone(handle), call, is_left: false }
    }

    /// The reply, or why there is none; nothing is to be asked then any more. Until then it says who looks after the
    /// deadline.
    #[inline]
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Result<Result<Message, CallErrorKind>, Deadline> {
        let answer = self.handle.pending.poll_reply(self.call, cx);
        self.is_left = answer.is_ok();
        answer
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<Message, CallErrorKind>> {
        self.handle.pending.poll_next(self.call, cx)
    }

    fn poll_failed(&self, cx: &mut Context<'_>) -> Poll<CallErrorKind> {
        self.handle.pending.poll_failed(self.call, cx)
    }

    fn has_replies(&self) -> bool {
        self.handle.pending.has_replies(self.call)
    }
}

impl Drop for Place {
    #[inline]
    fn drop(&mut self) {
        if !self.is_left {
            self.handle.pending.remove(self.call);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.pending.close();
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

    /// Fails the calls that wait, and every later one, as [`Closed`](super::CallErrorKind::Closed). The loop of the
    /// replies ends.
    pub fn close(&self) {
        self.handle.pending.close();
    }

    /// Returns how many calls wait for replies.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.handle.pending.len()
    }

    /// Returns how many replies were passed to waiting calls.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.handle.pending.answered()
    }

    /// Returns how many messages at the reply entity had no waiting call: late, repeated, forged, or without a
    /// `CorrelationId`. They are completed.
    #[must_use]
    pub fn orphans(&self) -> u64 {
        self.handle.pending.orphans()
    }

    /// How long the call waits, and until when.
    #[inline]
    fn deadline(&self, request: &Message) -> (Duration, Instant) {
        let timeout = request.time_to_live().unwrap_or(self.handle.settings.timeout);
        // A time to live may be longer than any clock counts.
        let now = Instant::now();
        (timeout, now.checked_add(timeout).unwrap_or_else(|| now + FAR_AWAY))
    }

    /// Gives a request with one reply a place in the table and stamps it.
    fn prepare(&self, request: &mut Message) -> Result<(Place, Instant), CallError> {
        let Handle { pending, settings } = &*self.handle;
        let (timeout, deadline) = self.deadline(request);
        let (call, id, address) = pending.register(deadline).map_err(CallError::not_sent)?;
        let place = Place::new(&self.handle, call);
        stamp(request, settings, address, id, timeout)?;
        Ok((place, deadline))
    }

    /// The same for a request with several.
    fn prepare_several(&self, request: &mut Message, wanted: usize) -> Result<(Place, Instant), CallError> {
        let Handle { pending, settings } = &*self.handle;
        let (timeout, deadline) = self.deadline(request);
        let (call, id, address) = pending.register_several(wanted, deadline).map_err(CallError::not_sent)?;
        let place = Place::new(&self.handle, call);
        stamp(request, settings, address, id, timeout)?;
        Ok((place, deadline))
    }
}

fn stamp(
    request: &mut Message,
    settings: &Settings,
    address: ReplyAddress,
    id: Token,
    timeout: Duration,
) -> Result<(), InvalidArgument> {
    let properties = request.properties_mut();
    if settings.correlate.is_by_correlation_id() {
        properties.set_correlation_token(id);
    }
    if !properties.application_properties().is_empty() {
        // A reply would name that id, and not this one; and there is one deadline.
        properties.application_properties_mut().remove(Properties::ORIGINAL_MESSAGE_ID);
        properties.application_properties_mut().remove(Properties::TIMEOUT);
    }
    properties.set_message_token(id);
    properties.set_shared_reply_to(address.reply_to);
    if let Some(session) = &address.session_id {
        properties.set_reply_to_session_id(session.to_string())?;
    }
    if address.has_time_to_live {
        properties.set_time_to_live(timeout)?;
    } else {
        properties.clear_time_to_live().set_timeout(timeout);
    }
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
        match self.prepare(&mut request) {
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
        match self.prepare_several(&mut request, max.get()) {
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
            .field("reply_to", &self.handle.pending.address().reply_to)
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}
