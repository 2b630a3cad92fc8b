//! What goes with a message, and what is taken from one.

use consign::{
    Disposition, Message,
    message::{PropertyValue, TraceContext, limits},
    transport::{Batch, SendExt, SendService, Sender},
};
use opentelemetry::trace::{FutureExt, TraceContextExt, Tracer, TracerProvider};
use tower::{BoxError, Layer, service_fn};

use crate::bench::{Bench, expected};

const ELSEWHERE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn parent_of(message: &Message) -> Option<&str> {
    message.application_properties().get("traceparent").and_then(PropertyValue::as_str)
}

/// Rules: O-05.
#[tokio::test(start_paused = true)]
async fn a_context_of_another_trace_stays() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let made = || Message::builder().property("traceparent", ELSEWHERE).build("body").unwrap();
    bench.send(&queue, made()).await;
    let sent = queue.peek(consign::message::SequenceNumber::default(), 1);
    assert_eq!(parent_of(&sent[0]), Some(ELSEWHERE));
    assert_eq!(bench.spans().tree(), ["Client send orders ~ ?"]);

    let stack = || bench.telemetry.send("orders").layer(SendService::new(queue.sender().unwrap()));
    stack().send(Batch::from([made(), Message::new("")])).await.unwrap();
    assert_eq!(bench.spans().tree(), ["Producer create orders", "Client send orders ~ ? ~ create orders"]);
}

/// Rules: O-05.
#[tokio::test(start_paused = true)]
async fn a_context_of_the_current_trace_is_replaced() {
    let bench = Bench::new();
    let (queue, next) = (bench.queue("orders"), bench.queue("next"));
    bench.send(&queue, Message::new("body")).await;
    let forward = service_fn(|message: Message| {
        let mut sender = bench.telemetry.send("next").layer(SendService::new(next.sender().unwrap()));
        async move {
            sender.send(message.without_received()).await?;
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    bench.handle(&queue, forward).await;
    let spans = bench.spans();
    let tree = ["Producer send orders", "Producer send next < process orders", "Consumer process orders < send orders"];
    assert_eq!(spans.tree(), tree);
    let sent = next.peek(consign::message::SequenceNumber::default(), 1);
    let context = TraceContext::of(sent[0].properties()).unwrap().unwrap();
    assert_eq!(context.span_id(), spans.named("send next")[0].span_context.span_id().to_bytes());
}

/// Rules: O-02.
#[tokio::test(start_paused = true)]
async fn a_malformed_context_is_ignored_and_counted() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let sender = queue.sender().unwrap();
    let zero = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
    for (name, value) in [("traceparent", zero), ("traceparent", ""), ("Diagnostic-Id", "|old.1."), ("other", "x")] {
        sender.send(Message::builder().property(name, value).build("").unwrap()).await.unwrap();
    }
    let state = Message::builder().property("traceparent", ELSEWHERE).property("tracestate", "a=1,a=2");
    sender.send(state.build("").unwrap()).await.unwrap();
    let good = Message::builder().property("traceparent", ELSEWHERE).property("tracestate", "a=1");
    sender.send(good.build("").unwrap()).await.unwrap();
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    bench.handle(&queue, handler).await;

    let (root, child) = ("Consumer process orders", "Consumer process orders < ?");
    let spans = bench.spans();
    assert_eq!(spans.tree(), [root, root, root, root, child, child]);
    let states: Vec<_> = spans.0.iter().map(|span| span.span_context.trace_state().header()).collect();
    assert_eq!(states, ["", "", "", "", "", "a=1"]);
    assert!(spans.0[5].parent_span_is_remote);
    let mut series = bench.series();
    series.retain(|series, _| series.starts_with("consign"));
    let counts = [
        ("consign.trace.not_propagated consign.trace.part=malformed_traceparent", 3),
        ("consign.trace.not_propagated consign.trace.part=malformed_tracestate", 1),
    ];
    assert_eq!(series, expected(&counts));
}

/// Rules: O-02.
/// The longest system id that the grammar permits is one that opentelemetry refuses.
#[tokio::test(start_paused = true)]
async fn entries_of_the_state_that_opentelemetry_refuses_are_left_out_and_counted() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let sender = queue.sender().unwrap();
    let refused = "tenant@fourteen-bytes=1";
    for state in [format!("a=1,{refused},b=2"), refused.to_owned()] {
        assert!(TraceContext::parse(ELSEWHERE).unwrap().with_state(&state).state().is_some());
        let message = Message::builder().property("traceparent", ELSEWHERE).property("tracestate", state);
        sender.send(message.build("").unwrap()).await.unwrap();
    }
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    bench.handle(&queue, handler).await;
    let states: Vec<_> = bench.spans().0.iter().map(|span| span.span_context.trace_state().header()).collect();
    assert_eq!(states, ["a=1,b=2", ""]);
    let lost = "consign.trace.not_propagated consign.trace.part=malformed_tracestate";
    assert_eq!(bench.series().get(lost), Some(&2));
}

/// Rules: O-03.
#[tokio::test(start_paused = true)]
async fn a_message_without_space_is_sent_without_a_context() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let mut full = Message::new("body");
    *full.properties_mut().application_properties_mut() =
        (0..limits::PROPERTIES).map(|n| (n.to_string(), true)).collect();
    bench.send(&queue, full).await;
    let sent = queue.peek(consign::message::SequenceNumber::default(), 1);
    assert_eq!((sent.len(), parent_of(&sent[0])), (1, None));
    let lost = "consign.trace.not_propagated consign.trace.part=no_room";
    assert_eq!(bench.series().get(lost), Some(&1));
}

/// Rules: O-01.
#[tokio::test(start_paused = true)]
async fn state_and_flags_go_on() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let context = TraceContext::parse(ELSEWHERE).unwrap().with_state("vendor=1");
    let mut message = Message::new("body");
    context.write(message.properties_mut()).unwrap();
    queue.sender().unwrap().send(message).await.unwrap();
    let next = bench.queue("next");
    let forward = service_fn(|_: Message| {
        let mut sender = bench.telemetry.send("next").layer(SendService::new(next.sender().unwrap()));
        async move {
            sender.send(Message::new("on")).await?;
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    bench.handle(&queue, forward).await;
    let sent = next.peek(consign::message::SequenceNumber::default(), 1);
    let read = TraceContext::of(sent[0].properties()).unwrap().unwrap();
    assert_eq!((read.trace_id(), read.is_sampled(), read.state()), (context.trace_id(), true, Some("vendor=1")));
    assert_ne!(read.span_id(), context.span_id());
}

/// Rules: O-06.
#[tokio::test(start_paused = true)]
async fn without_a_tracer_what_a_message_carries_goes_on() {
    let telemetry = consign_opentelemetry::Telemetry::builder("servicebus").build();
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let stack = || telemetry.send("orders").layer(SendService::new(queue.sender().unwrap()));
    stack().send(Message::builder().property("traceparent", ELSEWHERE).build("").unwrap()).await.unwrap();
    stack().send(Message::new("")).await.unwrap();
    let sent = queue.peek(consign::message::SequenceNumber::default(), 2);
    assert_eq!([parent_of(&sent[0]), parent_of(&sent[1])], [Some(ELSEWHERE), None]);
}

/// Rules: O-14.
#[tokio::test(start_paused = true)]
async fn a_send_is_a_child_of_the_current_span() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let work = opentelemetry::Context::current_with_span(bench.tracers.tracer("test").start("work"));
    bench.send(&queue, Message::new("")).with_context(work.clone()).await;
    work.span().end();
    assert_eq!(bench.spans().tree(), ["Producer send orders < work", "Internal work"]);
}

/// Rules: O-14.
#[tokio::test(start_paused = true)]
async fn a_batch_without_spans_does_not_end_the_current_one() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let work = opentelemetry::Context::current_with_span(bench.tracers.tracer("test").start("work"));
    let mut stack = bench.telemetry.send("orders").layer(SendService::new(queue.sender().unwrap()));
    let batch = Batch::from([Message::new("a"), Message::new("b")]);
    stack.send(batch).with_context(work.with_telemetry_suppressed()).await.unwrap();
    assert!(work.span().is_recording());
    work.span().end();
    assert_eq!(bench.spans().tree(), ["Internal work"]);
}
