use std::{
    fmt,
    future::{Future, Ready, ready},
    marker::PhantomData,
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

use pin_project_lite::pin_project;

use super::{Context, Handler};
use crate::{
    Disposition, Message,
    message::PropertyValue,
    message_types::{TypeTable, nobody_takes},
    settlement::DeadLetterReason,
};

/// A list of routes as a type.
pub trait Routes<S, C>: 'static {
    /// The future of whichever route is taken.
    type Future: Future<Output = Disposition>;

    /// Dispatches the message to the route of its subject.
    fn dispatch(&self, message: Message, cx: &Context<S, C>) -> Self::Future;
}

/// No route: the message is dead-lettered as `UnknownMessageType`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoute;

impl<S, C> Routes<S, C> for NoRoute {
    type Future = Ready<Disposition>;

    #[cold]
    fn dispatch(&self, message: Message, cx: &Context<S, C>) -> Ready<Disposition> {
        let said = match cx.type_property {
            None => message.subject(),
            Some(property) => message.application_properties().get(property).and_then(PropertyValue::as_str),
        };
        let description = nobody_takes(cx.type_property, said);
        ready(Disposition::dead_letter(DeadLetterReason::UnknownMessageType, description))
    }
}

/// A list of routes whose end is still open, so that a handler of all other messages can be put there.
#[diagnostic::on_unimplemented(
    message = "these routes have a handler of all other messages already",
    note = "`fallback` is called once, before or after the routes"
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
        Route::new(self.subject, self.handler, self.others.end_with(end))
    }
}

impl<H, A, R: OpenEnd<E>, E> OpenEnd<E> for TypedRoute<H, A, R> {
    type Ended = TypedRoute<H, A, R::Ended>;

    fn end_with(self, end: E) -> Self::Ended {
        TypedRoute {
            table: self.table,
            handler: self.handler,
            others: self.others.end_with(end),
            arguments: PhantomData,
        }
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

impl<H: Handler<A, S, C>, A: 'static, S, C> Routes<S, C> for Fallback<H, A> {
    type Future = H::Future;

    #[inline]
    fn dispatch(&self, message: Message, cx: &Context<S, C>) -> H::Future {
        self.handler.handle(message, cx)
    }
}

/// The handler of one subject, before other routes.
pub struct Route<H, A, R> {
    subject: Box<str>,
    handler: H,
    others: R,
    arguments: PhantomData<fn() -> A>,
}

impl<H, A, R> Route<H, A, R> {
    pub(super) fn new(subject: Box<str>, handler: H, others: R) -> Self {
        Self { subject, handler, others, arguments: PhantomData }
    }
}

impl<H: Handler<A, S, C>, A: 'static, R: Routes<S, C>, S, C> Routes<S, C> for Route<H, A, R> {
    type Future = RoutesFuture<H::Future, R::Future>;

    #[inline]
    fn dispatch(&self, message: Message, cx: &Context<S, C>) -> Self::Future {
        let taken = if message.subject() == Some(&*self.subject) {
            Taken::Here { future: self.handler.handle(message, cx) }
        } else {
            Taken::Others { future: self.others.dispatch(message, cx) }
        };
        RoutesFuture { taken }
    }
}

/// The handler of the types of an enum, before other routes.
pub struct TypedRoute<H, A, R> {
    /// A router without one is not built.
    table: Option<&'static TypeTable>,
    handler: H,
    others: R,
    arguments: PhantomData<fn() -> A>,
}

impl<H, A, R> TypedRoute<H, A, R> {
    pub(super) fn new(table: Option<&'static TypeTable>, handler: H, others: R) -> Self {
        Self { table, handler, others, arguments: PhantomData }
    }
}

impl<H: Handler<A, S, C>, A: 'static, R: Routes<S, C>, S, C> Routes<S, C> for TypedRoute<H, A, R> {
    type Future = RoutesFuture<H::Future, R::Future>;

    #[inline]
    fn dispatch(&self, message: Message, cx: &Context<S, C>) -> Self::Future {
        let taken = if self.table.is_some_and(|table| table.knows(message.properties())) {
            Taken::Here { future: self.handler.handle(message, cx) }
        } else {
            Taken::Others { future: self.others.dispatch(message, cx) }
        };
        RoutesFuture { taken }
    }
}

pin_project! {
    /// The future of one route or of another.
    #[derive(Debug)]
    pub struct RoutesFuture<A, B> {
        #[pin]
        taken: Taken<A, B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = TakenProjection]
    enum Taken<A, B> {
        Here { #[pin] future: A },
        Others { #[pin] future: B },
    }
}

impl<A: Future<Output = Disposition>, B: Future<Output = Disposition>> Future for RoutesFuture<A, B> {
    type Output = Disposition;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Disposition> {
        match self.project().taken.project() {
            TakenProjection::Here { future } => future.poll(cx),
            TakenProjection::Others { future } => future.poll(cx),
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
        f.debug_struct("Route").field("subject", &self.subject).field("others", &self.others).finish_non_exhaustive()
    }
}

impl<H, A, R: fmt::Debug> fmt::Debug for TypedRoute<H, A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.table.map(TypeTable::name);
        f.debug_struct("TypedRoute").field("types", &name).field("others", &self.others).finish_non_exhaustive()
    }
}
