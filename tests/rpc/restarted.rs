//! Receive loops of replies that a supervisor restarts with another source.

use std::{
    future::{Future, pending, ready},
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, QueueLease, QueueReceiver},
    codecs::Codecs,
    consumer::{Consumer, ConsumerState},
    middleware::retry::Backoff,
    routing::Body,
    rpc::{CallError, CallErrorKind, Gather, Reply, ReplyQueue, ReplySession, Responder},
    supervisor::{PartState, RestartPolicy, Supervisor, SupervisorErrorKind, SupervisorHealth},
    transport::{Delivery, ManageError, ReceiveError, Receiver, ReplySource, Sender},
};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tower::{BoxError, ServiceExt, service_fn};

use crate::{Bench, QueueRequester, request_builder, seconds, settle, text, within};

/// The time until a restart.
const BACKOFF: Duration = Duration::from_secs(10);

fn supervisor() -> Supervisor {
    Supervisor::new().restart(RestartPolicy::new().backoff(Backoff::fixed(BACKOFF)))
}

type Source = ReplyQueue<QueueReceiver>;

/// Makes sources, each with a queue of its own: `replies.1`, `replies.2`.
fn queues(
    broker: &Broker,
) -> impl FnMut() -> Pin<Box<dyn Future<Output = Result<Source, ManageError>> + Send>> + use<> {
    let (broker, mut number) = (broker.clone(), 0);
    move || {
        number += 1;
        let (broker, name) = (broker.clone(), format!("replies.{number}"));
        Box::pin(async move {
            let queue = broker.create_queue(&name, QueueSettings::default())?;
            Ok(ReplyQueue::new(name, queue.receiver()))
        })
    }
}

/// Doubles numbers.
fn serve(bench: &Bench, after: Duration) {
    let double = move |Body(number): Body<u32>| async move {
        sleep(after).await;
        Reply(number * 2)
    };
    let responder = Responder::builder(bench.senders()).codecs(Codecs::json()).fallback(double).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
}

fn call(requester: &QueueRequester) -> JoinHandle<Result<Message, CallError>> {
    tokio::spawn(requester.clone().oneshot(Message::new("21")))
}

/// The next request, which is gone then.
async fn next(bench: &Bench) -> Message {
    let delivery = bench.request().await;
    let message = delivery.message.clone();
    delivery.complete().await.unwrap();
    message
}

fn kind(error: &CallError) -> (CallErrorKind, bool) {
    (error.kind(), error.is_outcome_unknown())
}

async fn assert_refused(requester: &QueueRequester, why: CallErrorKind) {
    let error = within(call(requester)).await.unwrap().unwrap_err();
    assert_eq!(kind(&error), (why, false));
}

fn state(health: &SupervisorHealth) -> (PartState, u64) {
    let part = health.part("replies").unwrap();
    (part.state, part.restarts)
}

/// Rules: J-266, R-32, R-39.
#[tokio::test(start_paused = true)]
async fn a_receive_loop_is_restarted_with_another_source_and_the_requester_stays() {
    let bench = Bench::new();
    let mut make = queues(&bench.broker);
    let (requester, replies) = request_builder(&bench).build(make().await.unwrap()).unwrap();
    let supervisor = supervisor().replies_from("replies", replies, make);
    let (health, (stop, stopped)) = (supervisor.health(), oneshot::channel::<()>());
    let run = tokio::spawn(supervisor.run_until(stopped));
    let (waiting, started) = (call(&requester), Instant::now());
    let mut gathering =
        requester.clone().oneshot(Gather { request: Message::new("all"), max: NonZeroUsize::MAX }).await.unwrap();
    for _ in 0..2 {
        assert_eq!(next(&bench).await.reply_to(), Some("replies.1"));
    }
    settle().await;
    assert_eq!(state(&health), (PartState::Running, 0));
    assert_eq!(health.part("replies").unwrap().consumer.unwrap().state, ConsumerState::Running);

    // Calls that wait fail at once.
    bench.broker.delete("replies.1").unwrap();
    let error = within(waiting).await.unwrap().unwrap_err();
    assert_eq!((kind(&error), error.is_retryable()), ((CallErrorKind::Disconnected, true), true));
    let error = within(gathering.next()).await.unwrap().unwrap_err();
    assert_eq!(kind(&error), (CallErrorKind::Disconnected, true));
    settle().await;
    assert_eq!((started.elapsed(), requester.pending()), (Duration::ZERO, 0));
    let part = health.part("replies").unwrap();
    assert_eq!((part.state, part.restart_delay), (PartState::Restarting, Some(BACKOFF)));
    assert!(part.last_error.unwrap().contains("no such entity"));
    assert!(!health.snapshot().is_healthy());

    // Calls are refused until it is restarted.
    sleep(BACKOFF.abs_diff(seconds(1))).await;
    assert_refused(&requester, CallErrorKind::Disconnected).await;
    assert_eq!(bench.requests.counts().active, 0, "its request is not sent");

    sleep(seconds(1)).await;
    settle().await;
    assert_eq!(state(&health), (PartState::Running, 1));
    assert!(health.snapshot().is_healthy());
    let waiting = call(&requester);
    let request = next(&bench).await;
    assert_eq!(request.reply_to(), Some("replies.2"));
    let sender = bench.broker.queue("replies.2").unwrap().sender().unwrap();
    sender.send(crate::answer(&request, "42")).await.unwrap();
    assert_eq!(text(&within(waiting).await.unwrap().unwrap()), "42");
    let _gathering =
        requester.clone().oneshot(Gather { request: Message::new("all"), max: NonZeroUsize::MIN }).await.unwrap();
    assert_eq!(next(&bench).await.reply_to(), Some("replies.2"));

    drop(stop);
    within(run).await.unwrap().unwrap();
    assert_eq!(state(&health), (PartState::Ended, 1));
    assert_refused(&requester, CallErrorKind::Closed).await;
}

/// A call of a handler, and one that waits longer than the loop is restarted.
/// Rules: J-265, J-266.
#[tokio::test(start_paused = true)]
async fn a_restarted_receive_loop_ends_after_the_handlers_that_call() {
    let bench = Bench::new();
    serve(&bench, seconds(5));
    let orders = bench.broker.create_queue("orders", QueueSettings::default()).unwrap();
    let mut make = queues(&bench.broker);
    let (requester, replies) = request_builder(&bench).build(make().await.unwrap()).unwrap();
    let receivers = orders.clone();
    let supervisor = supervisor().replies_from("replies", replies, make).consumer("orders", move || {
        let requester = requester.clone();
        let handler = service_fn(move |_: Message| {
            let requester = requester.clone();
            async move { requester.oneshot(Message::new("21")).await.map(|_| Disposition::Complete) }
        });
        Consumer::new(receivers.receiver(), handler)
    });
    let health = supervisor.health();
    let run = tokio::spawn(supervisor.run_until(sleep(seconds(21))));
    sleep(seconds(1)).await;
    bench.broker.delete("replies.1").unwrap();
    sleep(seconds(19)).await;
    assert_eq!(state(&health), (PartState::Running, 1));
    let sent = Instant::now();
    orders.sender().unwrap().send(Message::new("an order")).await.unwrap();
    within(run).await.unwrap().unwrap();
    assert_eq!(sent.elapsed(), seconds(5), "it ends when the handler has got its reply");
    let consumer = health.part("orders").unwrap().consumer.unwrap();
    assert_eq!((consumer.completed, consumer.abandoned), (1, 0));
}

/// Rules: J-266, R-39.
#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_be_made_is_made_again() {
    let bench = Bench::new();
    serve(&bench, Duration::ZERO);
    let (requester, replies) = request_builder(&bench).build(bench.reply_queue()).unwrap();
    let (broker, mut attempts) = (bench.broker.clone(), 0);
    let supervisor = supervisor().replies_from("replies", replies, move || {
        attempts += 1;
        let made: Result<Source, BoxError> = match attempts {
            1 => Err("not yet".into()),
            // A source that a requester is not built with.
            2 => Ok(ReplyQueue::new("", broker.create_queue("again", QueueSettings::default()).unwrap().receiver())),
            3 => panic!("on purpose"),
            _ => Ok(ReplyQueue::new("again", broker.queue("again").unwrap().receiver())),
        };
        ready(made)
    });
    let health = supervisor.health();
    let run = tokio::spawn(supervisor.run());
    settle().await;
    bench.broker.delete("replies").unwrap();
    settle().await;
    for (error, restarts) in [("no such entity", 0), ("not yet", 1), ("path of the entity", 2), ("on purpose", 3)] {
        assert_eq!(state(&health), (PartState::Restarting, restarts));
        let last = health.part("replies").unwrap().last_error.unwrap();
        assert!(last.contains(error), "{last}");
        assert_refused(&requester, CallErrorKind::Disconnected).await;
        sleep(BACKOFF).await;
        settle().await;
    }
    assert_eq!(state(&health), (PartState::Running, 4));
    assert_eq!(text(&within(call(&requester)).await.unwrap().unwrap()), "42");

    // Without a requester there is nothing to receive for.
    drop(requester);
    within(run).await.unwrap().unwrap();
    assert_eq!(state(&health), (PartState::Ended, 4));
}

/// Rules: J-261, J-266, R-32.
#[tokio::test(start_paused = true)]
async fn a_receive_loop_that_fails_for_good_closes_its_requester() {
    let bench = Bench::new();
    let (requester, replies) = request_builder(&bench).build(bench.reply_queue()).unwrap();
    let policy = RestartPolicy::new().backoff(Backoff::fixed(BACKOFF)).limit(1, seconds(600));
    let supervisor = Supervisor::new()
        .restart(policy)
        .replies_from("replies", replies, || ready(Err::<Source, BoxError>("gone".into())));
    let health = supervisor.health();
    let run = tokio::spawn(supervisor.run());
    settle().await;
    bench.broker.delete("replies").unwrap();
    settle().await;
    assert_refused(&requester, CallErrorKind::Disconnected).await;
    let error = within(run).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.parts().next()), (SupervisorErrorKind::PartFailed, Some("replies")));
    assert_eq!(state(&health), (PartState::Failed, 1));
    assert_refused(&requester, CallErrorKind::Closed).await;
}

/// Rules: J-265, J-266.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_never_made_holds_nothing_up() {
    for (closes, in_backoff) in [(false, false), (true, false), (false, true), (true, true)] {
        let bench = Bench::new();
        let (requester, replies) = request_builder(&bench).build(bench.reply_queue()).unwrap();
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let supervisor = supervisor().replies_from("replies", replies, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            pending::<Result<Source, BoxError>>()
        });
        let (health, (stop, stopped)) = (supervisor.health(), oneshot::channel::<()>());
        let run = tokio::spawn(supervisor.run_until(stopped));
        settle().await;
        bench.broker.delete("replies").unwrap();
        sleep(if in_backoff { seconds(1) } else { BACKOFF + seconds(1) }).await;
        assert_eq!(state(&health), (PartState::Restarting, u64::from(!in_backoff)));
        assert_eq!(health.part("replies").unwrap().restart_delay.is_some(), in_backoff);
        assert!(!health.snapshot().is_healthy());
        assert_refused(&requester, CallErrorKind::Disconnected).await;
        let _stop = if closes {
            requester.close();
            Some(stop)
        } else {
            drop(stop);
            None
        };
        let started = Instant::now();
        within(run).await.unwrap().unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert_eq!(made.load(Ordering::Relaxed), usize::from(!in_backoff));
        assert_eq!(state(&health).0, PartState::Ended);
        assert_refused(&requester, CallErrorKind::Closed).await;
    }
}

/// A source that panics when there is something to receive, unless it has been made again.
struct Panics {
    queue: Source,
    is_first: bool,
}

impl Receiver for Panics {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.queue.poll_receive(cx, max, out);
        assert!(!(self.is_first && polled.is_ready()), "on purpose");
        polled
    }
}

impl ReplySource for Panics {
    fn address(&self) -> &str {
        self.queue.address()
    }

    fn session_id(&self) -> Option<&str> {
        self.queue.session_id()
    }

    fn is_exclusive(&self) -> bool {
        self.queue.is_exclusive()
    }
}

/// Rules: J-261, J-266, R-32.
#[tokio::test(start_paused = true)]
async fn a_panic_of_a_receive_loop_fails_the_calls_that_wait() {
    let bench = Bench::new();
    let source = |is_first: bool| Panics { queue: bench.reply_queue(), is_first };
    let (requester, replies) = request_builder(&bench).build(source(true)).unwrap();
    let mut second = Some(source(false));
    let supervisor =
        supervisor().replies_from("replies", replies, move || ready(second.take().ok_or("a third source")));
    let health = supervisor.health();
    tokio::spawn(supervisor.run());
    let (waiting, started) = (call(&requester), Instant::now());
    next(&bench).await;
    bench.reply(Message::new("a message that no call waits for")).await;
    let error = within(waiting).await.unwrap().unwrap_err();
    assert_eq!((kind(&error), started.elapsed()), ((CallErrorKind::Disconnected, true), Duration::ZERO));
    settle().await;
    assert_eq!(state(&health), (PartState::Restarting, 0));
    assert_refused(&requester, CallErrorKind::Disconnected).await;
    sleep(BACKOFF).await;
    settle().await;
    serve(&bench, Duration::ZERO);
    assert_eq!(text(&within(call(&requester)).await.unwrap().unwrap()), "42");
}

/// Rules: J-266.
#[tokio::test(start_paused = true)]
async fn a_session_for_replies_is_made_again_with_another_id() {
    let bench = Bench::new();
    let sessions = |path: &str| {
        bench.broker.create_queue(path, QueueSettings::default().requires_session(true)).unwrap().session_acceptor()
    };
    let first = ReplySession::with_id("shared.1", sessions("shared.1").unwrap(), "one");
    let mut second = Some(ReplySession::with_id("shared.2", sessions("shared.2").unwrap(), "two"));
    let (requester, replies) = request_builder(&bench).build(first).unwrap();
    let supervisor =
        supervisor().replies_from("replies", replies, move || ready(second.take().ok_or("a third source")));
    tokio::spawn(supervisor.run());
    for (address, session) in [("shared.1", "one"), ("shared.2", "two")] {
        settle().await;
        let waiting = call(&requester);
        let request = next(&bench).await;
        assert_eq!((request.reply_to(), request.reply_to_session_id()), (Some(address), Some(session)));
        bench.broker.delete(address).unwrap();
        assert_eq!(within(waiting).await.unwrap().unwrap_err().kind(), CallErrorKind::Disconnected);
        sleep(BACKOFF).await;
    }
}
