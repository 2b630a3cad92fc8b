//! Where spans come from: a tracer whose type is not known, or none.

use opentelemetry::{
    Context, SpanId, TraceFlags, TraceId,
    trace::{Span, SpanBuilder, SpanContext, TraceContextExt, TraceState, Tracer},
};

/// Starts spans. In place of [`BoxedTracer`](opentelemetry::global::BoxedTracer), which allocates each span, also one that is
/// not recorded.
pub(crate) trait StartSpan: Send + Sync {
    fn start(&self, builder: SpanBuilder, parent: &Context) -> Started;
}

/// A span that was started.
#[derive(Debug)]
pub(crate) struct Started {
    /// The context that is current while the operation runs.
    pub(crate) context: Context,
    pub(crate) is_recording: bool,
}

impl<T> StartSpan for T
where
    T: Tracer<Span: Send + Sync + 'static> + Send + Sync,
{
    fn start(&self, builder: SpanBuilder, parent: &Context) -> Started {
        let span = self.build_with_context(builder, parent);
        if span.is_recording() {
            return Started { context: parent.with_span(span), is_recording: true };
        }
        let own = span.span_context();
        let context = if is_covered(own, parent.span().span_context()) {
            parent.clone()
        } else {
            parent.with_remote_span_context(own.clone())
        };
        Started { context, is_recording: false }
    }
}

/// Returns whether the context of the parent serves the children of a span that is not recorded: the same trace, not sampled
/// either. A tracer that is suppressed or shut down returns a context that is not valid.
fn is_covered(own: &SpanContext, parent: &SpanContext) -> bool {
    let is_same = || own.trace_id() == parent.trace_id() && own.trace_flags() == parent.trace_flags();
    !own.is_valid() || (is_same() && own.trace_state() == parent.trace_state())
}

/// Returns the tracer. `None` for the one that OpenTelemetry has without a provider, which never starts a span.
pub(crate) fn unless_noop<T>(tracer: T) -> Option<Box<dyn StartSpan>>
where
    T: Tracer<Span: Send + Sync + 'static> + Send + Sync + 'static,
{
    // Where telemetry is suppressed the SDK starts a span without a context, and that tracer one with its parent's.
    let parent = SpanContext::new(TraceId::from(1), SpanId::from(1), TraceFlags::default(), true, TraceState::NONE);
    let context = Context::new().with_remote_span_context(parent.clone()).with_telemetry_suppressed();
    let probe = tracer.build_with_context(SpanBuilder::from_name("consign.probe"), &context);
    (*probe.span_context() != parent).then(|| Box::new(tracer) as Box<dyn StartSpan>)
}
