use std::{fmt, marker::PhantomData, sync::Arc};

use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Context, Handler,
    check::{Entry, Takes},
    private::{Call, HandlerService, Layered},
};
use crate::{Disposition, Message, message_types::TypeTable, transport::BoxFuture};

/// The routes of a module, whose type does not list its handlers.
///
/// [`RouterBuilder::merge`](super::RouterBuilder::merge) and [`nest`](super::RouterBuilder::nest) add them to a router, which
/// has the state and the codecs. A function that returns them is generic over the codecs, so no type of a codec is in its
/// signature:
///
/// ```
/// use consign::{
///     codecs::{CodecSet, Codecs},
///     routing::{Body, Router, Routes, State},
/// };
///
/// #[derive(Clone)]
/// struct App;
///
/// async fn created(State(_): State<App>, Body(_id): Body<u64>) {}
/// async fn cancelled(Body(_id): Body<u64>) {}
///
/// fn orders<C: CodecSet>() -> Routes<App, C> {
///     Routes::new().route("created", created).route("cancelled", cancelled)
/// }
///
/// // The subjects are `order.created` and `order.cancelled`.
/// let router = Router::with_state(Codecs::json(), App).nest("order.", orders()).build()?;
/// assert_eq!(router.describe().subjects, ["order.created", "order.cancelled"]);
/// # Ok::<(), consign::BuildError>(())
/// ```
///
/// # Performance
///
/// The future of a handler is in a box: one allocation a message. A handler whose messages are frequent is better a route of
/// the [`RouterBuilder`](super::RouterBuilder) itself. The table of the [module](super#performance) has the figures.
#[must_use = "routes do nothing until they are merged into a router"]
pub struct Routes<S, C> {
    pub(super) entries: Vec<Entry>,
    /// Each entry has the index of its handler here.
    pub(super) handlers: Vec<BoxHandler<S, C>>,
}

impl<S: 'static, C: 'static> Routes<S, C> {
    /// Creates a set without routes.
    pub fn new() -> Self {
        Self { entries: Vec::new(), handlers: Vec::new() }
    }

    /// Dispatches messages with this subject to `handler`. Subjects are case-sensitive.
    pub fn route<H, A>(self, subject: impl Into<Box<str>>, handler: H) -> Self
    where
        H: Call<A> + Handler<A, S, C> + Send + Sync,
        H::Future: Send + 'static,
        A: 'static,
    {
        self.push(Takes::Subject(subject.into()), handler)
    }

    /// Dispatches messages of the types of an enum to `handler`, as
    /// [`RouterBuilder::types`](super::RouterBuilder::types) does. Such routes can be merged, and not nested.
    pub fn types<H, A>(self, handler: H) -> Self
    where
        H: Call<A> + Handler<A, S, C> + Send + Sync,
        H::Future: Send + 'static,
        A: 'static,
    {
        self.push(Takes::Types, handler)
    }

    /// Dispatches every message that matches no route to `handler`. If these routes are nested, it gets only messages whose
    /// subject begins with the prefix; the fallback of the longest prefix takes a message.
    pub fn fallback<H, A>(self, handler: H) -> Self
    where
        H: Call<A> + Handler<A, S, C> + Send + Sync,
        H::Future: Send + 'static,
        A: 'static,
    {
        self.push(Takes::Others { prefix: "".into() }, handler)
    }

    fn push<H, A>(mut self, takes: Takes, handler: H) -> Self
    where
        H: Call<A> + Handler<A, S, C> + Send + Sync,
        H::Future: Send + 'static,
        A: 'static,
    {
        self.entries.push(Entry::new(takes, handler.type_tables(), self.handlers.len()));
        self.handlers.push(BoxHandler(Arc::new(Erased { handler, arguments: PhantomData })));
        self
    }

    /// Adds other routes. If two routes have one subject, the router is not built.
    pub fn merge(self, other: Self) -> Self {
        self.nest("", other)
    }

    /// Adds other routes, each with `prefix` before its subject, as in `nest("order.", routes)`. A handler gets the message
    /// unchanged, with the whole subject.
    pub fn nest(mut self, prefix: &str, other: Self) -> Self {
        let first = self.handlers.len();
        self.entries.extend(other.entries.into_iter().map(|entry| entry.nested(prefix, first)));
        self.handlers.extend(other.handlers);
        self
    }

    /// Wraps each handler that was added so far, except a fallback, in `layer`. Messages that match no route do not pass
    /// the layer. Each handler gets a service of its own from the layer, before its first message.
    pub fn route_layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService<BoxHandler<S, C>, (), S, C>> + Clone + Send + Sync + 'static,
        L::Service: Service<Message, Response = Disposition> + Clone + Send + Sync + 'static,
        <L::Service as Service<Message>>::Error: Into<BoxError>,
        <L::Service as Service<Message>>::Future: Send + 'static,
        S: Send + Sync,
        C: Send + Sync,
    {
        for entry in self.entries.iter().filter(|entry| !matches!(entry.takes, Takes::Others { .. })) {
            let handler = self.handlers[entry.route].clone();
            let handler = Layered::new(layer.clone(), handler);
            self.handlers[entry.route] = BoxHandler(Arc::new(Erased { handler, arguments: PhantomData }));
        }
        self
    }
}

impl<S: 'static, C: 'static> Default for Routes<S, C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S, C> fmt::Debug for Routes<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// A handler whose type is erased.
pub struct BoxHandler<S, C>(Arc<dyn DynHandler<S, C>>);

trait DynHandler<S, C>: Send + Sync {
    fn handle(&self, message: Message, cx: &Context<S, C>) -> BoxFuture<Disposition>;

    fn type_tables(&self) -> Vec<&'static TypeTable>;
}

struct Erased<H, A> {
    handler: H,
    arguments: PhantomData<fn() -> A>,
}

impl<H, A, S, C> DynHandler<S, C> for Erased<H, A>
where
    H: Handler<A, S, C, Future: Send + 'static> + Send + Sync,
{
    fn handle(&self, message: Message, cx: &Context<S, C>) -> BoxFuture<Disposition> {
        Box::pin(self.handler.handle(message, cx))
    }

    fn type_tables(&self) -> Vec<&'static TypeTable> {
        self.handler.type_tables()
    }
}

impl<S, C> Call<()> for BoxHandler<S, C> {}

impl<S: 'static, C: 'static> Handler<(), S, C> for BoxHandler<S, C> {
    type Future = BoxFuture<Disposition>;

    fn handle(&self, message: Message, cx: &Context<S, C>) -> Self::Future {
        self.0.handle(message, cx)
    }

    fn type_tables(&self) -> Vec<&'static TypeTable> {
        self.0.type_tables()
    }
}

impl<S, C> Clone for BoxHandler<S, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S, C> fmt::Debug for BoxHandler<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxHandler")
    }
}
