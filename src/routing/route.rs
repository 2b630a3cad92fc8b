use std::{
    fmt,
    future::{Future, Ready, ready},
    marker::PhantomData,
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

use pin_project_lite::pin_project;

use super::{Context, Handler, routes::BoxHandler};
use crate::{
    Disposition, Message, message::PropertyValue, message_types::no_handler, settlement::DeadLetterReason,
    transport::BoxFuture,
};

/// A list of routes as a type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of routes",
    note = "a handler of `Router<S, C, R>` needs the same `S` and `C` as the router"
)]
pub trait RouteList<S, C>: 'static {
    /// The future of whichever route is taken.
    type Future: Future<Output = Disposition>;

    /// Dispatches the message to the handler with this number, or to the end of the list if it has none.
    fn dispatch(&self, route: RouteNumber, message: Message, cx: &Context<S, C>) -> Self::Future;
}

/// The number of a handler in its list. Handlers whose types are in the list count from 0, in the order in which they were
/// added, and the others from [`ERASED`] on.
pub type RouteNumber = usize;

/// The first number of the handlers of [`Routes`](super::Routes).
pub const ERASED: RouteNumber = 1 << (usize::BITS - 1);

/// No handler has this number.
pub const NO_ROUTE: RouteNumber = RouteNumber::MAX;

/// How many handlers a list has as types. The compiler knows the number of each, and compares numbers and no names.
pub trait CountRoutes {
    /// The number of the next handler.
    const NEXT: RouteNumber;
}

impl CountRoutes for NoRoute {
    const NEXT: RouteNumber = 0;
}

impl<H, A> CountRoutes for Fallback<H, A> {
    const NEXT: RouteNumber = 0;
}

impl<H, A, R: CountRoutes> CountRoutes for Route<H, A, R> {
    const NEXT: RouteNumber = R::NEXT + 1;
}

impl<R: CountRoutes, S, C> CountRoutes for Merged<R, S, C> {
    const NEXT: RouteNumber = R::NEXT;
}

/// No route: the message is dead-lettered as `UnknownMessageType`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoute;

impl<S, C> RouteList<S, C> for NoRoute {
    type Future = Ready<Disposition>;

    #[cold]
    fn dispatch(&self, _: RouteNumber, message: Message, cx: &Context<S, C>) -> Ready<Disposition> {
        let property = cx.type_property();
        let said = property.and_then(|name| message.application_properties().get(name)).and_then(PropertyValue::as_str);
        let description = no_handler(property, said, message.subject());
        ready(Disposition::dead_letter(DeadLetterReason::UnknownMessageType, description))
    }
}

/// A list of routes whose end is still open, so that a handler of all other messages can be put there.
#[diagnostic::on_unimplemented(
    message = "this router has a fallback already: call `fallback` once, before or after the routes",
    label = "a second fallback"
)]
pub trait OpenEnd<E> {
    /// The list with its end.
    type Ended;

    /// Puts `end` where no route is left.
    fn end_with(self, end: E) -> Self::Ended;
}

impl<E> OpenEnd<E> for NoRoute {
    type Ended = E;

    fn end_with(self, end: E) -> E {
        end
    }
}

impl<H, A, R: OpenEnd<E>, E> OpenEnd<E> for Route<H, A, R> {
    type Ended = Route<H, A, R::Ended>;

    fn end_with(self, end: E) -> Self::Ended {
        Route::new(self.handler, self.others.end_with(end))
    }
}

impl<R: OpenEnd<E>, S, C, E> OpenEnd<E> for Merged<R, S, C> {
    type Ended = Merged<R::Ended, S, C>;

    fn end_with(self, end: E) -> Self::Ended {
        Merged { first: self.first, handlers: self.handlers, others: self.others.end_with(end) }
    }
}

/// The handler of all messages that no route takes.
pub struct Fallback<H, A> {
    handler: H,
    arguments: PhantomData<fn() -> A>,
}

impl<H, A> Fallback<H, A> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler, arguments: PhantomData }
    }
}

impl<H: Handler<A, S, C>, A: 'static, S, C> RouteList<S, C> for Fallback<H, A> {
    type Future = H::Future;

    #[inline]
    fn dispatch(&self, _: RouteNumber, message: Message, cx: &Context<S, C>) -> H::Future {
        self.handler.handle(message, cx)
    }
}

/// A handler, before other routes.
pub struct Route<H, A, R> {
    handler: H,
    others: R,
    arguments: PhantomData<fn() -> A>,
}

impl<H, A, R> Route<H, A, R> {
    pub(super) fn new(handler: H, others: R) -> Self {
        Self { handler, others, arguments: PhantomData }
    }
}

impl<H, A, R, S, C> RouteList<S, C> for Route<H, A, R>
where
    H: Handler<A, S, C>,
    A: 'static,
    R: RouteList<S, C> + CountRoutes,
{
    type Future = RoutesFuture<H::Future, R::Future>;

    #[inline]
    fn dispatch(&self, route: RouteNumber, message: Message, cx: &Context<S, C>) -> Self::Future {
        if route == R::NEXT {
            RoutesFuture::Here { future: self.handler.handle(message, cx) }
        } else {
            RoutesFuture::Others { future: self.others.dispatch(route, message, cx) }
        }
    }
}

/// The handlers of [`Routes`](super::Routes), before other routes.
pub struct Merged<R, S, C> {
    /// The number of the first one.
    first: RouteNumber,
    handlers: Box<[BoxHandler<S, C>]>,
    others: R,
}

impl<R, S, C> Merged<R, S, C> {
    pub(super) fn new(first: RouteNumber, handlers: Vec<BoxHandler<S, C>>, others: R) -> Self {
        Self { first, handlers: handlers.into(), others }
    }
}

impl<R: RouteList<S, C>, S: 'static, C: 'static> RouteList<S, C> for Merged<R, S, C> {
    type Future = RoutesFuture<BoxFuture<Disposition>, R::Future>;

    #[inline]
    fn dispatch(&self, route: RouteNumber, message: Message, cx: &Context<S, C>) -> Self::Future {
        match self.handlers.get(route.wrapping_sub(self.first)) {
            Some(handler) => RoutesFuture::Here { future: handler.handle(message, cx) },
            None => RoutesFuture::Others { future: self.others.dispatch(route, message, cx) },
        }
    }
}

pin_project! {
    /// The future of one route or of another. One type for each route, so that a list of 50 stays within the compiler's
    /// limit of recursion.
    #[allow(missing_docs, reason = "the macro takes no documentation of pinned fields")]
    #[derive(Debug)]
    #[project = RoutesFutureProjection]
    pub enum RoutesFuture<A, B> {
        Here { #[pin] future: A },
        Others { #[pin] future: B },
    }
}

impl<A: Future<Output = Disposition>, B: Future<Output = Disposition>> Future for RoutesFuture<A, B> {
    type Output = Disposition;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Disposition> {
        match self.project() {
            RoutesFutureProjection::Here { future } => future.poll(cx),
            RoutesFutureProjection::Others { future } => future.poll(cx),
        }
    }
}

impl<H, A> fmt::Debug for Fallback<H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fallback")
    }
}

impl<H, A, R: fmt::Debug> fmt::Debug for Route<H, A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("others", &self.others).finish_non_exhaustive()
    }
}

impl<R: fmt::Debug, S, C> fmt::Debug for Merged<R, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged")
            .field("handlers", &self.handlers.len())
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}
