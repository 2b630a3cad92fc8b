//! One operation in progress: its span and its time.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Context, KeyValue,
    metrics::{Counter, Histogram},
    trace::{Link, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer},
};

use crate::{
    Telemetry,
    destination::Target,
    metrics::Metrics,
    names::{CANCELLED, attribute},
};

/// A span to be started.
pub(crate) struct Begin<'t> {
    pub(crate) telemetry: &'t Telemetry,
    pub(crate) target: &'t Arc<Target>,
    pub(crate) kind: SpanKind,
    pub(crate) parent: &'t Context,
    pub(crate) links: Vec<SpanContext>,
    pub(crate) attributes: Vec<KeyValue>,
}

/// The instrument for a duration or for messages.
pub(crate) type Durations = fn(&Metrics) -> &Histogram<f64>;
pub(crate) type Counts = fn(&Metrics) -> &Counter<u64>;

/// An operation, from its start until its outcome is known, or it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    telemetry: Telemetry,
    target: Arc<Target>,
    context: Context,
    began: Duration,
    durations: Durations,
    counts: Option<(u64, Counts)>,
    is_over: bool,
}

impl Begin<'_> {
    /// The maximum of links of a span: the default of the SDK.
    pub(crate) const MAX_LINKS: usize = 128;

    /// Starts the span, and returns its context.
    pub(crate) fn span(self) -> Context {
        self.span_since(None)
    }

    fn span_since(self, start: Option<SystemTime>) -> Context {
        let Self { telemetry, target, kind, parent, links, attributes } = self;
        let attributes: Vec<KeyValue> = target.attributes.iter().cloned().chain(attributes).collect();
        let links = links.into_iter().take(Self::MAX_LINKS).map(Link::with_context).collect();
        let name = String::from(&*target.span);
        let mut builder = SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes).with_links(links);
        builder.start_time = start;
        parent.with_span(telemetry.tracer().build_with_context(builder, parent))
    }

    /// Starts the operation, whose time is recorded in `durations`.
    pub(crate) fn run(self, durations: Durations) -> Running {
        let began = self.telemetry.now().elapsed;
        self.run_since(began, None, durations)
    }

    /// The same for an operation that has started before.
    pub(crate) fn run_since(self, began: Duration, start: Option<SystemTime>, durations: Durations) -> Running {
        let (telemetry, target) = (self.telemetry.clone(), Arc::clone(self.target));
        let context = self.span_since(start);
        Running { telemetry, target, context, began, durations, counts: None, is_over: false }
    }
}

impl Running {
    /// Counts so many messages with the outcome.
    pub(crate) fn counting(mut self, messages: u64, counts: Counts) -> Self {
        self.counts = Some((messages, counts));
        self
    }

    /// Returns the context that is current while the operation runs.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Ends the operation with an error of a closed list, or none. Only the first outcome counts.
    pub(crate) fn end(&mut self, error: Option<&'static str>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let metrics = self.telemetry.metrics();
        let seconds = self.telemetry.now().elapsed.saturating_sub(self.began).as_secs_f64();
        let durations = (self.durations)(metrics);
        with_error(&self.target.labels, error, |labels| durations.record(seconds, labels));
        if let Some((messages, counts)) = self.counts {
            with_error(&self.target.counts, error, |labels| counts(metrics).add(messages, labels));
        }
        let span = self.context.span();
        if let Some(error) = error {
            span.set_attribute(KeyValue::new(attribute::ERROR_TYPE, error));
            span.set_status(Status::Error { description: Cow::Borrowed("") });
        }
        span.end();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(Some(CANCELLED));
    }
}

fn with_error(labels: &[KeyValue], error: Option<&'static str>, f: impl FnOnce(&[KeyValue])) {
    match error {
        None => f(labels),
        Some(error) => {
            let error = KeyValue::new(attribute::ERROR_TYPE, error);
            f(&labels.iter().cloned().chain([error]).collect::<Vec<_>>());
        }
    }
}
