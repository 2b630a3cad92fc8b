//! What a sampler sees, and what stays of a trace that is not recorded or has no tracer.

use std::sync::{Arc, Mutex};

use consign::{
    Disposition, Message,
    message::{PropertyValue, SequenceNumber, TraceContext},
    transport::{Batch, SendExt, SendService},
};
use consign_opentelemetry::Telemetry;
use opentelemetry::{
    Context, KeyValue, TraceId,
    metrics::NoopMeterProvider,
    trace::{FutureExt, Link, SpanKind, TraceContextExt, TraceState, Tracer, TracerProvider, noop::NoopTracerProvider},
};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::bench::{Bench, text};

const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// Takes none, and keeps what it was asked about.
#[derive(Clone, Debug, Default)]
struct Asked(Arc<Mutex<Vec<Question>>>);

type Question = (String, SpanKind, Vec<String>);

impl ShouldSample for Asked {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        _: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        self.0.lock().unwrap().push((name.into(), kind.clone(), text(attributes)));
        let trace_state = parent.map_or(TraceState::NONE, |parent| parent.span().span_context().trace_state().clone());
        SamplingResult { decision: SamplingDecision::Drop, attributes: Vec::new(), trace_state }
    }
}

fn traced(context: &str) -> Message {
    Message::builder().message_id("m-1").property("traceparent", context.to_owned()).build("").unwrap()
}

fn parent_of(message: &Message) -> Option<String> {
    message.application_properties().get("traceparent").and_then(PropertyValue::as_str).map(String::from)
}

/// Sends one message on from a handler of a message with `context`, and returns its `traceparent`.
async fn forwarded(bench: &Bench, telemetry: &Telemetry, context: &str) -> Option<String> {
    let next = bench.queue("next");
    let forward = service_fn(|_: Message| {
        let mut sender = telemetry.send("next").layer(SendService::new(next.sender().unwrap()));
        async move {
            sender.send(Message::new("on")).await?;
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    telemetry.process("orders").layer(forward).oneshot(traced(context)).await.unwrap();
    parent_of(&next.peek(SequenceNumber::default(), 1)[0])
}

/// Rules: O-33.
#[tokio::test(start_paused = true)]
async fn a_sampler_sees_the_attributes_that_matter_to_it() {
    let asked = Asked::default();
    let bench = Bench::sampled(asked.clone(), "servicebus", |builder| builder);
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    bench.telemetry.process("orders").layer(handler).oneshot(traced(SAMPLED)).await.unwrap();
    let attributes = [
        "messaging.destination.name=orders",
        "messaging.operation.name=process",
        "messaging.operation.type=process",
        "messaging.system=servicebus",
    ];
    let expected = ("process orders".into(), SpanKind::Consumer, attributes.map(String::from).to_vec());
    assert_eq!(*asked.0.lock().unwrap(), [expected]);
    assert_eq!(bench.spans().tree(), [""; 0]);
}

/// Rules: O-34.
#[tokio::test(start_paused = true)]
async fn a_trace_that_is_not_recorded_goes_on_as_not_sampled() {
    for (sampler, context) in [
        (Sampler::AlwaysOff, SAMPLED),
        (Sampler::AlwaysOff, UNSAMPLED),
        (Sampler::ParentBased(Box::new(Sampler::AlwaysOn)), UNSAMPLED),
    ] {
        let bench = Bench::sampled(sampler.clone(), "servicebus", |builder| builder);
        let sent = forwarded(&bench, &bench.telemetry, context).await.expect("a context");
        let (sent, carried) = (TraceContext::parse(&sent).unwrap(), TraceContext::parse(context).unwrap());
        assert_eq!((sent.trace_id(), sent.is_sampled()), (carried.trace_id(), false), "{sampler:?} {context}");
        assert_eq!(bench.spans().tree(), [""; 0]);
        // Metrics do not depend on it.
        assert_eq!(bench.series().len(), 4, "{:?}", bench.series());
    }
}

/// Rules: O-06.
#[tokio::test(start_paused = true)]
async fn without_a_tracer_a_handler_has_the_context_of_its_message() {
    let bench = Bench::new();
    let noop =
        Telemetry::builder("servicebus").providers(&NoopTracerProvider::new(), &NoopMeterProvider::new()).build();
    assert_eq!(forwarded(&bench, &noop, SAMPLED).await.as_deref(), Some(SAMPLED));
}

/// Rules: O-06.
#[tokio::test(start_paused = true)]
async fn without_a_tracer_messages_carry_the_current_span() {
    let bench = Bench::new();
    let noop = Telemetry::builder("servicebus").build();
    let queue = bench.queue("orders");
    let work = Context::current_with_span(bench.tracers.tracer("test").start("work"));
    let mut sender = noop.send("orders").layer(SendService::new(queue.sender().unwrap()));
    sender.send(Message::new("")).with_context(work.clone()).await.unwrap();
    let batch = Batch::from([Message::new(""), traced(SAMPLED)]);
    sender.send(batch).with_context(work.clone()).await.unwrap();
    let context = work.span().span_context().clone();
    let own = format!("00-{}-{}-01", context.trace_id(), context.span_id());
    let sent: Vec<_> = queue.peek(SequenceNumber::default(), 3).iter().map(parent_of).collect();
    assert_eq!(sent, [Some(own.clone()), Some(own), Some(SAMPLED.into())]);
}

/// Rules: O-14.
#[tokio::test(start_paused = true)]
async fn the_current_span_is_not_linked_as_the_context_of_the_message() {
    use consign_opentelemetry::Parent;
    for parent in [Parent::CurrentOrMessage, Parent::Message, Parent::Current] {
        let bench = Bench::with(|builder| builder.parent(parent));
        let work = Context::current_with_span(bench.tracers.tracer("test").start("work"));
        let context = work.span().span_context().clone();
        let message = traced(&format!("00-{}-{}-01", context.trace_id(), context.span_id()));
        let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
        bench.telemetry.process("orders").layer(handler).oneshot(message).with_context(work.clone()).await.unwrap();
        work.span().end();
        assert_eq!(bench.spans().tree()[0], "Consumer process orders < work", "{parent:?}");
    }
}
