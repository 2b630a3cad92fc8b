use std::task::{Context, Poll};

use tower::BoxError;
use tower_service::Service;

use super::HandleFuture;
use crate::{Disposition, Message, settlement::IntoDisposition};

/// The change that a receiving layer makes to a message.
pub trait Reader {
    /// Why a message cannot be read.
    type Error: IntoDisposition;

    /// Returns whether the message is handled as it came. To say so takes less than to return it from [`read`](Self::read).
    #[inline]
    fn leaves(&self, message: &Message) -> bool {
        let _ = message;
        false
    }

    /// Returns what is handled instead. An error settles the message as it came.
    fn read(&self, message: Message) -> Result<Message, Self::Error>;
}

/// Handles messages as the layer `L` reads them: the service of those layers that undo what a sending layer did.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Reading<S, L> {
    inner: S,
    layer: L,
}

impl<S, L> Reading<S, L> {
    pub(super) const fn new(inner: S, layer: L) -> Self {
        Self { inner, layer }
    }
}

impl<S, L> Service<Message> for Reading<S, L>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
    L: Reader,
{
    type Response = Disposition;
    type Error = BoxError;
    type Future = HandleFuture<S::Future>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, message: Message) -> Self::Future {
        if self.layer.leaves(&message) {
            return HandleFuture::handling(self.inner.call(message));
        }
        match self.layer.read(message) {
            Ok(message) => HandleFuture::handling(self.inner.call(message)),
            Err(error) => HandleFuture::answered(error.into_disposition()),
        }
    }
}
