//! A consumer of sessions that is paused, resumed, and whose concurrency is changed while it runs.

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use consign::{
    BuildErrorKind, Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueLease, SessionAcceptor, SessionReceiver},
    consumer::{ConsumerControl, ConsumerState, SessionConsumer},
    transport::{BoxFuture, Delivery, ReceiveError, Receiver, Sender, Session, SessionSource, SettleError},
};
use tokio::{sync::oneshot, time::sleep};
use tower::service_fn;

use crate::{
    Gauge, assert_empty, seconds,
    settle_once::{Random, Replay, seeds},
    until, within,
};

async fn sessions(count: u64, messages: u64) -> Queue {
    let settings =
        QueueSettings::default().requires_session(true).lock_duration(seconds(10)).max_delivery_count(u32::MAX);
    let queue = Broker::new().create_queue("orders", settings).unwrap();
    for session in 0..count {
        for _ in 0..messages {
            let message = Message::builder().session_id(format!("session-{session}")).build("one").unwrap();
            queue.sender().unwrap().send(message).await.unwrap();
        }
    }
    queue
}

/// A handler that takes so many seconds.
fn handler(takes: u64, gauge: &Gauge) -> impl Fn(Message) -> Handled + Clone + Send + 'static {
    let gauge = gauge.clone();
    move |_| {
        let entered = gauge.enter();
        Box::pin(async move {
            sleep(seconds(takes)).await;
            drop(entered);
            Disposition::Complete
        })
    }
}

type Handled = std::pin::Pin<Box<dyn Future<Output = Disposition> + Send>>;

/// Rules: J-253.
#[tokio::test(start_paused = true)]
async fn a_paused_consumer_closes_its_sessions_when_their_handlers_have_ended() {
    let queue = sessions(4, 3).await;
    let gauge = Gauge::default();
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler(50, &gauge))
        .concurrency(2)
        .drain_timeout(seconds(5));
    let (control, stats, health) = (consumer.control(), consumer.stats(), consumer.health());
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(consumer.run_until(stopped));
    sleep(seconds(1)).await;
    assert_eq!((gauge.now(), stats.sessions()), (2, 2));
    control.pause();
    sleep(seconds(1)).await;
    assert_eq!((health.snapshot().state, gauge.now()), (ConsumerState::Paused, 2));
    sleep(seconds(60)).await;
    assert_eq!((stats.completed(), stats.handled(), stats.cancelled(), stats.sessions()), (2, 2, 0, 2));
    assert_eq!((queue.counts().locked, queue.counts().active), (0, 10));
    let other = queue.accept_session("session-0").unwrap();
    drop(other);
    control.resume();
    sleep(seconds(1)).await;
    assert_eq!((health.snapshot().state, gauge.now()), (ConsumerState::Running, 2));
    within(1_000, until(|| stats.completed() == 12)).await;
    control.pause();
    drop(stop);
    within(60, run).await.unwrap().unwrap();
    assert_empty(&queue);
}

/// Rules: J-253.
#[tokio::test(start_paused = true)]
async fn sessions_without_messages_are_closed_first_and_none_is_cancelled() {
    let queue = sessions(6, 1).await;
    let gauge = Gauge::default();
    let inside = gauge.clone();
    let handler = service_fn(move |message: Message| {
        let entered = inside.enter();
        async move {
            let is_slow = message.session_id().is_some_and(|id| id < "session-3");
            sleep(seconds(if is_slow { 30 } else { 1 })).await;
            drop(entered);
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler)
        .concurrency(6)
        .idle_timeout(seconds(600))
        .drain_timeout(seconds(1));
    let (control, stats, health) = (consumer.control(), consumer.stats(), consumer.health());
    tokio::spawn(consumer.run());
    sleep(seconds(2)).await;
    assert_eq!((gauge.now(), stats.sessions(), stats.completed()), (3, 6, 3));
    control.set_concurrency(2).unwrap();
    sleep(seconds(1)).await;
    for idle in 3..6 {
        drop(queue.accept_session(&format!("session-{idle}")).unwrap());
    }
    assert_eq!((gauge.now(), health.snapshot().slots, control.concurrency()), (3, 2, 2));
    let sent = Message::builder().session_id("session-9").build("one").unwrap();
    queue.sender().unwrap().send(sent).await.unwrap();
    sleep(seconds(10)).await;
    assert_eq!(stats.sessions(), 6, "three run, and two may");
    within(60, until(|| stats.completed() == 7)).await;
    assert_eq!((stats.cancelled(), stats.sessions()), (0, 7));
    assert_eq!(control.set_concurrency(0).unwrap_err().kind(), BuildErrorKind::NoConcurrency);
}

/// Rules: J-253.
#[tokio::test(start_paused = true)]
async fn nothing_is_lost_by_pauses_and_changes_of_session_concurrency() {
    for seed in seeds(60) {
        let _replay = Replay("nothing_is_lost_by_pauses_and_changes_of_session_concurrency", seed);
        let random = Random::new(seed);
        let (count, each) = (1 + random.below(10), 1 + random.below(5));
        let queue = sessions(count, each).await;
        let gauge = Gauge::default();
        let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler(1 + random.below(3), &gauge))
            .concurrency(random.size(1..8));
        let (control, stats) = (consumer.control(), consumer.stats());
        let (stop, stopped) = oneshot::channel::<()>();
        let run = tokio::spawn(consumer.run_until(stopped));
        for _ in 0..random.below(20) {
            match random.below(3) {
                0 => control.pause(),
                1 => control.resume(),
                _ => control.set_concurrency(random.size(1..12)).unwrap(),
            }
            sleep(Duration::from_millis(random.below(3_000))).await;
        }
        control.resume();
        within(600, until(|| stats.completed() == count * each)).await;
        drop(stop);
        within(60, run).await.unwrap().unwrap();
        assert_eq!((stats.handled(), stats.cancelled()), (count * each, 0));
        assert_empty(&queue);
    }
}

/// Sessions whose close takes a while, and how many there are, now and at most.
struct Slow<T>(T, Arc<Mutex<(usize, usize)>>);

impl SessionSource for Slow<SessionAcceptor> {
    type Session = Slow<SessionReceiver>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>> {
        let session = ready!(self.0.poll_accept(cx))?;
        let mut open = self.1.lock().unwrap();
        *open = (open.0 + 1, open.1.max(open.0 + 1));
        Poll::Ready(Ok(Slow(session, Arc::clone(&self.1))))
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Receiver for Slow<SessionReceiver> {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.0.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Session for Slow<SessionReceiver> {
    type Renew = <SessionReceiver as Session>::Renew;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &str {
        self.0.session_id()
    }

    fn lock_duration(&self) -> Duration {
        Session::lock_duration(&self.0)
    }

    fn renew(&self) -> Self::Renew {
        Session::renew(&self.0)
    }

    fn close(self) -> Self::Close {
        let Self(session, open) = self;
        Box::pin(async move {
            Session::close(session).await?;
            sleep(seconds(30)).await;
            open.lock().unwrap().0 -= 1;
            Ok(())
        })
    }
}

/// Rules: N-220.
#[tokio::test(start_paused = true)]
async fn sessions_that_are_closing_are_bounded_too() {
    let queue = sessions(40, 1).await;
    let open: Arc<Mutex<(usize, usize)>> = Arc::default();
    let source = Slow(queue.session_acceptor().unwrap(), Arc::clone(&open));
    let consumer = SessionConsumer::new(source, service_fn(completed)).concurrency(2);
    let stats = consumer.stats();
    within(3_000, consumer.run_until(until(move || stats.completed() == 40))).await.unwrap();
    assert_eq!(open.lock().unwrap().1, 4);
}

async fn completed(_: Message) -> Result<Disposition, Infallible> {
    Ok(Disposition::Complete)
}

/// Rules: J-254.
#[tokio::test(start_paused = true)]
async fn a_handle_is_given_to_one_consumer_of_sessions_after_the_other() {
    let (queue, control) = (sessions(1, 0).await, ConsumerControl::new());
    let consumer = || {
        let handler = service_fn(async |_: Message| Ok::<_, Infallible>(Disposition::Complete));
        SessionConsumer::new(queue.session_acceptor().unwrap(), handler).controlled_by(&control).concurrency(4)
    };
    assert_eq!((consumer().health().snapshot().slots, control.concurrency()), (4, 16), "it has not started");
    control.set_concurrency(2).unwrap();
    control.pause();
    let next = consumer();
    let (health, run) = (next.health(), tokio::spawn(next.run()));
    sleep(seconds(1)).await;
    assert_eq!((health.snapshot().state, health.snapshot().slots), (ConsumerState::Paused, 2));
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let next = consumer();
    let health = next.health();
    tokio::spawn(next.run());
    sleep(seconds(1)).await;
    assert_eq!(health.snapshot().state, ConsumerState::Paused);
    control.resume();
    sleep(seconds(1)).await;
    assert_eq!(health.snapshot().state, ConsumerState::Running);
}
