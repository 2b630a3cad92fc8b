use std::{
    convert::Infallible,
    fmt,
    future::Future,
    task::{Context, Poll},
};

use tower::BoxError;
use tower_service::Service;

use crate::{
    Disposition, Message,
    routing::{RouterFuture, private::HandlerFuture},
    settlement::IntoDisposition,
};

/// What a consumer can call: a tower service of messages, or an `async fn(Message)` that returns what converts into a
/// [`Disposition`]. `Kind` is inferred.
#[diagnostic::on_unimplemented(
    message = "pass a router after `.build()?`, an `async fn(Message) -> Disposition`, or a service of messages: a consumer cannot call `{Self}`",
    label = "not a router that is built, not an `async fn(Message)`, and not a service",
    note = "a handler with arguments such as `Body<T>` is a route: `Router::new(codecs).fallback(handler).build()?`",
    note = "a service is a `Service<Message, Response = Disposition>` whose error converts into a `BoxError`"
)]
pub trait IntoStack<Kind> {
    /// The service.
    type Stack;

    /// Converts into the service.
    fn into_stack(self) -> Self::Stack;
}

/// A service is one already.
#[doc(hidden)]
#[derive(Debug)]
pub enum OfService {}

/// A function becomes one.
#[doc(hidden)]
#[derive(Debug)]
pub enum OfFunction {}

#[diagnostic::do_not_recommend]
impl<S> IntoStack<OfService> for S
where
    S: Service<Message, Response = Disposition>,
    S::Error: Into<BoxError>,
{
    type Stack = S;

    fn into_stack(self) -> S {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<F, Fut> IntoStack<OfFunction> for F
where
    F: Fn(Message) -> Fut,
    Fut: Future<Output: IntoDisposition>,
{
    type Stack = FunctionStack<F>;

    fn into_stack(self) -> FunctionStack<F> {
        FunctionStack(self)
    }
}

/// An `async fn(Message)` as a service.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct FunctionStack<F>(F);

impl<F, Fut> Service<Message> for FunctionStack<F>
where
    F: Fn(Message) -> Fut,
    Fut: Future<Output: IntoDisposition>,
{
    type Response = Disposition;
    type Error = Infallible;
    type Future = RouterFuture<HandlerFuture<Fut>>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, message: Message) -> Self::Future {
        RouterFuture::new(HandlerFuture::run((self.0)(message)))
    }
}

impl<F> fmt::Debug for FunctionStack<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FunctionStack")
    }
}
