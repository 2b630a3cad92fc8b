use std::{fmt, future::Future};

use consign_core::{
    Message,
    message::EntityPath,
    transport::{Batch, BoxFuture, SendError, SendExt, Sender, Transport},
};
use parking_lot::Mutex;
use tower_service::Service;

/// The senders of a [`Relay`](crate::Relay), by the destination of a message.
///
/// Every [`Transport`] is one, also a [`DynTransport`](consign_core::transport::DynTransport). [`To`] sends all messages by one
/// sender or one stack of layers.
pub trait Destinations: Send + Sync + 'static {
    /// Its senders.
    type Sender: Sender + Clone;

    /// Returns a sender to a queue or a topic. The relay keeps it until a send fails.
    ///
    /// # Errors
    ///
    /// As [`Transport::sender`].
    fn sender(&self, destination: &EntityPath) -> impl Future<Output = Result<Self::Sender, SendError>> + Send;
}

impl<T: Transport> Destinations for T {
    type Sender = T::Sender;

    fn sender(&self, destination: &EntityPath) -> impl Future<Output = Result<Self::Sender, SendError>> + Send {
        Transport::sender(self, destination)
    }
}

/// One sender for every destination.
#[derive(Clone, Debug)]
pub struct To<S>(S);

impl<S: Sender + Clone> To<S> {
    /// Sends all messages by `sender`.
    pub fn sender(sender: S) -> Self {
        Self(sender)
    }
}

impl<S> To<Layered<S>>
where
    S: Service<Message, Response = (), Error: Into<SendError>, Future: Send> + Clone + Send + 'static,
{
    /// Sends all messages by a stack of layers over a sender. The messages are encoded already, so an `EncodeLayer` is not part
    /// of it.
    pub fn service(service: S) -> Self {
        Self(Layered(Mutex::new(service)))
    }
}

impl<S: Sender + Clone> Destinations for To<S> {
    type Sender = S;

    async fn sender(&self, _: &EntityPath) -> Result<S, SendError> {
        Ok(self.0.clone())
    }
}

/// A stack of layers as a [`Sender`]: [`To::service`].
pub struct Layered<S>(Mutex<S>);

impl<S: Clone> Layered<S> {
    fn stack(&self) -> S {
        self.0.lock().clone()
    }
}

impl<S: Clone> Clone for Layered<S> {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.stack()))
    }
}

impl<S> Sender for Layered<S>
where
    S: Service<Message, Response = (), Error: Into<SendError>, Future: Send> + Clone + Send + 'static,
{
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let mut stack = self.stack();
        Box::pin(async move { SendExt::send(&mut stack, message).await })
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        let mut stack = self.stack();
        Box::pin(async move {
            for message in batch.into_messages() {
                SendExt::send(&mut stack, message).await?;
            }
            Ok(())
        })
    }
}

impl<S> fmt::Debug for Layered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").finish_non_exhaustive()
    }
}
