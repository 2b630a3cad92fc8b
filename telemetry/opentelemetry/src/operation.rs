//! One operation in progress: its span and its time.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Context, ContextGuard, KeyValue,
    metrics::{Counter, Histogram},
    trace::{Link, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt},
};

use crate::{
    Telemetry,
    destination::Target,
    metrics::Metrics,
    names::{CANCELLED, PANICKED, attribute},
    spans::{StartSpan, Started},
};

/// A span to be started.
pub(crate) struct Begin<'t> {
    pub(crate) spans: &'t dyn StartSpan,
    pub(crate) target: &'t Target,
    pub(crate) kind: SpanKind,
    pub(crate) parent: &'t Context,
    pub(crate) links: Vec<Link>,
    /// `None` is now.
    pub(crate) start: Option<SystemTime>,
}

/// The instrument for a duration or for messages.
pub(crate) type Durations = fn(&Metrics) -> &Histogram<f64>;
pub(crate) type Counts = fn(&Metrics) -> &Counter<u64>;

/// An operation, from its start until its outcome is known, or it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    telemetry: Telemetry,
    target: Arc<Target>,
    /// `None` without a tracer.
    span: Option<Started>,
    began: Duration,
    durations: Durations,
    counts: Option<(u64, Counts)>,
    is_over: bool,
}

impl Begin<'_> {
    /// The maximum of links of a span: the default of the SDK.
    pub(crate) const MAX_LINKS: usize = 128;
    /// Space for the attributes of a message, which are set if the span is recorded.
    const OWN_ATTRIBUTES: usize = 8;

    /// Starts the span with the attributes by which it may be sampled, and sets those of `more` if it is recorded.
    pub(crate) fn span<const N: usize>(self, more: impl FnOnce() -> [Option<KeyValue>; N]) -> Started {
        let Self { spans, target, kind, parent, links, start } = self;
        let mut attributes = Vec::with_capacity(target.attributes.len() + Self::OWN_ATTRIBUTES);
        attributes.extend_from_slice(&target.attributes);
        let mut builder = SpanBuilder::from_name(target.span.clone()).with_kind(kind).with_attributes(attributes);
        if !links.is_empty() {
            builder.links = Some(links);
        }
        builder.start_time = start;
        let started = spans.start(builder, parent);
        if started.is_recording {
            started.context.span().set_attributes(more().into_iter().flatten());
        }
        started
    }
}

impl Running {
    /// An operation that starts now, whose time is recorded in `durations`.
    pub(crate) fn new(
        telemetry: &Telemetry,
        target: &Arc<Target>,
        span: Option<Started>,
        durations: Durations,
    ) -> Self {
        Self::since(telemetry.now().elapsed, telemetry, target, span, durations)
    }

    /// An operation that has started before.
    pub(crate) fn since(
        began: Duration,
        telemetry: &Telemetry,
        target: &Arc<Target>,
        span: Option<Started>,
        durations: Durations,
    ) -> Self {
        let (telemetry, target) = (telemetry.clone(), Arc::clone(target));
        Self { telemetry, target, span, began, durations, counts: None, is_over: false }
    }

    /// Counts so many messages with the outcome.
    pub(crate) fn counting(mut self, messages: u64, counts: Counts) -> Self {
        self.counts = (messages > 0).then_some((messages, counts));
        self
    }

    /// Makes the span the current one until the guard is dropped.
    pub(crate) fn enter(&self) -> Option<ContextGuard> {
        self.span.as_ref().map(|span| span.context.clone().attach())
    }

    /// Calls `f` with the context that messages carry: that of the span, or without a tracer that of the current one.
    pub(crate) fn with_span_context<R>(&self, f: impl FnOnce(&SpanContext) -> R) -> R {
        match &self.span {
            Some(span) => f(span.context.span().span_context()),
            None => Context::map_current(|current| f(current.span().span_context())),
        }
    }

    /// Sets an attribute if the span is recorded.
    pub(crate) fn set(&self, attribute: impl FnOnce() -> KeyValue) {
        if let Some(span) = self.recorded() {
            span.context.span().set_attribute(attribute());
        }
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    fn recorded(&self) -> Option<&Started> {
        self.span.as_ref().filter(|span| span.is_recording)
    }

    /// Ends the operation with an error of a closed list, or none. Only the first outcome counts.
    pub(crate) fn end(&mut self, error: Option<&'static str>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let metrics = self.telemetry.metrics();
        let seconds = self.telemetry.now().elapsed.saturating_sub(self.began).as_secs_f64();
        let durations = (self.durations)(metrics);
        self.target.durations.with(error, |labels| durations.record(seconds, labels));
        if let Some((messages, counts)) = self.counts {
            self.target.counts.with(error, |labels| counts(metrics).add(messages, labels));
        }
        if let Some(span) = self.recorded() {
            let span = span.context.span();
            if let Some(error) = error {
                span.set_attribute(KeyValue::new(attribute::ERROR_TYPE, error));
                span.set_status(Status::Error { description: Cow::Borrowed("") });
            }
            span.end();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(Some(CANCELLED));
    }
}

/// Ends the operation if what is called while this lives panics. A consumer that catches the panic drops the future later,
/// when it is too late to tell.
pub(crate) struct Watched<'a>(pub(crate) &'a mut Running);

impl Drop for Watched<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Some(PANICKED));
        }
    }
}
