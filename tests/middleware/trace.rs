use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use consign::{
    Disposition, Message,
    message::{Received, SequenceNumber},
    middleware::{catch_panic::CatchPanicLayer, trace::TraceLayer},
    settlement::DeadLetterReason,
    time::Timestamp,
    transport::{Batch, ErrorKind, SendError},
};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_test::mock;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Keeps the spans of a thread, and the events inside of each.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>, Arc<AtomicU64>);

#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    fields: Vec<(String, String)>,
    events: usize,
    is_closed: bool,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.push((field.name().into(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name().into(), value.into()));
    }
}

impl Spans {
    /// The spans so far, the fields of each in order of their names.
    fn seen(&self) -> Vec<Seen> {
        let mut seen = self.0.lock().unwrap().clone();
        for span in &mut seen {
            span.fields.sort();
        }
        seen
    }

    fn with<T>(&self, id: u64, f: impl FnOnce(&mut Seen) -> T) -> T {
        f(&mut self.0.lock().unwrap()[usize::try_from(id).unwrap() - 1])
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut seen = Seen { name: span.metadata().name(), ..Seen::default() };
        span.record(&mut seen);
        let mut all = self.0.lock().unwrap();
        all.push(seen);
        Id::from_u64(all.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.with(span.into_u64(), |seen| values.record(seen));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        match self.1.load(Ordering::Relaxed) {
            0 => {}
            span => self.with(span, |seen| seen.events += 1),
        }
    }

    fn enter(&self, span: &Id) {
        self.1.store(span.into_u64(), Ordering::Relaxed);
    }

    fn exit(&self, _: &Id) {
        self.1.store(0, Ordering::Relaxed);
    }

    fn try_close(&self, span: Id) -> bool {
        self.with(span.into_u64(), |seen| seen.is_closed = true);
        true
    }
}

/// Runs `test` on this thread, and answers with its spans.
fn spans(test: impl Future<Output = ()>) -> Vec<Seen> {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    tokio_test::block_on(test);
    spans.seen()
}

fn fields(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Rules: O-31.
#[test]
fn a_message_is_handled_in_a_span() {
    let seen = spans(async {
        let handler = service_fn(async |_: Message| {
            tokio::task::yield_now().await;
            tracing::info!("handled");
            Ok::<_, BoxError>(Disposition::Complete)
        });
        let mut received = Received::new(SequenceNumber::new(1), Timestamp::EPOCH, 3);
        received.locked_until = None;
        let message = Message::builder().message_id("m-1").correlation_id("c-1").property("traceparent", PARENT);
        let message = message.build("body").unwrap().with_received(received);
        TraceLayer::receiving("orders").layer(handler).oneshot(message).await.unwrap();
    });
    let [span] = &*seen else { panic!("{seen:?}") };
    assert_eq!((span.name, span.events, span.is_closed), ("process", 1, true));
    let expected = fields(&[
        ("consign.disposition", "complete"),
        ("consign.message.delivery_count", "3"),
        ("messaging.destination.name", "orders"),
        ("messaging.message.conversation_id", "c-1"),
        ("messaging.message.id", "m-1"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("otel.kind", "consumer"),
        ("otel.name", "process orders"),
        ("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
    ]);
    assert_eq!(span.fields, expected);
}

/// Rules: O-31, O-35.
#[test]
fn the_size_of_the_body_is_opt_in() {
    let sizes = |layer: TraceLayer<_>| {
        let seen = spans(async {
            let handler = service_fn(async |_: Message| Ok::<_, BoxError>(Disposition::Complete));
            layer.layer(handler).oneshot(Message::new("body")).await.unwrap();
        });
        let size = |(name, value): &(String, String)| (name == "messaging.message.body.size").then(|| value.clone());
        seen.iter().flat_map(|span| span.fields.iter().filter_map(size)).collect::<Vec<_>>()
    };
    let layer = TraceLayer::receiving("orders");
    assert_eq!(sizes(layer.clone().body_size(true)), ["4"]);
    assert!(sizes(layer).is_empty());
}

/// Rules: O-31.
/// A service may work in its call already, before it is polled.
#[test]
fn the_call_and_each_poll_are_in_the_span() {
    let seen = spans(async {
        let handler = service_fn(|_: Message| {
            tracing::info!("called");
            async {
                tokio::task::yield_now().await;
                tracing::info!("polled");
                Ok::<_, BoxError>(Disposition::Complete)
            }
        });
        TraceLayer::receiving("orders").layer(handler).oneshot(Message::new("body")).await.unwrap();
        let transport = service_fn(|_: Message| {
            tracing::info!("called");
            async {
                tokio::task::yield_now().await;
                tracing::info!("polled");
                Ok::<_, SendError>(())
            }
        });
        TraceLayer::sending("orders").layer(transport).oneshot(Message::new("body")).await.unwrap();
    });
    let seen: Vec<_> = seen.iter().map(|span| (span.name, span.events, span.is_closed)).collect();
    assert_eq!(seen, [("process", 2, true), ("send", 2, true)]);
}

/// Rules: O-31.
#[test]
fn a_send_and_a_batch_have_a_span() {
    let seen = spans(async {
        let transport = service_fn(async |_: Message| Ok::<_, SendError>(()));
        let message = Message::builder().message_id("m-1").build("body").unwrap();
        TraceLayer::sending("orders").layer(transport).oneshot(message.clone()).await.unwrap();
        let transport = service_fn(async |_: Batch| Err::<(), _>(SendError::new(ErrorKind::QuotaExceeded)));
        TraceLayer::sending("orders").layer(transport).oneshot(Batch::from(vec![message; 3])).await.unwrap_err();
    });
    let [single, batch] = &*seen else { panic!("{seen:?}") };
    let rest = [
        ("messaging.operation.name", "send"),
        ("messaging.operation.type", "send"),
        ("otel.kind", "producer"),
        ("otel.name", "send orders"),
    ];
    let own = [("messaging.destination.name", "orders"), ("messaging.message.id", "m-1")];
    assert_eq!(single.fields, fields(&[&own[..], &rest[..]].concat()));
    let own = [
        ("error.type", "QuotaExceeded"),
        ("messaging.batch.message_count", "3"),
        ("messaging.destination.name", "orders"),
    ];
    assert_eq!(batch.fields, fields(&[&own[..], &rest[..]].concat()));
}

/// Rules: O-30.
/// Attacks: 54.
#[test]
fn no_control_character_reaches_a_span() {
    const HOSTILE: &str = "\u{1b}[2Jm\r\nlevel=error \u{202e}\u{9b}";
    let seen = spans(async {
        let hostile = || {
            let message = Message::builder().message_id(HOSTILE).correlation_id(HOSTILE).subject(HOSTILE);
            let message = message.property("traceparent", HOSTILE).property(HOSTILE, HOSTILE).content_type(HOSTILE);
            message.build(HOSTILE).unwrap()
        };
        let handler = service_fn(async |_: Message| {
            let reason = DeadLetterReason::Application(HOSTILE.into());
            Ok::<_, BoxError>(Disposition::dead_letter(reason, HOSTILE))
        });
        TraceLayer::receiving(HOSTILE).layer(handler).oneshot(hostile()).await.unwrap();
        let handler = service_fn(async |_: Message| Err::<Disposition, _>(BoxError::from(HOSTILE)));
        TraceLayer::receiving(HOSTILE).layer(handler).oneshot(hostile()).await.unwrap_err();
        let transport = service_fn(async |_: Message| {
            Err::<(), _>(SendError::new(ErrorKind::General).with_detail(HOSTILE).with_condition(HOSTILE))
        });
        TraceLayer::sending(HOSTILE).layer(transport).oneshot(hostile()).await.unwrap_err();
    });
    assert_eq!(seen.len(), 3);
    for span in seen {
        for (name, value) in &span.fields {
            assert!(!value.chars().any(|char| char.is_control() || char == '\u{202e}'), "{name}: {value:?}");
        }
        let field = |name: &str| span.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert!(field("messaging.message.id").is_some_and(|id| id.contains("\\u{1b}[2Jm\\r\\n")), "{span:?}");
        assert!(matches!(field("error.type"), Some("_OTHER" | "General")), "{span:?}");
        assert_eq!(field("trace_id"), None);
    }
}

/// Rules: O-32.
#[test]
fn error_types_are_from_a_closed_list() {
    let dead = Disposition::dead_letter(DeadLetterReason::UnknownMessageType, "");
    let own = Disposition::dead_letter(DeadLetterReason::Application("mine".into()), "");
    for (answer, disposition, error) in [
        (Disposition::DEFER, "defer", None),
        (Disposition::ABANDON, "abandon", Some("abandoned")),
        (dead, "dead_letter", Some("UnknownMessageType")),
        (own, "dead_letter", Some("_OTHER")),
    ] {
        let seen = spans(async {
            let handler = service_fn(|_: Message| {
                let answer = answer.clone();
                async move { Ok::<_, BoxError>(answer) }
            });
            TraceLayer::receiving("orders").layer(handler).oneshot(Message::new("")).await.unwrap();
        });
        let field = |name: &str| seen[0].fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!((field("consign.disposition"), field("error.type")), (Some(disposition), error));
    }
    let seen = spans(async {
        let handler = service_fn(async |_: Message| -> Result<Disposition, BoxError> { panic!("on purpose") });
        let stack = TraceLayer::receiving("orders").layer(CatchPanicLayer::new().layer(handler));
        stack.oneshot(Message::new("")).await.unwrap_err();
    });
    assert!(seen[0].fields.contains(&("error.type".into(), "Panicked".into())), "{seen:?}");
}

#[tokio::test]
async fn an_answer_passes_as_it_is() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(TraceLayer::receiving("orders"));
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(Message::new("body")));
    assert_pending!(call.poll());
    let (message, answer) = handle.next_request().await.unwrap();
    assert_eq!(message.payload(), Some(&b"body"[..]));
    answer.send_response(Disposition::DEFER);
    assert_eq!(assert_ready_ok!(call.poll()), Disposition::DEFER);
}

#[test]
fn a_call_that_is_dropped_closes_its_span() {
    let seen = spans(async {
        let handler = service_fn(async |_: Message| {
            std::future::pending::<()>().await;
            Ok::<_, BoxError>(Disposition::Complete)
        });
        let mut call = task::spawn(TraceLayer::receiving("orders").layer(handler).call(Message::new("")));
        assert_pending!(call.poll());
    });
    assert!(seen[0].is_closed && seen[0].fields.iter().all(|(name, _)| name != "consign.disposition"), "{seen:?}");
}
