use std::{
    convert::Infallible,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context as TaskContext, Poll, ready},
};

use pin_project_lite::pin_project;
use tower::{BoxError, util::Oneshot};
use tower_layer::Layer;
use tower_service::Service;

use super::{Context, Handler, private::Call};
use crate::{Disposition, Message, message_types::TypeTable, settlement::IntoDisposition};

/// A handler in a layer; see [`Handler::layer`].
pub struct Layered<L, H, A, S, C>
where
    L: Layer<HandlerService<H, A, S, C>>,
{
    layer: L,
    handler: Arc<H>,
    /// Made for the first message, which has the context.
    service: OnceLock<L::Service>,
}

impl<L, H, A, S, C> Layered<L, H, A, S, C>
where
    L: Layer<HandlerService<H, A, S, C>>,
{
    pub(super) fn new(layer: L, handler: H) -> Self {
        Self { layer, handler: Arc::new(handler), service: OnceLock::new() }
    }
}

impl<L, H: Call<A>, A, S, C> Call<A> for Layered<L, H, A, S, C> where L: Layer<HandlerService<H, A, S, C>> {}

impl<L, H, A: 'static, S: 'static, C: 'static> Handler<A, S, C> for Layered<L, H, A, S, C>
where
    L: Layer<HandlerService<H, A, S, C>> + 'static,
    L::Service: Service<Message, Response = Disposition> + Clone + 'static,
    <L::Service as Service<Message>>::Error: Into<BoxError>,
    H: Handler<A, S, C>,
{
    type Future = LayeredFuture<L::Service>;

    fn handle(&self, message: Message, cx: &Context<S, C>) -> Self::Future {
        let service = self.service.get_or_init(|| {
            let (handler, cx) = (Arc::clone(&self.handler), cx.clone());
            self.layer.layer(HandlerService { handler, cx, arguments: PhantomData })
        });
        LayeredFuture { call: Oneshot::new(service.clone(), message) }
    }

    fn type_tables(&self) -> Vec<&'static TypeTable> {
        self.handler.type_tables()
    }
}

impl<L, H, A, S, C> fmt::Debug for Layered<L, H, A, S, C>
where
    L: Layer<HandlerService<H, A, S, C>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").finish_non_exhaustive()
    }
}

/// A handler as the innermost service of a layer.
pub struct HandlerService<H, A, S, C> {
    handler: Arc<H>,
    cx: Context<S, C>,
    arguments: PhantomData<fn() -> A>,
}

impl<H: Handler<A, S, C>, A, S, C> Service<Message> for HandlerService<H, A, S, C> {
    type Response = Disposition;
    type Error = Infallible;
    type Future = super::RouterFuture<H::Future>;

    #[inline]
    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, message: Message) -> Self::Future {
        super::RouterFuture::new(self.handler.handle(message, &self.cx))
    }
}

impl<H, A, S, C> Clone for HandlerService<H, A, S, C> {
    fn clone(&self) -> Self {
        Self { handler: Arc::clone(&self.handler), cx: self.cx.clone(), arguments: PhantomData }
    }
}

impl<H, A, S, C> fmt::Debug for HandlerService<H, A, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerService").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of a handler in a layer. An error of the layer settles the message as an error of a handler does.
    #[must_use = "a future does nothing until it is polled"]
    pub struct LayeredFuture<S: Service<Message>> {
        #[pin]
        call: Oneshot<S, Message>,
    }
}

impl<S> Future for LayeredFuture<S>
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    type Output = Disposition;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Disposition> {
        Poll::Ready(match ready!(self.project().call.poll(cx)) {
            Ok(disposition) => disposition,
            Err(error) => error.into().into_disposition(),
        })
    }
}

impl<S: Service<Message>> fmt::Debug for LayeredFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayeredFuture").finish_non_exhaustive()
    }
}
