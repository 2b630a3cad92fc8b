use std::{
    fmt,
    future::{Future, poll_fn},
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use super::{Batch, Capabilities, SendError};
use crate::{Message, time::Clock};

/// Sends messages to a queue or a topic. The future of a send ends when the broker has accepted or rejected the message.
///
/// # Examples
///
/// A bounded channel of tokio as a sender:
///
/// ```
/// use consign::{
///     Message,
///     transport::{Batch, BoxFuture, ErrorKind, SendError, Sender},
/// };
/// use tokio::sync::mpsc;
///
/// struct Channel(mpsc::Sender<Message>);
///
/// impl Sender for Channel {
///     type Send = BoxFuture<Result<(), SendError>>;
///
///     fn send(&self, message: Message) -> Self::Send {
///         self.send_batch(Batch::from([message]))
///     }
///
///     fn send_batch(&self, batch: Batch) -> Self::Send {
///         let channel = self.0.clone();
///         Box::pin(async move {
///             let closed = |_| SendError::new(ErrorKind::EntityNotFound);
///             let permits = channel.reserve_many(batch.len()).await.map_err(closed)?;
///             permits.zip(batch.into_messages()).for_each(|(permit, message)| permit.send(message));
///             Ok(())
///         })
///     }
/// }
///
/// # tokio_test::block_on(async {
/// let (sender, mut receiver) = mpsc::channel(10);
/// Channel(sender).send(Message::new("one order")).await?;
/// assert_eq!(receiver.recv().await.as_ref().and_then(Message::payload), Some(&b"one order"[..]));
/// # Ok::<(), SendError>(())
/// # }).unwrap();
/// ```
pub trait Sender: Send + Sync + 'static {
    /// The future of a send. If it is dropped, the outcome is unknown: the message may be sent or not.
    type Send: Future<Output = Result<(), SendError>> + Send + 'static;

    /// Sends one message.
    ///
    /// # Errors
    ///
    /// The future returns the error with which the broker rejected the message, or an error of [unknown
    /// outcome](SendError::is_outcome_unknown).
    ///
    /// # Cancel safety
    ///
    /// The outcome of a send whose future is dropped is unknown.
    #[must_use = "await it: the message may be lost until the future returns `Ok`"]
    fn send(&self, message: Message) -> Self::Send;

    /// Sends several messages as one transfer. The broker accepts all of them or none, except on AMQP 1.0, NATS and
    /// RabbitMQ. If these accept only a part, the error is of [unknown outcome](SendError::is_outcome_unknown).
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    #[must_use = "await it: the messages may be lost until the future returns `Ok`"]
    fn send_batch(&self, batch: Batch) -> Self::Send;

    /// Returns the capabilities of the transport of this sender. A policy that needs others, such as `DelayPolicy`, is
    /// refused when it is built. The default has no capability.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }

    /// Returns the clock of the broker, if it runs in this process on a clock of its own, as in tests. `DelayPolicy` reads it to
    /// compute when a message is due. The default is `None`: the broker follows UTC.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }
}

/// The method `send` of every sending stack: a service whose response is `()`, and whose error converts into a [`SendError`].
pub trait SendExt<R> {
    /// Makes the stack ready and sends one request: a message, a batch, or a value that a layer encodes.
    fn send(&mut self, request: R) -> impl Future<Output = Result<(), SendError>>;
}

impl<S, R> SendExt<R> for S
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
{
    async fn send(&mut self, request: R) -> Result<(), SendError> {
        poll_fn(|cx| self.poll_ready(cx)).await.map_err(Into::into)?;
        self.call(request).await.map_err(Into::into)
    }
}

/// A [`Sender`] as the innermost service of a sending stack.
#[derive(Clone)]
pub struct SendService<S>(S);

impl<S: Sender> SendService<S> {
    /// Creates a service that sends by `sender`.
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
