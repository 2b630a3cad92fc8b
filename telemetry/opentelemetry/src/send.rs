use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
};

use consign::{
    message::Properties,
    transport::{SendError, SendRequest},
};
use opentelemetry::{
    KeyValue,
    trace::{SpanContext, SpanKind, TraceContextExt},
};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Telemetry, attributes,
    context::{current, extract, inject},
    destination::{Destination, Target},
    names::{Operation, attribute},
    operation::{Begin, Running},
};

/// A layer that makes [`Send`] services: a `send` span around each message or batch, whose context is written into the
/// messages.
///
/// ```
/// use consign::{Message, transport::SendError};
/// use consign_opentelemetry::Telemetry;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), SendError> {
/// let telemetry = Telemetry::builder("servicebus").build();
/// let sender = ServiceBuilder::new()
///     .layer(telemetry.send("orders"))
///     .service(service_fn(async |_: Message| Ok::<_, SendError>(())));
/// sender.oneshot(Message::new("body")).await
/// # }
/// ```
///
/// # Context of a message
///
/// `traceparent` and `tracestate` are those of the `send` span for a single message. Each message of a batch has a `create`
/// span of its own, which the `send` span links to. A message with a context of another trace keeps it, because it was created
/// in that trace; the `send` span links to it. A message with a context of the current trace gets the new one: a reply, or a
/// message that a handler forwards.
///
/// # Failure
///
/// It does not change the result. A message in whose properties the context does not fit is sent without one, and is counted. A
/// dropped call has the error `cancelled`.
///
/// # Order
///
/// Outermost in a sending stack: a retry inside repeats the message with the same context, and the span covers all attempts.
///
/// # Cost
///
/// A span with its attributes, two properties of each message, and a copy of properties that are shared. Without a provider the
/// attributes remain.
#[derive(Clone, Debug)]
pub struct SendLayer {
    telemetry: Telemetry,
    targets: Targets,
}

#[derive(Clone, Debug)]
struct Targets {
    send: Arc<Target>,
    create: Arc<Target>,
}

impl SendLayer {
    pub(crate) fn new(telemetry: &Telemetry, destination: &Destination) -> Self {
        let targets =
            Targets { send: destination.target(Operation::SEND), create: destination.target(Operation::CREATE) };
        Self { telemetry: telemetry.clone(), targets }
    }
}

impl<S> Layer<S> for SendLayer {
    type Service = Send<S>;

    fn layer(&self, inner: S) -> Send<S> {
        Send { inner, layer: self.clone() }
    }
}

/// A service that opens a `send` span; see [`SendLayer`].
#[derive(Clone)]
pub struct Send<S> {
    inner: S,
    layer: SendLayer,
}

impl<S, R> Service<R> for Send<S>
where
    S: Service<R, Response = ()>,
    S::Error: Into<SendError>,
    R: SendRequest,
{
    type Response = ();
    type Error = SendError;
    type Future = SendFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), SendError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let running = self.layer.begin(&mut request);
        let _current = running.context().clone().attach();
        SendFuture::new(self.inner.call(request), running)
    }
}

impl SendLayer {
    pub(crate) fn begin(&self, request: &mut impl SendRequest) -> Running {
        let messages = request.items().len();
        let running = if messages == 1 { self.single(request) } else { self.batch(request, messages) };
        running.counting(u64::try_from(messages).unwrap_or(u64::MAX), |metrics| &metrics.sent)
    }

    fn single(&self, request: &mut impl SendRequest) -> Running {
        let (mut attributes, mut kept) = (Vec::new(), None);
        for properties in request.all_properties() {
            attributes = attributes::ids(properties);
            kept = kept_context(properties);
        }
        let kind = if kept.is_some() { SpanKind::Client } else { SpanKind::Producer };
        let is_kept = kept.is_some();
        let running = self.send(kind, kept.into_iter().collect(), attributes);
        if !is_kept {
            let span = running.context().span().span_context().clone();
            request.all_properties_mut().for_each(|properties| inject(&span, properties, self.telemetry.metrics()));
        }
        running
    }

    fn batch(&self, request: &mut impl SendRequest, messages: usize) -> Running {
        let attributes = vec![KeyValue::new(attribute::BATCH_COUNT, attributes::number(messages))];
        if self.telemetry.has_create_spans() {
            let context =
                |properties: &mut Properties| kept_context(properties).unwrap_or_else(|| self.create(properties));
            let links = request.all_properties_mut().map(context).collect();
            return self.send(SpanKind::Client, links, attributes);
        }
        let links = request.all_properties().filter_map(kept_context).collect();
        let running = self.send(SpanKind::Producer, links, attributes);
        let span = running.context().span().span_context().clone();
        for properties in request.all_properties_mut() {
            if kept_context(properties).is_none() {
                inject(&span, properties, self.telemetry.metrics());
            }
        }
        running
    }

    /// Creates the span of one message of a batch. It has ended when it has a context.
    fn create(&self, properties: &mut Properties) -> SpanContext {
        let (parent, _) = current();
        let begin = Begin {
            telemetry: &self.telemetry,
            target: &self.targets.create,
            kind: SpanKind::Producer,
            parent: &parent,
            links: Vec::new(),
            attributes: attributes::ids(properties),
        };
        let context = begin.span();
        let span = context.span().span_context().clone();
        inject(&span, properties, self.telemetry.metrics());
        context.span().end();
        span
    }

    fn send(&self, kind: SpanKind, links: Vec<SpanContext>, attributes: Vec<KeyValue>) -> Running {
        let (parent, _) = current();
        let (telemetry, target) = (&self.telemetry, &self.targets.send);
        Begin { telemetry, target, kind, parent: &parent, links, attributes }.run(|metrics| &metrics.operation)
    }
}

/// Returns the context that a message keeps: one of another trace.
fn kept_context(properties: &Properties) -> Option<SpanContext> {
    let carried = extract(properties)?;
    let (_, span) = current();
    let is_ours = span.is_some_and(|span| span.trace_id() == carried.trace_id());
    (!is_ours).then_some(carried)
}

pin_project! {
    /// The future of a send in its span.
    #[must_use = "a send does nothing until it is awaited"]
    pub struct SendFuture<F> {
        #[pin]
        send: F,
        running: Running,
    }
}

impl<F> SendFuture<F> {
    pub(crate) fn new(send: F, running: Running) -> Self {
        Self { send, running }
    }
}

impl<F, E> Future for SendFuture<F>
where
    F: Future<Output = Result<(), E>>,
    E: Into<SendError>,
{
    type Output = Result<(), SendError>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let current = this.running.context().clone().attach();
        let sent = ready!(this.send.poll(cx)).map_err(Into::into);
        drop(current);
        this.running.end(sent.as_ref().err().map(|error| error.kind().code()));
        Poll::Ready(sent)
    }
}

impl<S: fmt::Debug> fmt::Debug for Send<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Send").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for SendFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").finish_non_exhaustive()
    }
}
