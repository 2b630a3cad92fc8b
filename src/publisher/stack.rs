use std::{
    sync::Arc,
    task::{Context, Poll},
};

use tower::util::Oneshot;
use tower_service::Service;

use crate::{
    Message,
    transport::{Batch, BoxFuture, SendError, Sender},
};

/// The layers and the sender of a publisher, erased.
pub(super) trait Stack: Send + Sync {
    fn send(&self, message: Message) -> BoxFuture<Result<(), SendError>>;

    fn send_batch(&self, batch: Batch) -> BoxFuture<Result<(), SendError>>;
}

/// A stack of one type.
pub(super) struct Typed<S>(pub(super) S);

impl<S> Stack for Typed<S>
where
    S: Service<Message, Response = (), Error = SendError, Future: Send + 'static>
        + Service<Batch, Response = (), Error = SendError, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
{
    fn send(&self, message: Message) -> BoxFuture<Result<(), SendError>> {
        Box::pin(Oneshot::new(self.0.clone(), message))
    }

    fn send_batch(&self, batch: Batch) -> BoxFuture<Result<(), SendError>> {
        Box::pin(Oneshot::new(self.0.clone(), batch))
    }
}

/// The sender as the innermost service. Its clones share it.
#[doc(hidden)]
#[derive(Debug)]
pub struct SharedSender<X>(Arc<X>);

impl<X: Sender> SharedSender<X> {
    pub(super) fn new(sender: X) -> Self {
        Self(Arc::new(sender))
    }
}

impl<X> Clone for SharedSender<X> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<X: Sender> Service<Message> for SharedSender<X> {
    type Response = ();
    type Error = SendError;
    type Future = X::Send;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, message: Message) -> X::Send {
        self.0.send(message)
    }
}

impl<X: Sender> Service<Batch> for SharedSender<X> {
    type Response = ();
    type Error = SendError;
    type Future = X::Send;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, batch: Batch) -> X::Send {
        self.0.send_batch(batch)
    }
}
