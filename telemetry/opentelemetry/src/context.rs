//! Conversions between the context of a span and that of a message.

use std::str::FromStr;

use consign::message::{Properties, PropertyValue, TraceContext};
use opentelemetry::{
    Context, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, TraceContextExt, TraceState},
};

use crate::{
    Parent,
    metrics::{Lost, Metrics},
};

/// Returns the context of a message, if it has one.
pub(crate) fn extract(properties: &Properties) -> Option<SpanContext> {
    TraceContext::of(properties).ok().flatten().map(|context| to_span(&context).0)
}

/// Returns the same, and counts a malformed context.
pub(crate) fn extract_counted(properties: &Properties, metrics: &Metrics) -> Option<SpanContext> {
    let Ok(read) = TraceContext::of(properties) else {
        metrics.lost(Lost::MalformedParent);
        return None;
    };
    let context = read?;
    let state = properties.application_properties().get(TraceContext::TRACESTATE).and_then(PropertyValue::as_str);
    let is_malformed = context.state().is_none() && state.is_some_and(|state| !state.is_empty());
    let (span, is_whole) = to_span(&context);
    if is_malformed || !is_whole {
        metrics.lost(Lost::MalformedState);
    }
    Some(span)
}

/// Writes the context of a span into a message. A message in which it does not fit has none.
pub(crate) fn inject(span: &SpanContext, properties: &mut Properties, metrics: &Metrics) {
    let Some(context) = of_span(span) else { return };
    if context.write(properties).is_err() {
        metrics.lost(Lost::NoRoom);
    }
}

/// Returns the context as OpenTelemetry has it, and whether its state is whole.
fn to_span(context: &TraceContext) -> (SpanContext, bool) {
    let flags = if context.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (state, is_whole) = context.state().map_or((TraceState::NONE, true), to_state);
    let (trace, span) = (TraceId::from_bytes(context.trace_id()), SpanId::from_bytes(context.span_id()));
    (SpanContext::new(trace, span, flags, true, state), is_whole)
}

/// Returns the entries that OpenTelemetry accepts, and whether these are all: it refuses some that the grammar has.
fn to_state(text: &str) -> (TraceState, bool) {
    if let Ok(state) = TraceState::from_str(text) {
        return (state, true);
    }
    let accepted = text.split(',').filter(|entry| TraceState::from_str(entry).is_ok()).collect::<Vec<_>>().join(",");
    (TraceState::from_str(&accepted).unwrap_or(TraceState::NONE), false)
}

/// Returns the context of a span. `None` if it is not valid: the message keeps its own context.
fn of_span(span: &SpanContext) -> Option<TraceContext> {
    let context = TraceContext::new(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.is_sampled())?;
    Some(if *span.trace_state() == TraceState::NONE {
        context
    } else {
        context.with_state(&span.trace_state().header())
    })
}

/// Returns the parent and the link of the span of one received message. A context is one of the two, never both.
pub(crate) fn relation(parent: Parent, message: Option<SpanContext>) -> (Context, Option<SpanContext>) {
    let current = Context::current();
    let Some(message) = message else { return (current, None) };
    let (has_span, is_message) = {
        let span = current.span();
        let span = span.span_context();
        (span.is_valid(), (span.trace_id(), span.span_id()) == (message.trace_id(), message.span_id()))
    };
    let is_parent = match parent {
        Parent::CurrentOrMessage => !has_span,
        Parent::Message => !is_message,
        Parent::Current => false,
    };
    if is_parent {
        let link = has_span.then(|| current.span().span_context().clone());
        (current.with_remote_span_context(message), link)
    } else {
        (current, (!is_message).then_some(message))
    }
}

/// Returns whether a span is current, and of this trace.
pub(crate) fn is_current_trace(trace: TraceId) -> bool {
    Context::map_current(|current| {
        let span = current.span();
        span.span_context().is_valid() && span.span_context().trace_id() == trace
    })
}
