use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use consign_codecs::{CodecSet, Codecs};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    Context, Handler, RouteError,
    check::{Entry, Takes, check},
    private::{Call, Fallback, NoRoute, OpenEnd, Route, Routes, TypedRoute},
};
use crate::{Disposition, Message};

/// Chooses a handler by the subject of the message. It is always ready, and a clone is three reference counts.
pub struct Router<S, C, R> {
    pub(super) cx: Arc<Context<S, C>>,
    routes: Arc<R>,
    pub(super) entries: Arc<[Entry]>,
}

/// Collects the routes of a [`Router`]; `R` is the list so far.
#[must_use = "a builder does nothing until `build` is called"]
pub struct RouterBuilder<S, C, R> {
    cx: Context<S, C>,
    routes: R,
    entries: Vec<Entry>,
}

impl Router<(), (), NoRoute> {
    /// Starts a router without state. Its handlers decode with `codecs`.
    #[expect(clippy::new_ret_no_self, reason = "a router is built, and its type comes of its routes")]
    pub fn new<C: CodecSet>(codecs: Codecs<C>) -> RouterBuilder<(), C, NoRoute> {
        Self::with_state(codecs, ())
    }

    /// Starts a router whose handlers share `state`.
    pub fn with_state<S, C: CodecSet>(codecs: Codecs<C>, state: S) -> RouterBuilder<S, C, NoRoute> {
        RouterBuilder { cx: Context::new(state, codecs), routes: NoRoute, entries: Vec::new() }
    }
}

impl<S, C, R> RouterBuilder<S, C, R> {
    /// Dispatches messages with this subject to `handler`. Subjects are case-sensitive.
    pub fn route<H, A>(mut self, subject: impl Into<Box<str>>, handler: H) -> RouterBuilder<S, C, Route<H, A, R>>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
    {
        let subject = subject.into();
        self.entries.push(Entry { takes: Takes::Subject(subject.clone()), tables: handler.type_tables() });
        RouterBuilder { cx: self.cx, routes: Route::new(subject, handler, self.routes), entries: self.entries }
    }

    /// Dispatches messages of the types of an enum to `handler`, which has the enum among its arguments: as it is if it
    /// derives [`MessageTypes`](crate::message_types::MessageTypes), or as [`Typed`](super::Typed). Those of other types go on
    /// to the routes that were added before, and to [`fallback`](Self::fallback).
    pub fn types<H, A>(mut self, handler: H) -> RouterBuilder<S, C, TypedRoute<H, A, R>>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
    {
        let tables = handler.type_tables();
        let table = tables.first().copied();
        self.entries.push(Entry { takes: Takes::Types, tables });
        RouterBuilder { cx: self.cx, routes: TypedRoute::new(table, handler, self.routes), entries: self.entries }
    }

    /// Dispatches every message that matches no route to `handler`, whether the routes come before or after. Without
    /// it such messages are dead-lettered as `UnknownMessageType`. [`Ignore`](super::Ignore) completes them, and
    /// [`Forward`](super::Forward) forwards them.
    pub fn fallback<H, A>(mut self, handler: H) -> RouterBuilder<S, C, R::Ended>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
        R: OpenEnd<Fallback<H, A>>,
    {
        self.entries.push(Entry { takes: Takes::Others, tables: handler.type_tables() });
        let routes = self.routes.end_with(Fallback::new(handler));
        RouterBuilder { cx: self.cx, routes, entries: self.entries }
    }

    /// The router. Errors: the first rule that its routes, or the types of its handlers, break.
    pub fn build(mut self) -> Result<Router<S, C, R>, RouteError>
    where
        C: CodecSet,
    {
        let codecs = self.cx.codecs();
        check(&self.entries, |codec| codecs.content_type_of(codec).is_some())?;
        let mut typed = self.entries.iter().filter(|entry| matches!(entry.takes, Takes::Types));
        self.cx.type_property = typed.find_map(|entry| entry.tables.first()?.type_property());
        Ok(Router { cx: Arc::new(self.cx), routes: Arc::new(self.routes), entries: self.entries.into() })
    }
}

impl<S, C, R: Routes<S, C>> Service<Message> for Router<S, C, R> {
    type Response = Disposition;
    type Error = Infallible;
    type Future = RouterFuture<R::Future>;

    #[inline]
    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, message: Message) -> Self::Future {
        RouterFuture { future: self.routes.dispatch(message, &self.cx) }
    }
}

pin_project! {
    /// The future of a router.
    #[derive(Debug)]
    #[doc(hidden)]
    pub struct RouterFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for RouterFuture<F> {
    type Output = Result<F::Output, Infallible>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map(Ok)
    }
}

impl<S, C, R> Clone for Router<S, C, R> {
    fn clone(&self) -> Self {
        Self { cx: Arc::clone(&self.cx), routes: Arc::clone(&self.routes), entries: Arc::clone(&self.entries) }
    }
}

impl<S, C, R: fmt::Debug> fmt::Debug for Router<S, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("routes", &self.routes).finish_non_exhaustive()
    }
}

impl<S, C, R: fmt::Debug> fmt::Debug for RouterBuilder<S, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterBuilder").field("routes", &self.routes).finish_non_exhaustive()
    }
}
