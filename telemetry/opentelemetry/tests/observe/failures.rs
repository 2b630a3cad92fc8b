//! What a failure is called, and that nothing of a message gets where it does not belong.

use std::time::Duration;

use consign::{
    Disposition, Message,
    codecs::Codecs,
    message::EntityPath,
    middleware::catch_panic::CatchPanicLayer,
    routing::Body,
    rpc::{Fault, Responder},
    settlement::DeadLetterReason,
    transport::{ErrorKind, SendError, SendService},
};
use opentelemetry::trace::Status;
use tokio_test::{assert_pending, task};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn, timeout::TimeoutLayer};

use crate::bench::{Bench, attributes, expected};

/// The error and the status of the only span.
fn error_of(bench: &Bench) -> (Option<String>, bool) {
    let spans = bench.spans();
    let [span] = &spans.0[..] else { panic!("{:?}", spans.tree()) };
    let error = attributes(span).into_iter().find_map(|at| at.strip_prefix("error.type=").map(String::from));
    (error, span.status == Status::error(""))
}

/// Rules: O-32.
#[tokio::test(start_paused = true)]
async fn errors_are_from_a_closed_list() {
    let bench = Bench::new();
    let dead = |reason| Disposition::dead_letter(reason, "why");
    for (answer, error) in [
        (Disposition::Complete, None),
        (Disposition::DEFER, None),
        (Disposition::ABANDON, Some("abandoned")),
        (dead(DeadLetterReason::UnknownMessageType), Some("UnknownMessageType")),
        (dead(DeadLetterReason::Application("Mine".into())), Some("_OTHER")),
    ] {
        let handler = service_fn(|_: Message| {
            let answer = answer.clone();
            async move { Ok::<_, BoxError>(answer) }
        });
        bench.telemetry.process("orders").layer(handler).oneshot(Message::new("")).await.unwrap();
        assert_eq!(error_of(&bench), (error.map(String::from), error.is_some()), "{answer:?}");
    }
    let failed = || Some("_OTHER".to_owned());
    let handler = service_fn(async |_: Message| Err::<Disposition, _>(BoxError::from("secret")));
    bench.telemetry.process("orders").layer(handler).oneshot(Message::new("")).await.unwrap_err();
    assert_eq!(error_of(&bench), (failed(), true));
    let handler = service_fn(async |_: Message| -> Result<Disposition, BoxError> { panic!("secret") });
    let stack = bench.telemetry.process("orders").layer(CatchPanicLayer::new().layer(handler));
    stack.oneshot(Message::new("")).await.unwrap_err();
    assert_eq!(error_of(&bench), (Some("Panicked".into()), true));
    // Without that layer the consumer catches the panic, and drops the future later.
    let handler = service_fn(async |_: Message| -> Result<Disposition, BoxError> { panic!("secret") });
    let call = bench.telemetry.process("orders").layer(handler).oneshot(Message::new(""));
    assert!(tokio::spawn(call).await.unwrap_err().is_panic());
    assert_eq!(error_of(&bench), (Some("Panicked".into()), true));
    let handler = service_fn(|_: Message| -> std::future::Ready<Result<Disposition, BoxError>> { panic!("secret") });
    let call = bench.telemetry.process("orders").layer(handler).oneshot(Message::new(""));
    assert!(tokio::spawn(call).await.unwrap_err().is_panic());
    assert_eq!(error_of(&bench), (Some("Panicked".into()), true));
    let handler = service_fn(|_: Message| std::future::pending::<Result<Disposition, BoxError>>());
    let handler = TimeoutLayer::new(Duration::from_secs(1)).layer(handler);
    bench.telemetry.process("orders").layer(handler).oneshot(Message::new("")).await.unwrap_err();
    assert_eq!(error_of(&bench), (Some("Timeout".into()), true));
    let transport = service_fn(async |_: Message| Err::<(), _>(SendError::new(ErrorKind::QuotaExceeded)));
    bench.telemetry.send("orders").layer(transport).oneshot(Message::new("")).await.unwrap_err();
    assert_eq!(error_of(&bench), (Some("QuotaExceeded".into()), true));

    let reply = service_fn(async |_: Message| {
        let mut reply = Message::new("");
        reply.properties_mut().application_properties_mut().insert("x-fault", "Mine");
        Ok::<_, BoxError>(reply)
    });
    let is_fault = Fault::of_reply(&reply.oneshot(Message::new("")).await.unwrap()).is_some();
    bench.telemetry.call("orders").layer(reply).oneshot(Message::new("")).await.unwrap();
    assert_eq!(error_of(&bench), (is_fault.then(|| "Fault".into()), is_fault));
    assert!(is_fault);
}

/// Rules: O-16.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_ends_its_span() {
    let bench = Bench::new();
    let handler = service_fn(|_: Message| std::future::pending::<Result<Disposition, BoxError>>());
    let mut call = task::spawn(bench.telemetry.process("orders").layer(handler).call(Message::new("")));
    assert_pending!(call.poll());
    drop(call);
    assert_eq!(error_of(&bench), (Some("cancelled".into()), true));
    let labels = "error.type=cancelled messaging.destination.name=orders messaging.operation.name=process";
    let series = [
        (format!("messaging.client.consumed.messages {labels} messaging.system=servicebus"), 1),
        (
            format!("messaging.process.duration {labels} messaging.operation.type=process messaging.system=servicebus"),
            1,
        ),
    ];
    assert_eq!(bench.series(), series.into_iter().collect());
}

/// Rules: O-23.
#[tokio::test(start_paused = true)]
async fn a_forged_reply_to_gets_no_message_and_counts_once() {
    let bench = Bench::new();
    let (requests, victim) = (bench.queue("requests"), bench.queue("victim"));
    let broker = bench.broker.clone();
    let reply_to = move |to: &EntityPath| Ok(SendService::new(broker.sender(to)?));
    let never = async |Body(_): Body<u32>| -> Result<u32, Fault> { panic!("it must not be called") };
    let responder = Responder::builder(reply_to)
        .allow(|to| to.as_str().starts_with("replies."))
        .codecs(Codecs::json())
        .answer("half", never)
        .build()
        .unwrap();
    let request = Message::builder().subject("half").reply_to("victim").build("42").unwrap();
    bench.send(&requests, request).await;
    bench.handle(&requests, responder).await;
    assert_eq!(victim.peek(consign::message::SequenceNumber::default(), 10).len(), 0);
    let mut series = bench.series();
    series.retain(|series, _| series.starts_with("consign"));
    let refused = "consign.security.refused.messages consign.security.reason=ReplyAddressNotAllowed \
                   messaging.destination.name=requests messaging.operation.name=process messaging.system=servicebus";
    assert_eq!(series, expected(&[(refused, 1)]));
}

/// Rules: O-30.
/// Attacks: 54.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_message_reaches_a_span_unescaped() {
    const HOSTILE: &str = "\u{1b}[2Jm\r\nlevel=error \u{202e}\u{9b}";
    let bench = Bench::new();
    let hostile = || {
        let message = Message::builder().message_id(HOSTILE).correlation_id(HOSTILE).subject(HOSTILE);
        let message = message.property("tracestate", HOSTILE).property(HOSTILE, HOSTILE).content_type(HOSTILE);
        message.build("canary").unwrap()
    };
    let handler = service_fn(async |_: Message| {
        Ok::<_, BoxError>(Disposition::dead_letter(DeadLetterReason::Application(HOSTILE.into()), HOSTILE))
    });
    bench.telemetry.process(HOSTILE).layer(handler).oneshot(hostile()).await.unwrap();
    let transport = service_fn(async |_: Message| {
        Err::<(), _>(SendError::new(ErrorKind::General).with_detail(HOSTILE).with_condition(HOSTILE))
    });
    bench.telemetry.send(HOSTILE).layer(transport).oneshot(hostile()).await.unwrap_err();
    let spans = bench.spans();
    assert_eq!(spans.0.len(), 2);
    let series = bench.series();
    let texts = spans.0.iter().flat_map(|span| attributes(span).into_iter().chain([span.name.to_string()]));
    for text in texts.chain(series.into_keys()) {
        assert!(!text.chars().any(|char| char.is_control() || char == '\u{202e}'), "{text:?}");
        assert!(!text.contains("canary"), "{text:?}");
    }
}
