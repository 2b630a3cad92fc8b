//! What a consumer logs of messages that fail, and of what fails around them.

use std::{
    cell::RefCell,
    convert::Infallible,
    fmt::{self, Write},
    future::{pending, ready},
    io,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    codecs::Codecs,
    consumer::{Consumer, SessionConsumer},
    message::{MessageBody, Received},
    middleware::{
        catch_panic::CatchPanicLayer,
        retry::{Backoff, DelayPolicy, Jitter, RetryLayer},
        trace::TraceLayer,
    },
    routing::{Body, MessageId, Router},
    settlement::{DeadLetter, DeadLetterReason, Transient},
    testing::{DeliveryFault, Faults, Link, LinkSettings},
    transport::{ErrorKind, ReceiverExt, Sender},
};
use serde::Deserialize;
use tokio::time::sleep;
use tower::{BoxError, Layer, ServiceBuilder, service_fn};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

use crate::{
    ON_PURPOSE, delivery,
    fake::{Answer, Fake, Script, Step},
    hush, panic_on_purpose, seconds, until, within,
};

/// The lines of this thread from the consumer, the transport, the supervisor and `RetryLayer`, as `LEVEL text field=value`.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>, Arc<AtomicU64>);

impl Lines {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let guard = tracing::subscriber::set_default(lines.clone());
        (lines, guard)
    }

    pub(crate) fn all(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap().clone();
        for line in &lines {
            eprintln!("{line}");
            assert!(!line.contains(|char: char| char.is_control()), "{line:?}");
            assert!(line.len() < 2_000, "{line}");
        }
        lines
    }
}

struct Fields(String, String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, "{value:?}").unwrap(),
            name => write!(self.1, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.1.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        const TARGETS: [&str; 4] =
            ["consign::consumer", "consign::transport", "consign::supervisor::task", "consign::middleware::retry"];
        if TARGETS.contains(&event.metadata().target()) {
            let mut fields = Fields(String::new(), String::new());
            event.record(&mut fields);
            self.0.lock().unwrap().push(format!("{} {}{}", event.metadata().level(), fields.0, fields.1));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A queue of its own name, for lines are counted by name.
fn queue(name: &str, deliveries: u32) -> Queue {
    let settings = QueueSettings::default().max_delivery_count(deliveries).lock_duration(seconds(10));
    Broker::new().create_queue(name, settings).unwrap()
}

async fn send(queue: &Queue, id: &str, body: impl Into<MessageBody>) {
    queue.sender().unwrap().send(Message::builder().message_id(id.to_owned()).build(body).unwrap()).await.unwrap();
}

async fn description(queue: &Queue) -> (String, String) {
    let dead = queue.dead_letter().receiver().receive_within(seconds(1)).await.unwrap().message;
    let text =
        |key| dead.application_properties().get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    (text(DeadLetter::REASON), text(DeadLetter::DESCRIPTION))
}

/// Rules: Y-12.
#[tokio::test(start_paused = true)]
async fn a_delayed_retry_is_one_line() {
    let (lines, _guard) = Lines::capture();
    let queue = queue("log/retried", 10);
    send(&queue, "order-17", "7").await;
    let backoff = Backoff::fixed(seconds(2)).jitter(Jitter::None);
    let retry = RetryLayer::new().immediate(1).delayed(DelayPolicy::new(queue.sender().unwrap(), backoff).unwrap());
    let failing = service_fn(async |_: Message| Err::<Disposition, BoxError>("the bank is away".into()));
    let consumer = Consumer::new(queue.receiver(), retry.layer(failing));
    within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!(
        lines.all(),
        ["INFO a delivery failed: the message is delivered again after a delay message_id=order-17 failures=1 \
          error=the bank is away delay_ms=2000 suppressed=0"]
    );
}

/// Rules: O-271.
#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_read_is_one_warning() {
    let (lines, _guard) = Lines::capture();
    let queue = queue("log/undecodable", 10);
    send(&queue, "order-17", "{\"quantity\": secret}").await;
    let router = Router::new(Codecs::json()).fallback(async |Body(_): Body<u32>| {}).build().unwrap();
    let stats = within(60, Consumer::new(queue.receiver(), router).run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!(stats.dead_lettered(), 1);
    let lines = lines.all();
    assert_eq!(
        lines,
        ["WARN a message was dead-lettered entity=\"log/undecodable\" message_id=order-17 sequence_number=1 \
          delivery_count=1 max_delivery_count=10 reason=\"DeserializationFailed\" error=json: the value is not of \
          the expected type: expected u32, found map at line 1, column 1"]
    );
    assert!(!lines[0].contains("secret"));
}

/// Rules: O-272.
#[tokio::test(start_paused = true)]
async fn failed_deliveries_are_lines_and_the_last_a_warning_with_and_without_spans() {
    let (lines, _guard) = Lines::capture();
    for (name, trace) in [("log/failing", false), ("log/failing-traced", true)] {
        let queue = queue(name, 3);
        send(&queue, "order-18", "an order").await;
        let handler = service_fn(|_: Message| {
            let refused =
                io::Error::other(io::Error::new(io::ErrorKind::ConnectionRefused, "no connection to the ledger"));
            ready(Err::<Disposition, BoxError>(refused.into()))
        });
        let receiver = queue.receiver();
        let stats = if trace {
            let stack = ServiceBuilder::new().layer(TraceLayer::receiving(name)).service(handler);
            within(60, Consumer::new(receiver, stack).run_until(sleep(seconds(1)))).await
        } else {
            within(60, Consumer::new(receiver, handler).run_until(sleep(seconds(1)))).await
        };
        let stats = stats.unwrap();
        assert_eq!((stats.failed(), stats.abandoned(), stats.dead_lettered()), (3, 2, 1));
        let lines = std::mem::take(&mut *lines.0.lock().unwrap());
        let failed = |n| {
            format!(
                "INFO a delivery failed: the message will be redelivered entity=\"{name}\" message_id=order-18 \
                 sequence_number=1 delivery_count={n} max_delivery_count=3 reason=\"HandlerFailed\" \
                 error=no connection to the ledger"
            )
        };
        let last = format!(
            "WARN the last delivery failed: the message was dead-lettered entity=\"{name}\" message_id=order-18 \
             sequence_number=1 delivery_count=3 max_delivery_count=3 reason=\"MaxDeliveryCountExceeded\" \
             error=no connection to the ledger"
        );
        assert_eq!(lines, [failed(1), failed(2), last]);
        let text =
            "Message could not be consumed after 3 delivery attempts. The last error: no connection to the ledger";
        assert_eq!(description(&queue).await, ("MaxDeliveryCountExceeded".into(), text.into()));
    }
}

/// Rules: O-273.
#[tokio::test(start_paused = true)]
async fn the_text_of_a_panic_is_in_the_line_and_in_the_dead_letter() {
    hush();
    let (lines, _guard) = Lines::capture();
    for (name, catches) in [("log/panics", false), ("log/panics-caught", true)] {
        let queue = queue(name, 2);
        send(&queue, "order-19", "an order").await;
        let handler = service_fn(|_: Message| async { panic_on_purpose() as Result<Disposition, BoxError> });
        let receiver = queue.receiver();
        let stats = if catches {
            let stack = ServiceBuilder::new().layer(CatchPanicLayer::new()).service(handler);
            within(60, Consumer::new(receiver, stack).run_until(sleep(seconds(1)))).await
        } else {
            within(60, Consumer::new(receiver, handler).run_until(sleep(seconds(1)))).await
        };
        assert_eq!(stats.unwrap().dead_lettered(), 1);
        let lines = std::mem::take(&mut *lines.0.lock().unwrap());
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("WARN a delivery failed: the message will be redelivered"), "{lines:?}");
        assert!(
            lines[0].ends_with(&format!("reason=\"Panicked\" error=the handler panicked: {ON_PURPOSE}")),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("WARN the last delivery failed"), "{lines:?}");
        let (reason, text) = description(&queue).await;
        let expected =
            "Message could not be consumed after 2 delivery attempts. The last error: the handler panicked: on purpose";
        assert_eq!((reason.as_str(), text.as_str()), ("MaxDeliveryCountExceeded", expected));
    }
}

/// Rules: O-273.
#[tokio::test(start_paused = true)]
async fn the_text_of_a_panic_is_bounded_and_escaped() {
    let (lines, _guard) = Lines::capture();
    let queue = queue("log/hostile-panic", 1);
    send(&queue, "order-20", "an order").await;
    let handler = service_fn(|_: Message| {
        std::panic::resume_unwind(Box::new("\u{1b}[31m\nWARN forged ".repeat(10_000)));
        #[allow(unreachable_code, reason = "the type of the answer")]
        ready(Ok::<_, BoxError>(Disposition::Complete))
    });
    within(60, Consumer::new(queue.receiver(), handler).run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!(lines.all().len(), 1);
    let (_, text) = description(&queue).await;
    assert!(text.contains("the handler panicked: ") && text.len() < 1_000, "{text}");
    assert!(!text.contains(|char: char| char.is_control()), "{text:?}");
}

/// Rules: O-274.
#[tokio::test(start_paused = true)]
async fn ids_and_texts_of_others_do_not_forge_lines() {
    let (lines, _guard) = Lines::capture();
    let queue = queue("log/hostile", 1);
    let id = "\u{1b}]0;owned\u{7}\r\nWARN forged\u{2028}\u{202e}";
    send(&queue, id, "x".repeat(100)).await;
    let code = DeadLetterReason::Application("a\nb".into());
    let handler = service_fn(move |_: Message| {
        ready(Ok::<_, Infallible>(Disposition::dead_letter(code.clone(), "first\u{1b}[2J\nsecond".repeat(1_000))))
    });
    within(60, Consumer::new(queue.receiver(), handler).run_until(sleep(seconds(1)))).await.unwrap();
    let lines = lines.all();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(r"message_id=\u{1b}]0;owned\u{7}\r\nWARN forged\u{2028}\u{202e} "), "{lines:?}");
    assert!(lines[0].ends_with(r"error=first\u{1b}[2J") && lines[0].contains(r"a\\nb"), "{lines:?}");
}

/// Rules: O-275.
#[tokio::test(start_paused = true)]
async fn a_flood_of_bad_messages_is_ten_lines_and_a_summary() {
    let (lines, _guard) = Lines::capture();
    let queue = queue("log/flood", 10);
    for number in 0..1_000 {
        send(&queue, &format!("bad-{number}"), "not json").await;
    }
    let router = Router::new(Codecs::json()).fallback(async |Body(_): Body<u32>| {}).build().unwrap();
    let consumer = Consumer::new(queue.receiver(), router);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (looked, stats, shown) = (Rc::clone(&seen), consumer.stats(), lines.clone());
    let run = consumer.run_until(async move {
        until(|| stats.dead_lettered() == 1_000).await;
        looked.borrow_mut().push(shown.0.lock().unwrap().len());
        sleep(seconds(2)).await;
        looked.borrow_mut().push(shown.0.lock().unwrap().len());
    });
    within(60, run).await.unwrap();
    assert_eq!(*seen.borrow(), [10, 11], "the summary is written while the consumer waits");
    let lines = lines.all();
    assert!(lines[..10].iter().all(|line| line.starts_with("WARN a message was dead-lettered ")), "{lines:?}");
    let summary = "WARN more lines with this entity and reason were suppressed entity=\"log/flood\" reason=\"DeserializationFailed\" suppressed=990";
    assert_eq!((lines.len(), lines[10].as_str()), (11, summary));
}

/// Rules: O-275.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_consumer_has_the_summary_too() {
    let (lines, _guard) = Lines::capture();
    let settings = QueueSettings::default().requires_session(true);
    let queue = Broker::new().create_queue("log/sessions", settings).unwrap();
    for number in 0..40 {
        let message = Message::builder().message_id(format!("m-{number}")).session_id(format!("s-{number}"));
        queue.sender().unwrap().send(message.build("not json").unwrap()).await.unwrap();
    }
    let router = Router::new(Codecs::json()).fallback(async |Body(_): Body<u32>| {}).build().unwrap();
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), router).concurrency(40);
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.dead_lettered() == 40))).await.unwrap();
    let lines = lines.all();
    assert_eq!(lines.len(), 11);
    assert!(lines[0].contains("session_id=s-0 ") && lines[10].ends_with("suppressed=30"), "{lines:?}");
}

/// Rules: O-276.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_is_a_warning() {
    let (lines, _guard) = Lines::capture();
    let queue = queue("log/lost", 10);
    send(&queue, "order-21", "an order").await;
    let handler = service_fn(async |message: Message| {
        if delivery(&message) == 1 {
            pending::<()>().await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).renew_for(seconds(0));
    let stats = consumer.stats();
    within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!(
        lines.all(),
        ["WARN the lock ended while the handler ran: the handler was cancelled, and the message will be redelivered \
          entity=\"log/lost\" message_id=order-21 sequence_number=1 delivery_count=1 max_delivery_count=10 \
          reason=\"LockLost\""]
    );
}

/// Rules: O-276.
#[tokio::test(start_paused = true)]
async fn failures_of_the_transport_are_warnings() {
    let (lines, _guard) = Lines::capture();
    let fails = |settle| Step::Deliver(Script { settle, ..Script::default() });
    let renews = Script { renew: vec![Answer::Fails(ErrorKind::ServiceBusy)], ..Script::default() };
    let fake = Fake::new([
        Step::Fail(ErrorKind::CommunicationProblem),
        Step::Fail(ErrorKind::CommunicationProblem),
        fails(Answer::Fails(ErrorKind::ServiceTimeout)),
        fails(Answer::Fails(ErrorKind::MessageLockLost)),
        fails(Answer::Never),
        Step::Deliver(renews),
        Step::Fail(ErrorKind::EntityNotFound),
    ]);
    let handler = service_fn(async |message: Message| {
        if crate::number(&message) == 4 {
            sleep(seconds(50)).await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(fake.receiver(), handler).entity("log/transport").drain_timeout(seconds(200));
    within(600, consumer.run()).await.unwrap_err();
    let about = |n: u64| format!("entity=\"log/transport\" sequence_number={n} delivery_count=1");
    let receiving = "entity=\"log/transport\" reason=\"ReceiveFailed\" error=receive:";
    assert_eq!(
        lines.all(),
        [
            format!(
                "WARN receiving failed: the consumer tries again {receiving} the connection failed retry_in_ms=100"
            ),
            format!(
                "WARN receiving failed: the consumer tries again {receiving} the connection failed retry_in_ms=200"
            ),
            "INFO receiving works again entity=\"log/transport\" failures=2".into(),
            format!(
                "WARN a settlement failed: if it did not take effect, the message will be redelivered when its lock ends {} \
                 reason=\"SettleFailed\" error=settle: no answer in time settling=\"complete\"",
                about(1)
            ),
            format!(
                "WARN the lock ended before the message was settled: the message will be redelivered {} reason=\"LockLost\" \
                 settling=\"complete\"",
                about(2)
            ),
            format!("WARN receiving failed: the consumer stops {receiving} no such entity"),
            format!(
                "WARN a lock was not renewed: the renewal is tried again until the lock ends {} reason=\"RenewalFailed\" \
                 error=settle: the broker is busy",
                about(4)
            ),
            format!(
                "WARN a settlement was not answered: if it did not take effect, the message will be redelivered when its \
                 lock ends {} reason=\"SettleFailed\"",
                about(3)
            ),
        ]
    );
}

/// Rules: O-277.
#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_dead_lettered_is_a_warning() {
    let (lines, _guard) = Lines::capture();
    let lost = Step::Deliver(Script { lock: None, ..Script::default() });
    let fake = Fake::new([lost]);
    let handler = service_fn(|_: Message| ready(Err::<Disposition, BoxError>("the ledger is closed".into())));
    let consumer = Consumer::new(fake.receiver(), handler).entity("log/removed");
    within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    let lines = lines.all();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("it is lost") && lines[0].ends_with("error=the ledger is closed"), "{lines:?}");
}

/// The printed log of the documentation is the log of this consumer.
#[tokio::test(start_paused = true)]
async fn the_log_in_the_documentation_is_what_a_consumer_writes() {
    hush();
    let (lines, _guard) = Lines::capture();
    // The rate of lines is limited by entity, for the whole process.
    let queue = queue("documented", 3);
    let faults = Faults::none().on_delivery(3, DeliveryFault::LoseSettlement(ErrorKind::ServiceTimeout));
    let link = Link::new(LinkSettings::default().round_trip(Duration::from_millis(2)).faults(faults));
    send(&queue, "order-1", "{\"quantity\":\"two\"}").await;
    for id in ["order-2", "order-3", "order-4"] {
        send(&queue, id, "{\"quantity\":1}").await;
    }
    let router = Router::new(Codecs::json())
        .fallback(async |id: MessageId, attempt: Received, Body(Order { .. }): Body<Order>| {
            match &*id {
                "order-2" => {
                    let refused = io::Error::other("connection refused (127.0.0.1:5432)");
                    return Err(Transient::new(Unpaid(refused)));
                }
                "order-4" if attempt.delivery_count == 1 => panic_on_purpose(),
                "order-4" if attempt.delivery_count == 2 => pending::<()>().await,
                _ => {}
            }
            Ok(())
        })
        .build()
        .unwrap();
    let consumer = Consumer::new(link.receiver(queue.receiver()), router).concurrency(1).renew_for(seconds(0));
    let (counts, printed) = (queue.clone(), lines.clone());
    let run = consumer.run_until(async move {
        until(|| counts.counts().active + counts.counts().locked == 0).await;
        link.disconnect();
        sleep(Duration::from_millis(200)).await;
        link.reconnect();
        send(&counts, "order-5", "{\"quantity\":1}").await;
        for number in 0..100 {
            send(&counts, &format!("bad-{number}"), "not JSON").await;
        }
        until(|| counts.counts().active + counts.counts().locked == 0).await;
        sleep(seconds(2)).await;
    });
    within(600, run).await.unwrap();
    let mut lines = printed.all();
    let flood = lines.iter().position(|line| line.contains("bad-0")).unwrap();
    assert!(lines[flood..flood + 9].iter().all(|line| line.contains("message_id=bad-")), "{lines:?}");
    // Those between are alike.
    lines.splice(flood + 1..flood + 10, ["...".to_owned()]);
    let log = lines.join("\n").replace("entity=\"documented\"", "entity=\"orders\"");
    let page = include_str!("../../docs/operating.md");
    assert!(page.contains(&log), "docs/operating.md should have\n{log}");
}

#[derive(Deserialize)]
struct Order {
    #[allow(dead_code, reason = "only the body's type matters")]
    quantity: u32,
}

#[derive(Debug)]
struct Unpaid(io::Error);

impl fmt::Display for Unpaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the payment was not stored")
    }
}

impl std::error::Error for Unpaid {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Rules: K-210.
/// Without a consumer the message is redelivered at once.
#[tokio::test(start_paused = true)]
async fn a_delay_that_a_delivery_cannot_have_is_a_warning() {
    let (lines, _guard) = Lines::capture();
    let queue = queue("log/no-delay", 10);
    send(&queue, "m-1", "1").await;
    let mut receiver = queue.receiver();
    receiver.receive().await.unwrap().settle(Disposition::abandon_after(seconds(5))).await.unwrap();
    let delivery = receiver.receive().await.unwrap().abandon_after(seconds(5)).err().unwrap();
    delivery.settle(Disposition::Complete).await.unwrap();
    let expected = "WARN the transport cannot delay this message: it is abandoned at once delay=5s suppressed=0";
    assert_eq!(lines.all(), [expected]);
}
