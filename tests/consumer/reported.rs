//! What a consumer and a supervisor report of what ends without a handler.

use std::{
    convert::Infallible,
    future::ready,
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, QueueLease, SessionAcceptor, SessionReceiver},
    consumer::{ConsumeError, Consumer, SessionConsumer},
    middleware::retry::Backoff,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    supervisor::{RestartPolicy, Supervisor},
    transport::{
        BoxFuture, Delivery, EntityInfo, ErrorKind, ReceiveError, Receiver, ReceiverExt, Sender, Session,
        SessionSource, SettleError,
    },
};
use tokio::time::sleep;
use tower::{BoxError, Service, service_fn};

use crate::{
    fake::{Answer, Asked, Fake, Script, Step},
    hush,
    log::Lines,
    panic_on_purpose, seconds, until, within,
};

/// Rules: K-210, O-272.
#[tokio::test(start_paused = true)]
async fn a_drain_abandons_what_waits_for_a_delay_and_reports_its_cause() {
    let (lines, _guard) = Lines::capture();
    let refused = Script { settle: Answer::Fails(ErrorKind::MessageLockLost), ..Script::default() };
    let unanswered = Script { settle: Answer::Never, ..Script::default() };
    let fake = Fake::new([Script::default(), refused, unanswered].map(Step::Deliver));
    let delayed = service_fn(|_: Message| {
        ready(Ok::<_, Infallible>(Disposition::Abandon(Changes::because("no stock").after(seconds(100)))))
    });
    let consumer = Consumer::new(fake.receiver(), delayed).entity("reported/delayed");
    let stats = consumer.stats();
    within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.abandoned(), stats.released()), (1, 0));
    assert_eq!((stats.lock_lost(), stats.settle_failed(), stats.timed_out()), (1, 1, 1));
    let lines = lines.all();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let failed = "INFO a delivery failed: the message will be redelivered entity=\"reported/delayed\" \
                  sequence_number=1 delivery_count=1 reason=\"HandlerFailed\" error=no stock";
    assert!(lines.iter().any(|line| line == failed), "{lines:?}");
    let lost = "reason=\"LockLost\" settling=\"abandon\" delivery_error=no stock";
    assert!(lines.iter().any(|line| line.contains("sequence_number=2 ") && line.ends_with(lost)), "{lines:?}");
}

/// Rules: O-276.
#[tokio::test(start_paused = true)]
async fn a_lost_session_is_a_line_that_does_not_say_that_the_consumer_stops() {
    let (lines, _guard) = Lines::capture();
    let settings = QueueSettings::default().requires_session(true).lock_duration(seconds(10));
    let queue = Broker::new().create_queue("reported/session", settings).unwrap();
    let sender = queue.sender().unwrap();
    let order = || Message::builder().session_id("s-1").build("an order").unwrap();
    sender.send(order()).await.unwrap();
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).idle_timeout(seconds(100));
    let stats = consumer.stats();
    let lost = async {
        until(|| stats.completed() == 1).await;
        queue.lose_locks();
        sleep(seconds(1)).await;
        sender.send(order()).await.unwrap();
        until(|| stats.completed() == 2).await;
    };
    let stats = within(120, consumer.run_until(lost)).await.unwrap();
    assert_eq!(stats.sessions(), 2);
    let lines = lines.all();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let text = "WARN the lock of a session was lost: its messages will be redelivered entity=\"reported/session\" \
                session_id=s-1 reason=\"LockLost\" error=";
    assert!(lines[0].starts_with(text), "{lines:?}");
}

/// Rules: O-277.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_not_lost_by_a_panic_of_the_sink() {
    hush();
    let (lines, _guard) = Lines::capture();
    let queue = Broker::new().create_queue("reported/sink", QueueSettings::default()).unwrap();
    queue.sender().unwrap().send(Message::new("an order")).await.unwrap();
    let delivery = queue.receiver().receive().await.unwrap();
    delivery.dead_letter(DeadLetter::new(DeadLetterReason::HandlerPermanent, "why")).await.unwrap();
    let handler = service_fn(|_: Message| {
        ready(Ok::<_, Infallible>(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "again")))
    });
    let consumer = Consumer::new(queue.dead_letter().receiver(), handler).on_undeliverable(|_| panic_on_purpose());
    within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    let lines = lines.all();
    let text = "WARN on_undeliverable panicked: the dead letter stays in its queue entity=";
    assert!(lines.iter().any(|line| line.starts_with(text)), "{lines:?}");
}

/// Rules: J-261, O-274.
#[tokio::test(start_paused = true)]
async fn errors_of_parts_are_escaped() {
    let (lines, _guard) = Lines::capture();
    let policy = RestartPolicy::new().backoff(Backoff::fixed(seconds(1))).limit(1, seconds(100));
    let failing = |_| ready(Err::<(), BoxError>("a\r\nlevel=error".into()));
    let supervisor = Supervisor::new().restart(policy).part("orders", failing);
    within(60, supervisor.run()).await.unwrap_err();
    assert_eq!(
        lines.all(),
        [
            "WARN a part failed and is restarted part=\"orders\" error=a\\r\\nlevel=error restart_in_ms=1000",
            "ERROR a part failed for good part=\"orders\" error=a\\r\\nlevel=error",
        ]
    );
}

/// Its conversion panics.
#[derive(Debug)]
struct Bad;

impl From<Bad> for BoxError {
    fn from(_: Bad) -> Self {
        panic_on_purpose()
    }
}

#[derive(Clone)]
struct NeverReady;

impl Service<Message> for NeverReady {
    type Response = Disposition;
    type Error = Bad;
    type Future = std::future::Ready<Result<Disposition, Bad>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Bad>> {
        Poll::Ready(Err(Bad))
    }

    fn call(&mut self, _: Message) -> Self::Future {
        ready(Err(Bad))
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_stack_that_panics_when_it_is_converted_ends_the_consumer() {
    hush();
    let fake = Fake::new([Step::Deliver(Script::default())]);
    let run = Consumer::new(fake.receiver(), NeverReady).entity("reported/converted").run();
    let error = within(60, run).await.unwrap_err();
    assert!(matches!(error, ConsumeError::Service(_)), "{error:?}");
}

/// Rules: S-58.
/// The handler goes on until the lock ends.
#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_not_repeated_after_the_total() {
    let renew = vec![Answer::Fails(ErrorKind::ServiceBusy); 8];
    let fake = Fake::new([Step::Deliver(Script { lock: Some(seconds(64)), renew, ..Script::default() })]);
    let handler = service_fn(|_: Message| async {
        sleep(seconds(60)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(fake.receiver(), handler).entity("reported/renewal").renew_for(seconds(40));
    let stats = within(100, consumer.run_until(sleep(seconds(90)))).await.unwrap();
    assert_eq!(stats.completed(), 1);
    let renewals = fake.asked().iter().filter(|asked| matches!(asked, Asked::Renew(_))).count();
    assert_eq!(renewals, 1, "at 32 s; the next would be at 48 s");
}

/// Rules: O-274.
#[tokio::test(start_paused = true)]
async fn the_line_of_a_part_that_ends_has_the_root_cause() {
    let (lines, _guard) = Lines::capture();
    let failing = |_| {
        let detail = "x".repeat(300);
        let error = ReceiveError::new(ErrorKind::General).with_source(std::io::Error::other(detail));
        ready(Err::<(), BoxError>(
            ReceiveError::new(ErrorKind::General).with_detail("y".repeat(300)).with_source(error).into(),
        ))
    };
    let policy = RestartPolicy::new().limit(0, seconds(100));
    within(60, Supervisor::new().restart(policy).part("orders", failing).run()).await.unwrap_err();
    let lines = lines.all();
    assert!(
        lines.last().is_some_and(|line| line.starts_with("ERROR ") && line.ends_with(&"x".repeat(300))),
        "{lines:?}"
    );
}

/// Rules: O-270.
/// Deliveries before an error are handled, and yet the receive has failed.
#[tokio::test(start_paused = true)]
async fn a_failed_receive_with_deliveries_is_not_a_recovery() {
    let (lines, _guard) = Lines::capture();
    let fails = Step::DeliverAndFail(vec![Script::default()], ErrorKind::ServiceBusy);
    let fake = Fake::new([Step::Fail(ErrorKind::ServiceBusy), fails]);
    let handler = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let consumer = Consumer::new(fake.receiver(), handler).entity("reported/recovery");
    let stats = consumer.stats();
    let recovers = async {
        until(|| stats.completed() == 1).await;
        assert_eq!(lines.all().len(), 1);
        fake.push([Step::Deliver(Script::default())]);
        until(|| stats.completed() == 2).await;
    };
    within(60, consumer.run_until(recovers)).await.unwrap();
    let lines = lines.all();
    assert!(lines.len() == 2 && lines[1].starts_with("INFO receiving works again "), "{lines:?}");
}

/// Sessions that break their contract: the first receive with deliveries fails. They cannot be closed.
struct Broken<T>(T, bool);

impl SessionSource for Broken<SessionAcceptor> {
    type Session = Broken<SessionReceiver>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>> {
        self.0.poll_accept(cx).map_ok(|session| Broken(session, true))
    }

    fn entity_info(&self) -> EntityInfo {
        self.0.entity_info()
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Receiver for Broken<SessionReceiver> {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.0.poll_receive(cx, max, out);
        if polled.is_ready() && std::mem::take(&mut self.1) {
            return Poll::Ready(Err(ReceiveError::new(ErrorKind::ServiceBusy)));
        }
        polled
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Session for Broken<SessionReceiver> {
    type Renew = <SessionReceiver as Session>::Renew;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        self.0.session_id()
    }

    fn lock_duration(&self) -> Duration {
        self.0.lock_duration()
    }

    fn renew(&self) -> Self::Renew {
        Session::renew(&self.0)
    }

    fn close(self) -> Self::Close {
        Box::pin(ready(Err(SettleError::new(ErrorKind::ServiceBusy))))
    }
}

/// Rules: O-277.
#[tokio::test(start_paused = true)]
async fn a_session_handles_what_a_failed_receive_has_appended_and_its_lines_name_it() {
    let (lines, _guard) = Lines::capture();
    let settings = QueueSettings::default().requires_session(true);
    let queue = Broker::new().create_queue("reported/broken", settings).unwrap();
    let order = Message::builder().session_id("s-1").build("an order").unwrap();
    queue.sender().unwrap().send(order).await.unwrap();
    let handler = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let consumer = SessionConsumer::new(Broken(queue.session_acceptor().unwrap(), false), handler);
    let stats = within(60, consumer.run_until(sleep(seconds(5)))).await.unwrap();
    assert_eq!(stats.completed(), 1);
    let lines = lines.all();
    let text = "WARN a session was not closed: it is free when its lock ends entity=\"reported/broken\" \
                session_id=s-1 reason=\"SessionNotClosed\" error=";
    assert!(lines.len() == 1 && lines[0].starts_with(text), "{lines:?}");
}
