use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
};

use consign::{
    Message,
    middleware::trace::outcome::OTHER,
    rpc::{CallError, CallErrorKind, Fault},
};
use opentelemetry::{Context, trace::SpanKind};
use pin_project_lite::pin_project;
use tower::{BoxError, timeout::error::Elapsed};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Telemetry, attributes,
    destination::{Destination, Target},
    names::Operation,
    operation::{Begin, Running},
};

/// A layer that makes [`Call`] services: a `call` span from a request to its reply, around a
/// [`Requester`](consign::rpc::Requester).
///
/// The conventions have no name for this. The span has the kind `CLIENT`. The `send` span of the request is inside of it if the
/// sending stack has a [`SendLayer`](crate::SendLayer):
///
/// ```
/// # use consign::{broker::Broker, codecs::Codecs, rpc::{Client, ReplyQueue, Requester}, transport::{SendError, SendService}};
/// use consign_opentelemetry::Telemetry;
/// use tower::ServiceBuilder;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tower::BoxError> {
/// # let broker = Broker::new();
/// # let requests = broker.create_queue("requests", Default::default())?;
/// # let replies = broker.create_queue("replies", Default::default())?;
/// # let source = ReplyQueue::new(replies.path().as_str(), replies.receiver());
/// let telemetry = Telemetry::builder("servicebus").build();
/// let sender = ServiceBuilder::new().layer(telemetry.send("requests")).service(SendService::new(requests.sender()?));
/// let (requester, replies) = Requester::builder(sender).build(source)?;
/// let requester = ServiceBuilder::new().layer(telemetry.call("requests")).service(requester);
/// let client = Client::new(requester, Codecs::json());
/// # drop((client, replies));
/// # Ok(())
/// # }
/// ```
///
/// # Failure
///
/// It does not change the result. The `error.type` is that of the [`CallErrorKind`], which for a reply that is a fault is
/// `Fault`. It is `Timeout` for a tower timeout inside, `cancelled` for a dropped call, and otherwise `_OTHER`.
///
/// # Order
///
/// Outermost around a requester.
#[derive(Clone, Debug)]
pub struct CallLayer {
    telemetry: Telemetry,
    target: Arc<Target>,
}

impl CallLayer {
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination<'_>) -> Self {
        Self { telemetry: telemetry.clone(), target: destination.target(Operation::CALL) }
    }
}

impl<S> Layer<S> for CallLayer {
    type Service = Call<S>;

    fn layer(&self, inner: S) -> Call<S> {
        Call { inner, layer: self.clone() }
    }
}

/// A service that opens a `call` span; see [`CallLayer`].
#[derive(Clone)]
pub struct Call<S> {
    inner: S,
    layer: CallLayer,
}

impl<S> Service<Message> for Call<S>
where
    S: Service<Message, Response = Message>,
    S::Error: Into<BoxError>,
{
    type Response = Message;
    type Error = BoxError;
    type Future = CallFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Message) -> Self::Future {
        let telemetry = &self.layer.telemetry;
        let span = telemetry.spans().map(|spans| {
            let (target, kind, parent) = (&*self.layer.target, SpanKind::Client, &Context::current());
            let begin = Begin { spans, target, kind, parent, links: Vec::new(), start: None };
            begin.span(|| attributes::ids(request.properties()))
        });
        let running = Running::new(telemetry, &self.layer.target, span, |metrics| &metrics.operation);
        let _current = running.enter();
        CallFuture { call: self.inner.call(request), running }
    }
}

pin_project! {
    /// The future of a call in its span.
    #[must_use = "a call does nothing until it is awaited"]
    pub struct CallFuture<F> {
        #[pin]
        call: F,
        running: Running,
    }
}

impl<F, E> Future for CallFuture<F>
where
    F: Future<Output = Result<Message, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Message, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let current = this.running.enter();
        let answer = ready!(this.call.poll(cx)).map_err(Into::into);
        drop(current);
        this.running.end(match &answer {
            Ok(reply) => Fault::of_reply(reply).map(|_| CallErrorKind::Fault.code()),
            Err(error) => Some(error_type(error)),
        });
        Poll::Ready(answer)
    }
}

fn error_type(error: &BoxError) -> &'static str {
    match error.downcast_ref::<CallError>() {
        Some(error) => error.kind().code(),
        None if error.is::<Elapsed>() => CallErrorKind::Timeout.code(),
        None => OTHER,
    }
}

impl<S: fmt::Debug> fmt::Debug for Call<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for CallFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFuture").finish_non_exhaustive()
    }
}
