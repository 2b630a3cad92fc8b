use std::{fmt, sync::Arc};

use consign::{
    time::{Clock, Moment, SystemClock},
    transport::{Receiver, Sender, ServerAddress},
};
use opentelemetry::{
    InstrumentationScope, StringValue, global,
    metrics::{Meter, MeterProvider},
    trace::{Span, Tracer, TracerProvider},
};

use crate::{
    CallLayer, Conventions, DecodeObserver, ObservedReceiver, ObservedSender, ObservedSessions, ProcessLayer,
    SendLayer,
    attributes::escaped,
    destination::{Client, Destination, IsTemporary, Labels, shared},
    metrics::Metrics,
    names::Names,
    spans::{self, StartSpan},
};

/// Creates the layers of an application, which share their instruments and their labels. A clone is one reference count.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    /// `None` without a provider.
    spans: Option<Box<dyn StartSpan>>,
    metrics: Metrics,
    client: Client,
    labels: Labels,
    parent: Parent,
    has_create_spans: bool,
    has_body_size: bool,
    clock: Arc<dyn Clock>,
}

/// The parent of the span of a received message that has a context. The one of the message's context and the current span that
/// is not the parent is a link.
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
    conventions: Conventions,
    server: Option<ServerAddress>,
    client_id: Option<StringValue>,
    consumer_group: Option<StringValue>,
    /// One for each release of the conventions, because the schema is a property of the instrumentation scope.
    sources: Vec<(Conventions, Sources)>,
    max_destinations: usize,
    destinations: Vec<Box<str>>,
    is_temporary: Option<IsTemporary>,
    parent: Parent,
    has_create_spans: bool,
    has_body_size: bool,
    clock: Arc<dyn Clock>,
}

struct Sources {
    spans: Option<Box<dyn StartSpan>>,
    meter: Meter,
}

impl Telemetry {
    /// Starts with OpenTelemetry's global providers, as they are when [`build`](TelemetryBuilder::build) is called: set them
    /// before. `system` is the `messaging.system` of all spans and metrics: `servicebus`, `rabbitmq`, or a name of yours.
    /// With `servicebus`, which suits the embedded broker too, the attributes of Azure Service Bus have their names of the
    /// conventions.
    pub fn builder(system: impl Into<StringValue>) -> TelemetryBuilder {
        TelemetryBuilder {
            system: system.into(),
            conventions: Conventions::default(),
            server: None,
            client_id: None,
            consumer_group: None,
            sources: Vec::new(),
            max_destinations: TelemetryBuilder::MAX_DESTINATIONS,
            destinations: Vec::new(),
            is_temporary: None,
            parent: Parent::default(),
            has_create_spans: true,
            has_body_size: false,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Returns the layer of a stack that sends to `destination`, a queue or a topic.
    #[must_use]
    pub fn send(&self, destination: &str) -> SendLayer {
        SendLayer::new(self, destination)
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

    pub(crate) fn destination(&self, path: &str) -> Destination<'_> {
        Destination::new(&self.0.client, path, &self.0.labels)
    }

    /// Returns where spans come from. `None` without a provider.
    pub(crate) fn spans(&self) -> Option<&dyn StartSpan> {
        self.0.spans.as_deref()
    }

    pub(crate) fn names(&self) -> &Names {
        &self.0.client.names
    }

    pub(crate) fn parent(&self) -> Parent {
        self.0.parent
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn has_create_spans(&self) -> bool {
        self.0.has_create_spans
    }

    pub(crate) fn has_body_size(&self) -> bool {
        self.0.has_body_size
    }

    pub(crate) fn now(&self) -> Moment {
        self.0.clock.now()
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
        let sources = |conventions| {
            let scope = || scope(conventions);
            let spans = spans::unless_noop(tracers.tracer_with_scope(scope()));
            (conventions, Sources { spans, meter: meters.meter_with_scope(scope()) })
        };
        self.sources = [Conventions::V1_44, Conventions::V1_45].map(sources).into();
        self
    }

    /// Sets the release of the conventions whose names are written.
    pub fn conventions(mut self, conventions: Conventions) -> Self {
        self.conventions = conventions;
        self
    }

    /// Sets the server: `server.address` and `server.port` of all spans and metrics. A transport returns its server:
    ///
    /// ```
    /// use consign::transport::{ServerAddress, Transport};
    /// use consign_opentelemetry::Telemetry;
    ///
    /// # let transport = consign::broker::Broker::new();
    /// let telemetry = Telemetry::builder("rabbitmq").server(transport.server()).build();
    /// let other = Telemetry::builder("rabbitmq").server(ServerAddress::new("mq.example.com").with_port(5672)).build();
    /// ```
    ///
    /// `None` has no effect. The embedded broker has no server, nor does a transport that does not know which of several it is
    /// connected to. The server stays as it is here, whichever server a client connects to later.
    pub fn server(mut self, server: impl Into<Option<ServerAddress>>) -> Self {
        self.server = server.into().or(self.server);
        self
    }

    /// Sets the `messaging.client.id` of all spans: the name of the connection or of the process.
    pub fn client_id(mut self, id: &str) -> Self {
        self.client_id = Some(shared(id));
        self
    }

    /// Sets the `messaging.consumer.group.name` of the spans and metrics of receives, handlers and settlements, where the
    /// system has such groups: the durable consumer of NATS, for example. The name of a subscription is read from its path.
    pub fn consumer_group(mut self, name: &str) -> Self {
        self.consumer_group = Some(shared(name));
        self
    }

    /// Sets how many destinations have labels of their own, those of [`destinations`](Self::destinations) included: by default
    /// [`MAX_DESTINATIONS`](Self::MAX_DESTINATIONS). The metrics of all others have no destination, and the names of their
    /// spans are the operation alone.
    pub fn max_destinations(mut self, most: usize) -> Self {
        self.max_destinations = most;
        self
    }

    /// Sets destinations that always have labels, unless they are temporary. Where other programs choose the names of
    /// destinations, name your own here.
    pub fn destinations<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.destinations.extend(names.into_iter().map(|name| escaped(name.as_ref()).into()));
        self
    }

    /// Sets which destinations are temporary, by their path, beside those that the transports of `consign` make for replies.
    /// Their spans have `messaging.destination.temporary`. Their metrics have no destination, and the names of their spans are
    /// the operation alone. They do not count among [`max_destinations`](Self::max_destinations).
    ///
    /// Set it for addresses that a broker of AMQP 1.0 makes, which have no form in common:
    ///
    /// ```
    /// # use consign_opentelemetry::Telemetry;
    /// let telemetry = Telemetry::builder("activemq").temporary(|path| path.starts_with("temp-")).build();
    /// ```
    pub fn temporary(mut self, is_temporary: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.is_temporary = Some(Box::new(is_temporary));
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

    /// Sets whether `process` spans have `messaging.message.body.size`, in bytes: by default they have not, because the
    /// conventions make it opt-in.
    pub fn body_size(mut self, has_body_size: bool) -> Self {
        self.has_body_size = has_body_size;
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
        let conventions = self.conventions;
        let given = self.sources.into_iter().find(|(of, _)| *of == conventions);
        let Sources { spans, meter } = given.map_or_else(
            || Sources {
                spans: spans::unless_noop(global::tracer_with_scope(scope(conventions))),
                meter: global::meter_with_scope(scope(conventions)),
            },
            |(_, sources)| sources,
        );
        let names = conventions.names(self.system.as_str());
        let system = conventions.system(self.system.as_str()).map_or(self.system, StringValue::from);
        let server = self.server.map(|server| (shared(&server.host), server.port));
        Telemetry(Arc::new(Inner {
            spans,
            metrics: Metrics::new(&meter),
            client: Client { system, names, server, id: self.client_id, consumer_group: self.consumer_group },
            labels: Labels::new(self.max_destinations, self.destinations, self.is_temporary),
            parent: self.parent,
            has_create_spans: self.has_create_spans,
            has_body_size: self.has_body_size,
            clock: self.clock,
        }))
    }
}

fn scope(conventions: Conventions) -> InstrumentationScope {
    InstrumentationScope::builder("consign")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(conventions.schema_url())
        .build()
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("system", &self.0.client.system)
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
