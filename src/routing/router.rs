use std::{
    collections::HashSet,
    convert::Infallible,
    error, fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use consign_codecs::{CodecSet, Codecs};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{Call, Context, Handler, NoRoute, OpenEnd, Otherwise, Route, Routes};
use crate::{Disposition, Message};

/// Chooses a handler by the subject of the message. It is always ready, and a clone is two reference counts.
pub struct Router<S, C, R> {
    cx: Arc<Context<S, C>>,
    routes: Arc<R>,
}

/// Collects the routes of a [`Router`]; `R` is the list so far.
#[must_use = "a builder does nothing until `build` is called"]
pub struct RouterBuilder<S, C, R> {
    cx: Context<S, C>,
    routes: R,
    subjects: Vec<Box<str>>,
}

/// A router that cannot be built: two routes have one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    subject: Box<str>,
}

impl Router<(), (), NoRoute> {
    /// Starts a router without state. Its handlers decode with `codecs`.
    #[expect(clippy::new_ret_no_self, reason = "a router is built, and its type comes of its routes")]
    pub fn new<C: CodecSet>(codecs: Codecs<C>) -> RouterBuilder<(), C, NoRoute> {
        Self::with_state(codecs, ())
    }

    /// Starts a router whose handlers share `state`.
    pub fn with_state<S, C: CodecSet>(codecs: Codecs<C>, state: S) -> RouterBuilder<S, C, NoRoute> {
        RouterBuilder { cx: Context::new(state, codecs), routes: NoRoute, subjects: Vec::new() }
    }
}

impl<S, C, R> RouterBuilder<S, C, R> {
    /// Hands messages with this subject to `handler`. Subjects are compared as they are, case and all.
    pub fn route<H, A>(mut self, subject: impl Into<Box<str>>, handler: H) -> RouterBuilder<S, C, Route<H, A, R>>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
    {
        let subject = subject.into();
        self.subjects.push(subject.clone());
        RouterBuilder { cx: self.cx, routes: Route::new(subject, handler, self.routes), subjects: self.subjects }
    }

    /// Hands every message that no route takes to `handler`, whether the routes come before or after. Without it such
    /// messages are dead-lettered as `UnknownMessageType`.
    pub fn otherwise<H, A>(self, handler: H) -> RouterBuilder<S, C, R::Ended>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
        R: OpenEnd<Otherwise<H, A>>,
    {
        let routes = self.routes.end_with(Otherwise::new(handler));
        RouterBuilder { cx: self.cx, routes, subjects: self.subjects }
    }

    /// The router, or the first subject that two routes have.
    pub fn build(self) -> Result<Router<S, C, R>, RouteError> {
        let mut known = HashSet::new();
        match self.subjects.iter().find(|subject| !known.insert(*subject)) {
            Some(subject) => Err(RouteError { subject: subject.clone() }),
            None => Ok(Router { cx: Arc::new(self.cx), routes: Arc::new(self.routes) }),
        }
    }
}

impl RouteError {
    /// The subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two routes have the subject {:?}; remove one of them", self.subject)
    }
}

impl error::Error for RouteError {}

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
        Self { cx: Arc::clone(&self.cx), routes: Arc::clone(&self.routes) }
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
