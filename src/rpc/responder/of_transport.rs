use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::OnceCell;
use tower_service::Service;

use super::ReplySenders;
use crate::{
    Message,
    message::EntityPath,
    transport::{SendError, Sender, Transport},
};

/// Returns the senders of replies of a transport, for [`Responder::builder`](super::Responder::builder): each sends to the entity
/// that a request names as its ReplyTo. A sender is created with the first reply to its address, which may take a round trip.
///
/// To sign or encrypt replies, pass a function that puts layers around a sender of the transport instead.
///
/// ```
/// # use consign::{broker::Broker, codecs::Codecs, routing::Body, rpc::{Fault, Responder, reply_senders}};
/// # async fn half(Body(number): Body<u32>) -> Result<u32, Fault> { Ok(number / 2) }
/// # #[cfg(feature = "json")] {
/// let transport = Broker::new();
/// let responder = Responder::builder(reply_senders(transport)).codecs(Codecs::json()).answer("half", half).build()?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reply_senders<T: Transport>(transport: T) -> impl ReplySenders + Clone {
    move |address: &EntityPath| {
        let (transport, address) = (transport.clone(), address.clone());
        Ok(OfTransport { transport, address, sender: Arc::default() })
    }
}

/// A sender of a transport that is created when it is first used.
struct OfTransport<T: Transport> {
    transport: T,
    address: EntityPath,
    sender: Arc<OnceCell<T::Sender>>,
}

impl<T: Transport> Clone for OfTransport<T> {
    fn clone(&self) -> Self {
        Self { transport: self.transport.clone(), address: self.address.clone(), sender: Arc::clone(&self.sender) }
    }
}

impl<T: Transport> fmt::Debug for OfTransport<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfTransport").field("address", &self.address).finish_non_exhaustive()
    }
}

impl<T: Transport> Service<Message> for OfTransport<T> {
    type Response = ();
    type Error = SendError;
    type Future = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, reply: Message) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let sender = this.sender.get_or_try_init(|| this.transport.sender(&this.address)).await?;
            sender.send(reply).await
        })
    }
}
