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
    Context, Handler, Routes,
    check::{Entry, Takes, check},
    lookup::Lookup,
    private::{Call, CountRoutes, ERASED, Fallback, Merged, NO_ROUTE, NoRoute, OpenEnd, Route, RouteList},
};
use crate::{BuildError, Disposition, Message};

/// Chooses a handler by the subject of the message. It is always ready, and a clone is three reference counts.
pub struct Router<S, C, R> {
    pub(super) cx: Context<S, C>,
    routes: Arc<R>,
    pub(super) table: Arc<Table>,
    /// The place of the name that was found last.
    last: usize,
}

/// What the router has been built from, and the handlers by name.
pub(super) struct Table {
    pub(super) entries: Box<[Entry]>,
    lookup: Lookup,
}

/// Collects the routes of a [`Router`]; `R` is the list so far.
#[must_use = "a builder does nothing until `build` is called"]
pub struct RouterBuilder<S, C, R> {
    state: S,
    codecs: Codecs<C>,
    routes: R,
    entries: Vec<Entry>,
    /// The number of the next handler of [`Routes`].
    next_erased: usize,
}

impl Router<(), (), NoRoute> {
    /// Starts a router without state. Its handlers decode with `codecs`.
    #[expect(clippy::new_ret_no_self, reason = "a router is built, and its type comes of its routes")]
    pub fn new<C: CodecSet>(codecs: Codecs<C>) -> RouterBuilder<(), C, NoRoute> {
        Self::with_state(codecs, ())
    }

    /// Starts a router whose handlers share `state`.
    pub fn with_state<S, C: CodecSet>(codecs: Codecs<C>, state: S) -> RouterBuilder<S, C, NoRoute> {
        RouterBuilder { state, codecs, routes: NoRoute, entries: Vec::new(), next_erased: ERASED }
    }
}

impl<S, C, R> RouterBuilder<S, C, R> {
    /// Dispatches messages with this subject to `handler`. Subjects are case-sensitive.
    pub fn route<H, A>(mut self, subject: impl Into<Box<str>>, handler: H) -> RouterBuilder<S, C, Route<H, A, R>>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
        R: CountRoutes,
    {
        self.entries.push(Entry::new(Takes::Subject(subject.into()), handler.type_tables(), R::NEXT));
        self.map_routes(|routes| Route::new(handler, routes))
    }

    /// Dispatches messages of the types of an enum to `handler`, which has the enum among its arguments: as it is if it
    /// derives [`MessageTypes`](crate::message_types::MessageTypes), or as [`Typed`](super::Typed). Those of other types go on
    /// to the routes that were added before, and to [`fallback`](Self::fallback).
    pub fn types<H, A>(mut self, handler: H) -> RouterBuilder<S, C, Route<H, A, R>>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
        R: CountRoutes,
    {
        self.entries.push(Entry::new(Takes::Types, handler.type_tables(), R::NEXT));
        self.map_routes(|routes| Route::new(handler, routes))
    }

    /// Dispatches every message that matches no route to `handler`, whether the routes come before or after. Without
    /// it such messages are dead-lettered as `UnknownMessageType`. [`Ignore`](super::Ignore) completes them, and
    /// [`Forward`](super::Forward) forwards them.
    // The list with its end is a parameter: an associated type in the return type makes the compiler report a second
    // fallback as a method that is missing, without the message of `OpenEnd`.
    pub fn fallback<H, A, E>(mut self, handler: H) -> RouterBuilder<S, C, E>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
        R: OpenEnd<Fallback<H, A>, Ended = E>,
    {
        let takes = Takes::Others { prefix: "".into() };
        self.entries.push(Entry::new(takes, handler.type_tables(), NO_ROUTE));
        self.map_routes(|routes| routes.end_with(Fallback::new(handler)))
    }

    /// Adds the handlers of `routes`, such as those of one module. Their types are erased: a call of one allocates its
    /// future.
    pub fn merge(self, routes: Routes<S, C>) -> RouterBuilder<S, C, Merged<R, S, C>> {
        self.nest("", routes)
    }

    /// Adds the handlers of `routes`, each with `prefix` before its subject, as [`Routes::nest`] does.
    pub fn nest(mut self, prefix: &str, routes: Routes<S, C>) -> RouterBuilder<S, C, Merged<R, S, C>> {
        let first = self.next_erased;
        self.next_erased += routes.handlers.len();
        self.entries.extend(routes.entries.into_iter().map(|entry| entry.nested(prefix, first)));
        self.map_routes(|others| Merged::new(first, routes.handlers, others))
    }

    /// Marks the handler that was added last as one that replies.
    pub(crate) fn answered(mut self) -> Self {
        if let Some(entry) = self.entries.last_mut() {
            entry.is_answered = true;
        }
        self
    }

    fn map_routes<T>(self, map: impl FnOnce(R) -> T) -> RouterBuilder<S, C, T> {
        let Self { state, codecs, routes, entries, next_erased } = self;
        RouterBuilder { state, codecs, routes: map(routes), entries, next_erased }
    }

    /// The router. Errors: the first rule that its routes, or the types of its handlers, break.
    pub fn build(self) -> Result<Router<S, C, R>, BuildError>
    where
        C: CodecSet,
    {
        check(&self.entries, |codec| self.codecs.content_type_of(codec).is_some())?;
        let mut typed = self.entries.iter().filter(|entry| matches!(entry.takes, Takes::Types));
        let type_property = typed.find_map(|entry| entry.tables.first()?.type_property());
        let lookup = Lookup::new(&self.entries);
        Ok(Router {
            cx: Context::new(self.state, self.codecs, type_property),
            routes: Arc::new(self.routes),
            table: Arc::new(Table { entries: self.entries.into(), lookup }),
            last: 0,
        })
    }
}

impl<S, C, R: RouteList<S, C>> Service<Message> for Router<S, C, R> {
    type Response = Disposition;
    type Error = Infallible;
    type Future = RouterFuture<R::Future>;

    #[inline]
    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, message: Message) -> Self::Future {
        let route = self.table.lookup.find(&message, &mut self.last);
        RouterFuture::new(self.routes.dispatch(route, message, &self.cx))
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

impl<F> RouterFuture<F> {
    #[inline]
    pub(crate) fn new(future: F) -> Self {
        Self { future }
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
        Self { cx: self.cx.clone(), routes: Arc::clone(&self.routes), table: Arc::clone(&self.table), last: self.last }
    }
}

impl<S, C, R: fmt::Debug> fmt::Debug for Router<S, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("entries", &self.table.entries)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl<S, C, R: fmt::Debug> fmt::Debug for RouterBuilder<S, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterBuilder")
            .field("entries", &self.entries)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}
