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
    Context, KeyValue,
    trace::{Link, SpanContext, SpanKind, TraceContextExt},
};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Telemetry, attributes,
    context::{extract, inject, is_current_trace},
    destination::{Destination, Target, shared},
    names::{Operation, attribute},
    operation::{Begin, Running},
    spans::{StartSpan, Started},
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
/// A span with its attributes, two properties of each message, and a copy of properties that are shared. If the span is not
/// recorded, the attributes of the message are not set. Without a provider it allocates nothing.
#[derive(Clone, Debug)]
pub struct SendLayer {
    telemetry: Telemetry,
    destination: Box<str>,
    targets: Targets,
}

#[derive(Clone, Debug)]
struct Targets {
    send: Arc<Target>,
    create: Arc<Target>,
}

impl SendLayer {
    pub(crate) fn new(telemetry: &Telemetry, path: &str) -> Self {
        let targets = Targets::new(&telemetry.destination(path), None);
        Self { telemetry: telemetry.clone(), destination: path.into(), targets }
    }

    /// Sets the routing key of RabbitMQ on the spans: for a queue of `consign-rabbitmq` its name, and none for a topic. It has
    /// no effect on other systems.
    #[must_use]
    pub fn routing_key(mut self, key: &str) -> Self {
        if let Some(name) = self.telemetry.names().routing_key.filter(|_| !key.is_empty()) {
            let key = KeyValue::new(name, shared(key));
            self.targets = Targets::new(&self.telemetry.destination(&self.destination), Some(&key));
        }
        self
    }
}

impl Targets {
    fn new(destination: &Destination<'_>, key: Option<&KeyValue>) -> Self {
        let of = |operation| destination.target_with(operation, key.cloned());
        Self { send: of(Operation::SEND), create: of(Operation::CREATE) }
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
        let _current = running.enter();
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
        let kept = request.all_properties().next().and_then(kept_context);
        let is_kept = kept.is_some();
        let span = self.telemetry.spans().map(|spans| {
            let kind = if is_kept { SpanKind::Client } else { SpanKind::Producer };
            let links = kept.into_iter().map(Link::with_context).collect();
            let ids = || request.all_properties().next().map_or([None, None], attributes::ids);
            self.begin_send(spans, kind, &Context::current(), links).span(ids)
        });
        let running = self.running(span);
        if !is_kept {
            self.inject(&running, request, |_| true);
        }
        running
    }

    fn batch(&self, request: &mut impl SendRequest, messages: usize) -> Running {
        let count = || [Some(KeyValue::new(attribute::BATCH_COUNT, attributes::number(messages)))];
        let Some(spans) = self.telemetry.spans() else {
            let running = self.running(None);
            self.inject(&running, request, |properties| kept_context(properties).is_none());
            return running;
        };
        let parent = &Context::current();
        if self.telemetry.has_create_spans() {
            let context = |properties: &mut Properties| {
                kept_context(properties).unwrap_or_else(|| self.create(spans, parent, properties))
            };
            let links = request.all_properties_mut().map(context).map(Link::with_context).collect();
            return self.running(Some(self.begin_send(spans, SpanKind::Client, parent, links).span(count)));
        }
        let links = request.all_properties().filter_map(kept_context).map(Link::with_context).collect();
        // The context of a Producer span is in a message.
        let is_injected = request.all_properties().any(|properties| kept_context(properties).is_none());
        let kind = if is_injected { SpanKind::Producer } else { SpanKind::Client };
        let running = self.running(Some(self.begin_send(spans, kind, parent, links).span(count)));
        self.inject(&running, request, |properties| kept_context(properties).is_none());
        running
    }

    fn begin_send<'t>(
        &'t self,
        spans: &'t dyn StartSpan,
        kind: SpanKind,
        parent: &'t Context,
        mut links: Vec<Link>,
    ) -> Begin<'t> {
        links.truncate(Begin::MAX_LINKS);
        Begin { spans, target: &self.targets.send, kind, parent, links, start: None }
    }

    fn running(&self, span: Option<Started>) -> Running {
        Running::new(&self.telemetry, &self.targets.send, span, |metrics| &metrics.operation)
    }

    /// Writes the context of the span into messages; without a tracer that of the current span. It copies a message that
    /// others share.
    fn inject(&self, running: &Running, request: &mut impl SendRequest, is_for: impl Fn(&Properties) -> bool) {
        running.with_span_context(|span| {
            if span.is_valid() {
                for properties in request.all_properties_mut().filter(|properties| is_for(properties)) {
                    inject(span, properties, self.telemetry.metrics());
                }
            }
        });
    }

    /// Creates the span of one message of a batch. It has ended when it has a context.
    fn create(&self, spans: &dyn StartSpan, parent: &Context, properties: &mut Properties) -> SpanContext {
        let (target, kind) = (&*self.targets.create, SpanKind::Producer);
        let begin = Begin { spans, target, kind, parent, links: Vec::new(), start: None };
        let created = begin.span(|| attributes::ids(properties));
        let span = created.context.span();
        inject(span.span_context(), properties, self.telemetry.metrics());
        // The span of one that is not recorded may be that of the caller.
        if created.is_recording {
            span.end();
        }
        span.span_context().clone()
    }
}

/// Returns the context that a message keeps: one of another trace.
fn kept_context(properties: &Properties) -> Option<SpanContext> {
    extract(properties).filter(|carried| !is_current_trace(carried.trace_id()))
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
        let current = this.running.enter();
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
