//! The ways of a message, span by span.

use std::time::Duration;

use consign::{
    Disposition, Message,
    codecs::{Codecs, Json, MessagePack},
    consumer::Consumer,
    dead_letters::{DeadLetterFilter, DeadLetters},
    message::EntityPath,
    middleware::retry::{Backoff, DelayPolicy, RetryLayer},
    routing::{Body, Router},
    rpc::{Client, Reply, ReplyQueue, Requester, Responder},
    settlement::{Permanent, Transient},
    transport::{Batch, SendExt, SendService, Sender},
};
use consign_opentelemetry::Parent;
use opentelemetry::trace::{FutureExt, TraceContextExt, Tracer, TracerProvider};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::bench::{Bench, attributes, consume, expected, text};

fn message(id: &'static str) -> Message {
    Message::builder().message_id(id).correlation_id("c-1").build("body").unwrap()
}

/// Rules: O-10.
#[tokio::test(start_paused = true)]
async fn a_message_is_sent_received_handled_and_settled() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    bench.send(&queue, message("m-1")).await;
    let handler = service_fn(async |_: Message| {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok::<_, BoxError>(Disposition::Complete)
    });
    let receiver = bench.telemetry.receiver("orders", queue.receiver());
    consume(receiver, bench.telemetry.process("orders").layer(handler)).await;

    let spans = bench.spans();
    let tree = [
        "Producer send orders",
        "Client receive orders ~ send orders",
        "Consumer process orders < send orders",
        "Client complete orders < send orders",
    ];
    assert_eq!(spans.tree(), tree);
    assert_eq!(spans.traces(), 2, "a receive is a trace of its own");
    let of = |operation: &str, kind: &str, own: &[&str]| {
        let operation = format!("messaging.operation.name={operation}");
        let kind = format!("messaging.operation.type={kind}");
        let mut all: Vec<String> = own.iter().map(|own| (*own).into()).collect();
        all.extend(["messaging.destination.name=orders".into(), "messaging.system=servicebus".into(), operation, kind]);
        all.sort();
        all
    };
    let ids = ["messaging.message.id=m-1", "messaging.message.conversation_id=c-1"];
    assert_eq!(spans.attributes("send orders"), of("send", "send", &ids));
    let own = ["messaging.batch.message_count=1"];
    assert_eq!(spans.attributes("receive orders"), of("receive", "receive", &[&ids[..], &own].concat()));
    let own = [
        "messaging.servicebus.message.delivery_count=1",
        "messaging.servicebus.message.enqueued_time=*",
        "consign.disposition=complete",
    ];
    assert_eq!(spans.attributes("process orders"), of("process", "process", &[&ids[..], &own].concat()));
    let own = ["messaging.servicebus.disposition_status=complete"];
    assert_eq!(spans.attributes("complete orders"), of("complete", "settle", &[&ids[..], &own].concat()));
}

/// Rules: O-35.
#[tokio::test(start_paused = true)]
async fn the_size_of_a_body_is_recorded_if_it_is_configured() {
    for (has_size, expected) in [(None, 0), (Some(false), 0), (Some(true), 1)] {
        let bench = Bench::with(|builder| match has_size {
            Some(has_size) => builder.body_size(has_size),
            None => builder,
        });
        let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
        bench.telemetry.process("orders").layer(handler).oneshot(message("m-1")).await.unwrap();
        let attributes = bench.spans().attributes("process orders");
        let sizes: Vec<_> = attributes.iter().filter(|at| at.starts_with("messaging.message.body.size=")).collect();
        assert_eq!(sizes, vec!["messaging.message.body.size=4"; expected], "{has_size:?}");
    }
}

/// Rules: O-15.
#[tokio::test(start_paused = true)]
async fn every_message_and_every_duration_is_counted() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    bench.send(&queue, message("m-1")).await;
    bench.send(&queue, message("m-2")).await;
    let handler = service_fn(async |message: Message| {
        Ok::<_, BoxError>(if message.message_id() == Some("m-1") { Disposition::Complete } else { Disposition::DEFER })
    });
    let receiver = bench.telemetry.receiver("orders", queue.receiver());
    consume(receiver, bench.telemetry.process("orders").layer(handler)).await;

    let of = |operation: &str| {
        format!("messaging.destination.name=orders messaging.operation.name={operation} messaging.system=servicebus")
    };
    let typed = |operation: &str, kind: &str| {
        let operation = format!("messaging.operation.name={operation} messaging.operation.type={kind}");
        format!("messaging.destination.name=orders {operation} messaging.system=servicebus")
    };
    let series = [
        (format!("messaging.client.sent.messages {}", of("send")), 2),
        (format!("messaging.client.consumed.messages {}", of("receive")), 2),
        (format!("messaging.process.duration {}", typed("process", "process")), 2),
        (format!("messaging.client.operation.duration {}", typed("send", "send")), 2),
        (format!("messaging.client.operation.duration {}", typed("receive", "receive")), 2),
        (format!("messaging.client.operation.duration {}", typed("complete", "settle")), 1),
        (format!("messaging.client.operation.duration {}", typed("defer", "settle")), 1),
    ];
    assert_eq!(bench.series(), series.into_iter().collect());
    let units = [
        ("messaging.client.consumed.messages", "{message}"),
        ("messaging.client.operation.duration", "s"),
        ("messaging.client.sent.messages", "{message}"),
        ("messaging.process.duration", "s"),
    ];
    assert_eq!(bench.metrics(), units.map(|(name, unit)| (name.into(), unit.into())).into());
}

/// Rules: O-11.
#[tokio::test(start_paused = true)]
async fn a_request_and_its_reply_are_one_trace() {
    let bench = Bench::new();
    let (requests, replies) = (bench.queue("requests"), bench.queue("replies"));
    let telemetry = &bench.telemetry;

    let (senders, broker) = (telemetry.clone(), bench.broker.clone());
    let reply_to = move |to: &EntityPath| Ok(senders.send(to.as_str()).layer(SendService::new(broker.sender(to)?)));
    let half = async |Body(number): Body<u32>| Reply(number / 2);
    let responder = Responder::builder(reply_to).codecs(Codecs::json()).answer("half", half).build().unwrap();
    let serving = Consumer::new(requests.receiver(), telemetry.process("requests").layer(responder));
    let serving = tokio::spawn(serving.run());

    let sender = telemetry.send("requests").layer(SendService::new(requests.sender().unwrap()));
    let source = ReplyQueue::new(replies.path().as_str(), replies.receiver());
    let (requester, replies) = Requester::builder(sender).build(source).unwrap();
    let receiving = tokio::spawn(async move { replies.run().await });
    let client = Client::new(telemetry.call("requests").layer(requester), Codecs::json()).subject("half");
    assert_eq!(client.call::<u32>(&42).await.unwrap(), 21);
    tokio::time::sleep(Duration::from_secs(1)).await;
    serving.abort();
    receiving.abort();

    let spans = bench.spans();
    let mut tree = spans.tree();
    tree.sort();
    let expected = [
        "Client call requests",
        "Consumer process requests < send requests",
        "Producer send replies < process requests",
        "Producer send requests < call requests",
    ];
    assert_eq!(tree, expected);
    assert_eq!(spans.traces(), 1);
    let call = ["messaging.destination.name=requests", "messaging.operation.name=call", "messaging.system=servicebus"];
    assert_eq!(spans.attributes("call requests"), call);
}

/// Rules: O-12.
#[tokio::test(start_paused = true)]
async fn each_message_of_a_batch_has_a_context_of_its_own() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let batch = || Batch::from(["m-1", "m-2", "m-3"].map(message));
    let sender = SendService::new(queue.sender().unwrap());
    bench.telemetry.send("orders").layer(sender.clone()).send(batch()).await.unwrap();
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    bench.handle(&queue, handler).await;

    let spans = bench.spans();
    let tree = [
        "Producer create orders",
        "Producer create orders",
        "Producer create orders",
        "Client send orders ~ create orders ~ create orders ~ create orders",
        "Consumer process orders < create orders",
        "Consumer process orders < create orders",
        "Consumer process orders < create orders",
    ];
    assert_eq!(spans.tree(), tree);
    let parents: Vec<_> = spans.named("process orders").iter().map(|span| span.parent_span_id).collect();
    let created: Vec<_> = spans.named("create orders").iter().map(|span| span.span_context.span_id()).collect();
    assert_eq!(parents, created);
    for (create, id) in spans.named("create orders").into_iter().zip(["m-1", "m-2", "m-3"]) {
        assert!(attributes(create).contains(&format!("messaging.message.id={id}")), "{create:?}");
    }
    assert!(spans.attributes("send orders").contains(&"messaging.batch.message_count=3".into()));
    let sent = "messaging.client.sent.messages messaging.destination.name=orders messaging.operation.name=send \
                messaging.system=servicebus";
    assert_eq!(bench.series().get(sent), Some(&3));

    // Without spans of their own.
    let bench = Bench::with(|builder| builder.create_spans(false));
    bench.telemetry.send("orders").layer(sender).send(batch()).await.unwrap();
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    bench.handle(&queue, handler).await;
    let process = "Consumer process orders < send orders";
    assert_eq!(bench.spans().tree(), ["Producer send orders", process, process, process]);

    // Each message has the context of another trace already.
    let bench = Bench::with(|builder| builder.create_spans(false));
    let carrying = |id: &'static str| {
        let parent = format!("00-{:032x}-{:016x}-01", 7, 9);
        Message::builder().message_id(id).property("traceparent", parent).build("").unwrap()
    };
    let both: Batch = vec![carrying("m-1"), carrying("m-2")].into();
    bench.telemetry.send("orders").layer(SendService::new(queue.sender().unwrap())).send(both).await.unwrap();
    assert_eq!(bench.spans().tree(), ["Client send orders ~ ? ~ ?"]);
}

/// Rules: O-04.
#[tokio::test(start_paused = true)]
async fn a_delayed_retry_stays_in_its_trace() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    bench.send(&queue, message("m-1")).await;
    let later = DelayPolicy::new(queue.sender().unwrap(), Backoff::exponential(Duration::from_secs(5))).unwrap();
    let handler = service_fn(async |message: Message| {
        if message.message_id() == Some("m-1") { Err(BoxError::from("once")) } else { Ok(Disposition::Complete) }
    });
    bench.handle(&queue, RetryLayer::new().delayed(later).layer(handler)).await;

    let spans = bench.spans();
    let process = "Consumer process orders < send orders";
    assert_eq!(spans.tree(), ["Producer send orders", process, process]);
    assert_eq!(spans.traces(), 1);
}

/// Rules: O-04.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_and_its_resubmission_stay_in_their_trace() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    bench.send(&queue, message("m-1")).await;
    let refuse = service_fn(async |_: Message| {
        let permanent = Permanent::new("no such account");
        Ok::<_, BoxError>(consign::settlement::IntoDisposition::into_disposition(permanent))
    });
    bench.handle(&queue, refuse).await;
    let dead = queue.dead_letter().peek(consign::message::SequenceNumber::default(), 1);
    assert!(dead[0].application_properties().get("traceparent").is_some());
    let dead = DeadLetters::new(queue.dead_letter());
    let report = dead.resubmit(DeadLetterFilter::all(), queue.sender().unwrap()).run().await.unwrap();
    assert_eq!(report.resubmitted, 1);
    let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
    bench.handle(&queue, handler).await;

    let spans = bench.spans();
    let process = "Consumer process orders < send orders";
    assert_eq!(spans.tree(), ["Producer send orders", process, process]);
    assert_eq!(spans.traces(), 1);
    let dispositions: Vec<_> = spans
        .named("process orders")
        .iter()
        .map(|span| {
            attributes(span).into_iter().filter(|at| at.starts_with("consign.d") || at.starts_with("err")).collect()
        })
        .collect::<Vec<Vec<_>>>();
    assert_eq!(
        dispositions,
        [vec!["consign.disposition=dead_letter", "error.type=HandlerPermanent"], vec!["consign.disposition=complete"]]
    );
}

/// Rules: O-21.
#[tokio::test(start_paused = true)]
async fn decoding_is_counted_and_on_the_span() {
    let bench = Bench::new();
    let queue = bench.queue("orders");
    let codecs = Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .fallback(["json", "msgpack"])
        .observe(bench.telemetry.decodes())
        .build()
        .unwrap();
    let sender = queue.sender().unwrap();
    let json = |body: &'static [u8]| Message::builder().content_type("application/json").build(body).unwrap();
    sender.send(json(b"7")).await.unwrap();
    sender.send(json(b"\xcd\x01\x00")).await.unwrap();
    sender.send(json(b"\xff\x1b")).await.unwrap();
    let router = Router::new(codecs).fallback(async |Body(_): Body<u32>| Ok::<(), Transient>(())).build().unwrap();
    bench.handle(&queue, router).await;

    let spans = bench.spans();
    let read = |span: &opentelemetry_sdk::trace::SpanData| {
        let own = |at: &String| at.starts_with("consign.decode") || at.starts_with("error");
        let attributes: Vec<_> = attributes(span).into_iter().filter(own).collect();
        let events = span.events.iter().map(|event| format!("{} {}", event.name, text(&event.attributes).join(" ")));
        (attributes, events.collect::<Vec<_>>())
    };
    let [first, second, third] = spans.named("process orders")[..] else { panic!("{:?}", spans.tree()) };
    let of = |codec: &str, decision: &str, outcome: &str| {
        vec![
            format!("consign.decode.codec={codec}"),
            format!("consign.decode.decision={decision}"),
            "consign.decode.declared=known".into(),
            format!("consign.decode.outcome={outcome}"),
        ]
    };
    assert_eq!(read(first), (of("json", "exact", "ok"), vec![]));
    let (attributes, events) = read(second);
    assert_eq!(attributes, of("msgpack", "fallback", "ok"));
    let event = "consign.decode.attempt consign.decode.codec=json consign.decode.decision=exact \
                 consign.decode.outcome=Utf8 consign.decode.position=1:1";
    assert_eq!(events, [event]);
    let (attributes, events) = read(third);
    let mut failed = of("json", "exact", "DeserializationFailed");
    failed.push("error.type=DeserializationFailed".into());
    assert_eq!((attributes, events.len()), (failed, 2));

    let mut series = bench.series();
    series.retain(|series, _| series.starts_with("consign"));
    let body = |codec: &str, decision: &str, outcome: &str| {
        let decided = format!("consign.decode.decision={decision} consign.decode.declared=known");
        format!("consign.decode.bodies consign.decode.codec={codec} {decided} consign.decode.outcome={outcome}")
    };
    let attempt = |codec: &str, decision: &str, outcome: &str| {
        let read = format!("consign.decode.decision={decision} consign.decode.outcome={outcome}");
        format!("consign.decode.attempts consign.decode.codec={codec} {read}")
    };
    let counts = [
        (body("json", "exact", "ok"), 1),
        (body("msgpack", "fallback", "ok"), 1),
        (body("json", "exact", "DeserializationFailed"), 1),
        (attempt("json", "exact", "ok"), 1),
        (attempt("json", "exact", "Utf8"), 2),
        (attempt("msgpack", "fallback", "ok"), 1),
        (attempt("msgpack", "fallback", "Trailing"), 1),
    ];
    assert_eq!(series, expected(&counts.each_ref().map(|(series, count)| (series.as_str(), *count))));
}

/// Rules: O-14.
#[tokio::test(start_paused = true)]
async fn the_parent_is_an_option() {
    for (parent, with_current, without) in [
        (Parent::CurrentOrMessage, "Consumer process orders < work ~ send orders", true),
        (Parent::Message, "Consumer process orders < send orders ~ work", true),
        (Parent::Current, "Consumer process orders < work ~ send orders", false),
    ] {
        let bench = Bench::with(|builder| builder.parent(parent));
        let queue = bench.queue("orders");
        let handler = || service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
        bench.send(&queue, message("m-1")).await;
        let span = bench.tracers.tracer("test").start("work");
        let work = opentelemetry::Context::current_with_span(span);
        bench.handle(&queue, handler()).with_context(work.clone()).await;
        work.span().end();
        assert_eq!(bench.spans().tree()[1], with_current, "{parent:?}");

        bench.send(&queue, message("m-1")).await;
        bench.handle(&queue, handler()).await;
        let parent_is_message = "Consumer process orders < send orders";
        let expected = if without { parent_is_message } else { "Consumer process orders ~ send orders" };
        assert_eq!(bench.spans().tree()[1], expected, "{parent:?}");
    }
}
