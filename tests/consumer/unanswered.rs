//! A transport that does not answer.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::pending,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use consign::{
    BuildErrorKind, Disposition, Message,
    consumer::{Consumer, ConsumerFailure, SessionConsumer, Settings},
    message::LockToken,
    time::Timestamp,
    transport::{
        BoxFuture, CompleteAll, Delivery, ErrorKind, Lease, ReceiveError, Receiver, Session, SessionSource, SettleError,
    },
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tower::{Service, ServiceBuilder, limit::GlobalConcurrencyLimitLayer, service_fn};

use crate::{
    fake::{Answer, Asked, Fake, FakeLease, FakeReceiver, Script, Step},
    number, seconds, until, within,
};

const TIMED_OUT: ErrorKind = ErrorKind::ServiceTimeout;

fn deliver(script: &Script) -> Step {
    Step::Deliver(script.clone())
}

fn completes() -> impl Service<Message, Response = Disposition, Error = Infallible, Future: Send> + Clone + Send {
    service_fn(|_: Message| async { Ok(Disposition::Complete) })
}

/// Rules: J-230.
/// The operation timeout unless set.
#[tokio::test(start_paused = true)]
async fn an_unanswered_settlement_is_given_up_after_a_minute() {
    let fake = Fake::new([deliver(&Script { settle: Answer::Never, lock: Some(seconds(3_600)), ..Script::default() })]);
    let consumer = Consumer::new(fake.receiver(), completes()).concurrency(1);
    let (health, started) = (consumer.health(), Instant::now());
    fake.push([deliver(&Script::default())]);
    let stats = consumer.stats();
    let stats = within(3_600, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 60);
    assert_eq!((stats.settle_failed(), stats.timed_out()), (1, 1));
    let snapshot = health.snapshot();
    assert_eq!((snapshot.timed_out, snapshot.last_failure), (1, Some(ConsumerFailure::Settle(TIMED_OUT))));
    assert!(snapshot.to_string().ends_with(", 1 timed out, last failure settle: ServiceTimeout"), "{snapshot}");
}

/// Rules: J-230.
#[tokio::test(start_paused = true)]
async fn unanswered_releases_do_not_stop_receiving() {
    let script = Script { lock: Some(seconds(10)), release: Answer::Never, ..Script::default() };
    let fake = Fake::new([deliver(&script), deliver(&script)]);
    let limit = Arc::new(Semaphore::new(0));
    let stack = ServiceBuilder::new()
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&limit)))
        .service(completes());
    let consumer = Consumer::new(fake.receiver(), stack).concurrency(1).prefetch(1).operation_timeout(seconds(20));
    let (health, stats) = (consumer.health(), consumer.stats());
    let run = tokio::spawn(consumer.run());
    sleep(seconds(6)).await;
    assert_eq!(fake.asked(), [Asked::Release(1), Asked::Release(2)]);
    limit.add_permits(1);
    fake.push([deliver(&Script::default())]);
    within(60, until(move || stats.completed() == 1)).await;
    let snapshot = health.snapshot();
    assert_eq!((snapshot.timed_out, snapshot.last_failure), (2, Some(ConsumerFailure::Settle(TIMED_OUT))));
    run.abort();
}

/// Rules: J-230.
#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_is_repeated_while_the_lock_holds() {
    let fake = Fake::new([deliver(&Script { renew: vec![Answer::Never], ..Script::default() })]);
    let handler = service_fn(|_: Message| async {
        sleep(seconds(100)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(fake.receiver(), handler).operation_timeout(seconds(5));
    let health = consumer.health();
    let stats = within(600, consumer.run_until(sleep(seconds(90)))).await.unwrap();
    assert_eq!((stats.completed(), stats.cancelled(), stats.timed_out()), (1, 0, 1));
    assert_eq!(health.snapshot().last_failure, Some(ConsumerFailure::Renew(TIMED_OUT)));
}

struct Together(FakeReceiver, Vec<Delivery<FakeLease>>);

/// Completes several in one step, and never says so.
struct TogetherLease(FakeLease);

impl Receiver for Together {
    type Lease = TogetherLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<TogetherLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.0.poll_receive(cx, max, &mut self.1);
        let wrapped = self.1.drain(..).map(|it| Delivery { message: it.message, lease: TogetherLease(it.lease) });
        out.extend(wrapped);
        polled
    }
}

impl Lease for TogetherLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        self.0.settle(disposition)
    }

    fn complete_all(batch: &mut Vec<Self>) -> CompleteAll<Self::Settle> {
        batch.clear();
        CompleteAll::from_future(pending())
    }

    fn completes_in_batches(&self) -> bool {
        true
    }

    fn release(self) -> Self::Settle {
        self.0.release()
    }

    fn renew(&self) -> Self::Renew {
        self.0.renew()
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.0.lock_duration()
    }

    fn lock_token(&self) -> Option<LockToken> {
        None
    }
}

/// Rules: J-230.
#[tokio::test(start_paused = true)]
async fn unanswered_completions_of_several_messages_are_given_up() {
    let fake = Fake::new((0..3).map(|_| deliver(&Script::default())));
    let consumer =
        Consumer::new(Together(fake.receiver(), Vec::new()), completes()).concurrency(1).operation_timeout(seconds(5));
    let (health, stats) = (consumer.health(), consumer.stats());
    let run = tokio::spawn(consumer.run());
    sleep(seconds(4)).await;
    assert_eq!((stats.handled(), stats.timed_out()), (3, 0));
    sleep(seconds(2)).await;
    assert_eq!((stats.timed_out(), stats.settle_failed(), stats.completed()), (3, 3, 0));
    assert_eq!(health.snapshot().last_failure, Some(ConsumerFailure::Settle(TIMED_OUT)));
    run.abort();
}

/// Rules: J-230.
#[test]
fn an_operation_timeout_is_checked() {
    for wrong in [Duration::ZERO, Duration::MAX] {
        let error = Settings::new().operation_timeout(wrong).check().unwrap_err();
        assert_eq!(error.kind(), BuildErrorKind::OperationTimeout);
    }
    Settings::new().operation_timeout(seconds(1)).check().unwrap();
}

/// Rules: J-232.
/// The batch is released at half of its lock. The place of the consumer among those who wait for a permit must go with it.
#[tokio::test(start_paused = true)]
async fn a_consumer_without_a_message_holds_no_place_in_its_stack() {
    let fake = Fake::new([deliver(&Script { lock: Some(seconds(10)), ..Script::default() })]);
    let limit = Arc::new(Semaphore::new(1));
    let busy = Arc::clone(&limit).acquire_owned().await.unwrap();
    let stack = ServiceBuilder::new()
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&limit)))
        .service(completes());
    let consumer = Consumer::new(fake.receiver(), stack);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    sleep(seconds(6)).await;
    assert_eq!(fake.asked(), [Asked::Release(1)]);
    drop(busy);
    let other = timeout(seconds(60), limit.acquire()).await.expect("the consumer holds the permit").unwrap();
    fake.push([deliver(&Script::default())]);
    drop(other);
    within(60, until(move || stats.completed() == 1)).await;
    run.abort();
}

/// Sessions that were made before, one after the other.
struct Sessions(VecDeque<FakeSession>);

#[derive(Clone)]
struct FakeSession {
    fake: Fake,
    receiver: Arc<Mutex<FakeReceiver>>,
    renew: Answer,
    close: Answer,
}

impl FakeSession {
    fn new(messages: usize, renew: Answer, close: Answer) -> Self {
        let fake = Fake::new((0..messages).map(|_| deliver(&Script::default())));
        let receiver = Arc::new(Mutex::new(fake.receiver()));
        Self { fake, receiver, renew, close }
    }
}

impl SessionSource for Sessions {
    type Session = FakeSession;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<Result<FakeSession, ReceiveError>> {
        self.0.pop_front().map_or(Poll::Pending, |session| Poll::Ready(Ok(session)))
    }
}

impl Receiver for FakeSession {
    type Lease = FakeLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<FakeLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.receiver.lock().unwrap().poll_receive(cx, max, out)
    }
}

impl Session for FakeSession {
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;
    type Close = BoxFuture<Result<(), SettleError>>;

    fn session_id(&self) -> &'static str {
        "a"
    }

    fn lock_duration(&self) -> Duration {
        seconds(10)
    }

    fn renew(&self) -> Self::Renew {
        let answer = self.renew.future();
        Box::pin(async { answer.await.map(|()| Timestamp::MAX) })
    }

    fn close(self) -> Self::Close {
        self.close.future()
    }

    fn state(&self) -> impl Future<Output = Result<Option<Bytes>, SettleError>> + Send + use<> {
        pending()
    }
}

/// A source of one session, whose state is not answered.
pub(crate) fn session_with_one_message() -> impl SessionSource {
    Sessions([FakeSession::new(1, Answer::Now, Answer::Now)].into())
}

/// Rules: J-231.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_closed_holds_a_shutdown_up_for_two_seconds_at_most() {
    // It is idle after a second; the shutdown begins before, or after the close was asked for.
    for (stop, ends) in [(0, 0..=12), (5, 5..=17)] {
        let sessions = Sessions([FakeSession::new(1, Answer::Now, Answer::Never)].into());
        let consumer = SessionConsumer::new(sessions, completes()).drain_timeout(seconds(10));
        let (health, started) = (consumer.health(), Instant::now());
        let stop = sleep(Duration::from_millis(1_000 * stop + 500));
        let stats = within(3_600, consumer.run_until(stop)).await.unwrap();
        let took = started.elapsed().as_millis();
        let ends = ends.start() * 1_000 + 500..=ends.end() * 1_000 + 500;
        assert!(ends.contains(&took), "{took}");
        assert_eq!((stats.completed(), stats.timed_out()), (1, 1));
        assert_eq!(health.snapshot().last_failure, Some(ConsumerFailure::Close(TIMED_OUT)));
    }
}

/// Rules: J-231.
#[tokio::test(start_paused = true)]
async fn whatever_is_not_answered_a_shutdown_of_sessions_ends_in_time() {
    for answers in 0..8_u8 {
        let answer = |bit: u8| if answers & bit == 0 { Answer::Now } else { Answer::Never };
        let session = FakeSession::new(0, answer(1), answer(2));
        session.fake.push((0..2).map(|_| deliver(&Script { settle: answer(4), ..Script::default() })));
        let handler = service_fn(|message: Message| async move {
            if number(&message) == 2 {
                pending::<()>().await;
            }
            Ok::<_, Infallible>(Disposition::Complete)
        });
        let consumer = SessionConsumer::new(Sessions([session].into()), handler).drain_timeout(seconds(10));
        let started = Instant::now();
        within(3_600, consumer.run_until(sleep(seconds(1)))).await.unwrap();
        assert!(started.elapsed() <= seconds(13), "{answers}: {:?}", started.elapsed());
    }
}

/// Rules: J-230.
#[tokio::test(start_paused = true)]
async fn a_close_that_is_not_answered_gives_its_slot_to_the_next_session() {
    let sessions = Sessions(
        [FakeSession::new(1, Answer::Now, Answer::Never), FakeSession::new(1, Answer::Now, Answer::Now)].into(),
    );
    let consumer = SessionConsumer::new(sessions, completes()).concurrency(1).operation_timeout(seconds(5));
    let (health, stats, started) = (consumer.health(), consumer.stats(), Instant::now());
    let run = tokio::spawn(consumer.run());
    let seen = stats.clone();
    within(3_600, until(move || seen.completed() == 2 && seen.timed_out() == 1)).await;
    assert!(started.elapsed() <= seconds(7), "{:?}", started.elapsed());
    assert_eq!((stats.sessions(), stats.timed_out()), (2, 1));
    assert_eq!(health.snapshot().last_failure, Some(ConsumerFailure::Close(TIMED_OUT)));
    run.abort();
}

/// Rules: N-230.
/// Between messages no settlement would find the lock lost.
#[tokio::test(start_paused = true)]
async fn a_session_whose_renewal_is_not_answered_is_given_up_with_its_lock() {
    for (renew, kind, timed_out) in
        [(Answer::Never, TIMED_OUT, 1), (Answer::Fails(ErrorKind::ServiceBusy), ErrorKind::ServiceBusy, 0)]
    {
        let sessions =
            Sessions([FakeSession::new(0, renew, Answer::Now), FakeSession::new(1, Answer::Now, Answer::Now)].into());
        let consumer = SessionConsumer::new(sessions, completes()).concurrency(1).idle_timeout(seconds(3_600));
        let (health, stats, started) = (consumer.health(), consumer.stats(), Instant::now());
        let run = tokio::spawn(consumer.run());
        let seen = stats.clone();
        within(3_600, until(move || seen.completed() == 1)).await;
        assert!(started.elapsed() <= seconds(11), "{:?}", started.elapsed());
        assert_eq!((stats.sessions(), stats.timed_out()), (2, timed_out));
        assert_eq!(health.snapshot().last_failure, Some(ConsumerFailure::Renew(kind)));
        run.abort();
    }
}
