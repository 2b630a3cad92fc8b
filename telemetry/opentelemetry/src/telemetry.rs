use std::{fmt, sync::Arc};

use consign::{
    time::{Clock, Moment, SystemClock},
    transport::{Escaped, Receiver, Sender},
};
use opentelemetry::{
    Context, InstrumentationScope, StringValue,
    global::{self, BoxedTracer},
    metrics::{Meter, MeterProvider},
    trace::{Span, SpanContext, TraceContextExt, Tracer, TracerProvider},
};

use crate::{
    CallLayer, DecodeObserver, ObservedReceiver, ObservedSender, ObservedSessions, ProcessLayer, SendLayer,
    context::current,
    destination::{Destination, Labels},
    metrics::Metrics,
};

/// Creates the layers of an application, which share their instruments and their labels. A clone is one reference count.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    tracer: BoxedTracer,
    metrics: Metrics,
    system: StringValue,
    labels: Labels,
    parent: Parent,
    has_create_spans: bool,
    clock: Arc<dyn Clock>,
}

/// The parent of the `process` span of a message that has a context. The context is a link of the span in each case, and so is
/// a current span that is not the parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parent {
    /// The current span if there is one, and otherwise the context of the message.
    #[default]
    CurrentOrMessage,
    /// The context of the message: one trace from the sender to the handler.
    Message,
    /// The current span. Without one a new trace starts.
    Current,
}

/// A builder of [`Telemetry`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct TelemetryBuilder {
    system: StringValue,
    tracer: Option<BoxedTracer>,
    meter: Option<Meter>,
    max_destinations: usize,
    destinations: Vec<Box<str>>,
    parent: Parent,
    has_create_spans: bool,
    clock: Arc<dyn Clock>,
}

impl Telemetry {
    /// Starts with OpenTelemetry's global providers. `system` is the `messaging.system` of all spans and metrics:
    /// `servicebus`, `rabbitmq`, or a name of yours.
    pub fn builder(system: impl Into<StringValue>) -> TelemetryBuilder {
        TelemetryBuilder {
            system: system.into(),
            tracer: None,
            meter: None,
            max_destinations: TelemetryBuilder::MAX_DESTINATIONS,
            destinations: Vec::new(),
            parent: Parent::default(),
            has_create_spans: true,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Returns the layer of a stack that sends to `destination`, a queue or a topic.
    #[must_use]
    pub fn send(&self, destination: &str) -> SendLayer {
        SendLayer::new(self, &self.destination(destination))
    }

    /// Returns the layer of a stack that handles messages from `destination`: a queue, a subscription as
    /// `topic/Subscriptions/name`, or a sub-queue.
    #[must_use]
    pub fn process(&self, destination: &str) -> ProcessLayer {
        ProcessLayer::new(self, &self.destination(destination))
    }

    /// Returns the layer around a [`Requester`](consign::rpc::Requester) whose requests are sent to `destination`.
    #[must_use]
    pub fn call(&self, destination: &str) -> CallLayer {
        CallLayer::new(self, &self.destination(destination))
    }

    /// Wraps a receiver of `destination` with spans around receives and settlements.
    #[must_use]
    pub fn receiver<R: Receiver>(&self, destination: &str, receiver: R) -> ObservedReceiver<R> {
        ObservedReceiver::new(self, &self.destination(destination), receiver)
    }

    /// Wraps sessions of `destination` with spans around receives and settlements.
    #[must_use]
    pub fn sessions<S>(&self, destination: &str, source: S) -> ObservedSessions<S> {
        ObservedSessions::new(self, &self.destination(destination), source)
    }

    /// Wraps a sender to `destination` with spans around sends, for sends outside of a stack.
    #[must_use]
    pub fn sender<X: Sender>(&self, destination: &str, sender: X) -> ObservedSender<X> {
        ObservedSender::new(self.send(destination), sender)
    }

    /// Returns an observer that counts how bodies are read, for
    /// [`CodecsBuilder::observe`](consign::codecs::CodecsBuilder::observe).
    #[must_use]
    pub fn decodes(&self) -> DecodeObserver {
        DecodeObserver::new(self)
    }

    fn destination(&self, path: &str) -> Destination {
        Destination::new(self.0.system.clone(), path, &self.0.labels)
    }

    pub(crate) fn tracer(&self) -> &BoxedTracer {
        &self.0.tracer
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn has_create_spans(&self) -> bool {
        self.0.has_create_spans
    }

    pub(crate) fn now(&self) -> Moment {
        self.0.clock.now()
    }

    /// Returns parent and links of the span of one received message.
    pub(crate) fn relation(&self, message: Option<SpanContext>) -> (Context, Vec<SpanContext>) {
        let (current, span) = current();
        let Some(message) = message else { return (current, Vec::new()) };
        let is_parent = match self.0.parent {
            Parent::CurrentOrMessage => span.is_none(),
            Parent::Message => true,
            Parent::Current => false,
        };
        if is_parent {
            let parent = current.with_remote_span_context(message.clone());
            (parent, [Some(message), span].into_iter().flatten().collect())
        } else {
            (current, vec![message])
        }
    }
}

impl TelemetryBuilder {
    /// How many destinations have labels of their own by default: 100.
    pub const MAX_DESTINATIONS: usize = 100;

    /// Sets the providers of spans and metrics, in place of the global ones.
    pub fn providers<T, M>(mut self, tracers: &T, meters: &M) -> Self
    where
        T: TracerProvider<Tracer: Tracer<Span: Span + Send + Sync + 'static> + Send + Sync + 'static>,
        M: MeterProvider,
    {
        self.tracer = Some(BoxedTracer::new(Box::new(tracers.tracer_with_scope(scope()))));
        self.meter = Some(meters.meter_with_scope(scope()));
        self
    }

    /// Sets how many destinations have labels of their own, those of [`destinations`](Self::destinations) included: by default
    /// [`MAX_DESTINATIONS`](Self::MAX_DESTINATIONS). All others are `_other` on metrics, and have spans whose name is the
    /// operation alone.
    pub fn max_destinations(mut self, most: usize) -> Self {
        self.max_destinations = most;
        self
    }

    /// Sets destinations that always have labels. Where requesters choose the names, as those of the entities for their
    /// replies, name your own here.
    pub fn destinations<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.destinations.extend(names.into_iter().map(|name| Escaped(name.as_ref()).to_string().into()));
        self
    }

    /// Sets the parent of the span of a received message.
    pub fn parent(mut self, parent: Parent) -> Self {
        self.parent = parent;
        self
    }

    /// Sets whether each message of a batch has a `create` span, whose context it carries: by default it has. Otherwise all of
    /// them carry the context of their `send` span.
    pub fn create_spans(mut self, has_create_spans: bool) -> Self {
        self.has_create_spans = has_create_spans;
        self
    }

    /// Sets the clock that measures durations, by default that of the system.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Creates the instruments.
    #[must_use]
    pub fn build(self) -> Telemetry {
        let tracer = self.tracer.unwrap_or_else(|| global::tracer_with_scope(scope()));
        let meter = self.meter.unwrap_or_else(|| global::meter_with_scope(scope()));
        Telemetry(Arc::new(Inner {
            tracer,
            metrics: Metrics::new(&meter),
            system: self.system,
            labels: Labels::new(self.max_destinations, self.destinations),
            parent: self.parent,
            has_create_spans: self.has_create_spans,
            clock: self.clock,
        }))
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("consign").with_version(env!("CARGO_PKG_VERSION")).build()
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("system", &self.0.system)
            .field("parent", &self.0.parent)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TelemetryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryBuilder")
            .field("system", &self.system)
            .field("parent", &self.parent)
            .field("max_destinations", &self.max_destinations)
            .finish_non_exhaustive()
    }
}
