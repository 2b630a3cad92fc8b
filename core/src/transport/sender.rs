use std::{
    fmt,
    future::{Future, poll_fn},
    task::{Context, Poll},
};

use tower_service::Service;

use super::{Capabilities, SendError};
use crate::{Message, message::Properties};

/// Where messages go. The future of a send ends when the broker has accepted or rejected the message.
pub trait Sender: Send + Sync + 'static {
    /// The future of a send. Dropping it leaves the outcome unknown; it never means "cancelled".
    type Send: Future<Output = Result<(), SendError>> + Send + 'static;

    /// Sends one message.
    fn send(&self, message: Message) -> Self::Send;

    /// Sends several messages as one transfer: all are accepted, or none is.
    fn send_batch(&self, batch: Batch) -> Self::Send;

    /// Returns the capabilities of the transport of this sender. A policy that needs more, as
    /// [`DelayedRetries`](consign::middleware::retry::DelayedRetries) may, is refused when it is built. The default
    /// claims nothing.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }
}

/// Messages that are sent as one transfer.
#[derive(Clone, Debug, Default)]
pub struct Batch(pub Vec<Message>);

impl Batch {
    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the batch has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes of all messages: bodies and properties.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.iter().fold(0, |sum, message| sum.saturating_add(message.size()))
    }

    /// Returns the messages.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.0
    }

    /// Returns the messages.
    #[must_use]
    pub fn into_messages(self) -> Vec<Message> {
        self.0
    }
}

impl From<Vec<Message>> for Batch {
    fn from(messages: Vec<Message>) -> Self {
        Self(messages)
    }
}

impl<const N: usize> From<[Message; N]> for Batch {
    fn from(messages: [Message; N]) -> Self {
        Self(messages.into())
    }
}

impl FromIterator<Message> for Batch {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self(messages.into_iter().collect())
    }
}

/// A request of a sending stack: one message, a batch, or a value that is still to be encoded. A layer that works
/// through this trait cannot skip a path.
pub trait Outbound {
    /// Calls `f` on the properties of each message.
    fn each_properties(&mut self, f: &mut dyn FnMut(&mut Properties));

    /// Returns whether `f` answers `true` to the properties of every message. It spares a message that others share the copy
    /// that a change takes.
    fn all_properties(&self, f: &mut dyn FnMut(&Properties) -> bool) -> bool;
}

impl Outbound for Message {
    fn each_properties(&mut self, f: &mut dyn FnMut(&mut Properties)) {
        f(self.properties_mut());
    }

    #[inline]
    fn all_properties(&self, f: &mut dyn FnMut(&Properties) -> bool) -> bool {
        f(self.properties())
    }
}

impl Outbound for Batch {
    fn each_properties(&mut self, f: &mut dyn FnMut(&mut Properties)) {
        self.0.iter_mut().for_each(|message| f(message.properties_mut()));
    }

    fn all_properties(&self, f: &mut dyn FnMut(&Properties) -> bool) -> bool {
        self.0.iter().all(|message| f(message.properties()))
    }
}

/// `send` on every sending stack.
pub trait SendExt {
    /// Makes the stack ready and sends one request: a message, a batch, or a value that a layer encodes.
    fn send<R>(&mut self, request: R) -> impl Future<Output = Result<(), SendError>>
    where
        Self: Service<R, Response = ()>,
        Self::Error: Into<SendError>,
    {
        async move {
            poll_fn(|cx| self.poll_ready(cx)).await.map_err(Into::into)?;
            self.call(request).await.map_err(Into::into)
        }
    }
}

impl<S> SendExt for S {}

/// A [`Sender`] as the innermost service of a sending stack.
#[derive(Clone)]
pub struct SendService<S>(S);

impl<S: Sender> SendService<S> {
    /// The service that sends by `sender`.
    pub fn new(sender: S) -> Self {
        Self(sender)
    }
}

impl<S> fmt::Debug for SendService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendService").finish_non_exhaustive()
    }
}

impl<S: Sender> Service<Message> for SendService<S> {
    type Response = ();
    type Error = SendError;
    type Future = S::Send;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, message: Message) -> S::Send {
        self.0.send(message)
    }
}

impl<S: Sender> Service<Batch> for SendService<S> {
    type Response = ();
    type Error = SendError;
    type Future = S::Send;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, batch: Batch) -> S::Send {
        self.0.send_batch(batch)
    }
}
