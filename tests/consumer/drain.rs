//! How a consumer stops.

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::Pin,
    task::{Context, Poll},
};

use consign::{
    Disposition, Message,
    consumer::Consumer,
    transport::{Delivery, ErrorKind, ReceiveError, Receiver, ReceiverExt},
};
use tokio::time::{Duration, Instant, Sleep, sleep};
use tower::service_fn;

use crate::{
    Gauge, assert_empty, delivery,
    fake::{Answer, Asked, Fake, FakeLease, FakeReceiver, Script, Step},
    fill, queue_with_lock, seconds,
    settle_once::{Random, Replay, seeds},
    until, within,
};

/// Rules: I-37.
#[tokio::test(start_paused = true)]
async fn a_drain_stops_receiving_and_waits_for_handlers() {
    let queue = queue_with_lock(60);
    fill(&queue, 10).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(8)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(3).drain_timeout(seconds(10));
    let started = Instant::now();
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.handled(), stats.completed(), started.elapsed().as_secs()), (3, 3, 8));
    assert_eq!((queue.counts().active, queue.counts().locked), (7, 0));
}

/// Rules: I-37.
#[tokio::test(start_paused = true)]
async fn at_the_deadline_the_rest_is_dropped_and_abandoned() {
    let queue = queue_with_lock(60);
    fill(&queue, 3).await;
    let gauge = Gauge::default();
    let consumer = Consumer::new(queue.receiver(), gauge.hanging()).drain_timeout(seconds(10));
    let started = Instant::now();
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.cancelled(), stats.abandoned(), gauge.now(), started.elapsed().as_secs()), (3, 3, 0, 11));
    let rest = queue.receiver().receive_batch(10).await.unwrap();
    assert!(rest.len() == 3 && rest.iter().all(|rest| delivery(&rest.message) == 2), "each counted once");
}

/// Rules: I-37.
#[tokio::test(start_paused = true)]
async fn settlements_that_hang_hold_it_up_for_one_second() {
    let cases = [(Answer::Never, Answer::Now, 2), (Answer::Now, Answer::Never, 1), (Answer::Never, Answer::Never, 4)];
    for (settle, release, hung) in cases {
        let script = Script { settle, release, ..Script::default() };
        let fake = Fake::new((0..4).map(|_| Step::Deliver(script.clone())));
        let handler = service_fn(|message: Message| async move {
            if crate::number(&message) == 1 {
                return Ok::<_, Infallible>(Disposition::Complete);
            }
            pending().await
        });
        let consumer = Consumer::new(fake.receiver(), handler).concurrency(2).prefetch(2).drain_timeout(seconds(10));
        let started = Instant::now();
        let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
        let took = started.elapsed();
        assert!(took <= seconds(12), "{took:?}");
        assert_eq!(stats.settle_failed(), hung, "none is forgotten");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_settlement_is_waited_for() {
    let script = Script { settle: Answer::Later(seconds(5)), ..Script::default() };
    let fake = Fake::new([Step::Deliver(script)]);
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let started = Instant::now();
    let stats = within(60, Consumer::new(fake.receiver(), handler).run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.completed(), started.elapsed().as_secs()), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_fails_is_not_repeated() {
    for (kind, lost, failed) in
        [(ErrorKind::MessageLockLost, 1, 0), (ErrorKind::ServiceTimeout, 0, 1), (ErrorKind::ServiceBusy, 0, 1)]
    {
        let fake = Fake::new([Step::Deliver(Script { settle: Answer::Fails(kind), ..Script::default() })]);
        let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
        let consumer = Consumer::new(fake.receiver(), handler);
        let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
        assert_eq!((stats.lock_lost(), stats.settle_failed(), stats.completed()), (lost, failed, 0));
        assert_eq!(fake.asked(), [Asked::Settle(1, Disposition::Complete)]);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_receive_and_delete_are_not_lost_at_the_deadline() {
    let queue = queue_with_lock(60);
    fill(&queue, 2).await;
    let handler = service_fn(|_: Message| pending::<Result<Disposition, Infallible>>());
    let gauge = Gauge::default();
    let sunk = gauge.clone();
    let consumer = Consumer::new(queue.receive_and_delete(), handler)
        .drain_timeout(seconds(1))
        .on_undeliverable(move |_| std::mem::forget(sunk.enter()));
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((gauge.now(), stats.cancelled(), stats.settle_failed()), (2, 2, 0));
}

/// Rules: I-37.
/// Random handlers, stopped at a random instant.
#[tokio::test(start_paused = true)]
async fn no_lock_is_left_and_nothing_is_lost() {
    for seed in seeds(500) {
        let _replay = Replay("no_lock_is_left_and_nothing_is_lost", seed);
        let random = Random::new(seed);
        let (queue, messages) = (queue_with_lock(5 + random.below(20)), 1 + random.below(60));
        fill(&queue, usize::try_from(messages).unwrap()).await;
        let times = random.clone();
        let handler = service_fn(move |_: Message| {
            let time = times.below(20_000);
            async move {
                if time > 1_000 {
                    sleep(Duration::from_millis(time)).await;
                }
                Ok::<_, Infallible>(Disposition::Complete)
            }
        });
        let drain = random.below(10);
        let consumer = Consumer::new(queue.receiver(), handler)
            .concurrency(usize::try_from(1 + random.below(20)).unwrap())
            .prefetch(usize::try_from(random.below(20)).unwrap())
            .drain_timeout(seconds(drain));
        let stop = random.below(40_000);
        let started = Instant::now();
        let stats = within(600, consumer.run_until(sleep(Duration::from_millis(stop)))).await.unwrap();
        let shutdown = started.elapsed().saturating_sub(Duration::from_millis(stop));
        assert!(shutdown <= seconds(drain + 1), "{shutdown:?}");
        let counts = queue.counts();
        assert_eq!(counts.locked, 0);
        assert_eq!(counts.active as u64 + stats.completed(), messages);

        let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
        let second = Consumer::new(queue.receiver(), handler);
        let (seen, rest) = (second.stats(), messages - stats.completed());
        within(60, second.run_until(until(move || seen.completed() == rest))).await.unwrap();
        assert_empty(&queue);
    }
}

/// A receiver that has something to release when it is stopped.
struct SlowStop {
    receiver: FakeReceiver,
    takes: Duration,
    releasing: Option<Pin<Box<Sleep>>>,
}

impl Receiver for SlowStop {
    type Lease = FakeLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<FakeLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        self.receiver.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.receiver.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let takes = self.takes;
        self.releasing.get_or_insert_with(|| Box::pin(sleep(takes))).as_mut().poll(cx)
    }
}

/// Rules: J-233.
/// Its end is within the drain timeout and a second.
#[tokio::test(start_paused = true)]
async fn it_waits_until_its_receiver_has_released_what_it_had_locked() {
    for (takes, operation, ends, timed_out) in [(3, 60, 3, 0), (3, 2, 2, 1), (3_600, 60, 11, 1)] {
        let fake = Fake::new([Step::Deliver(Script::default())]);
        let receiver = SlowStop { receiver: fake.receiver(), takes: seconds(takes), releasing: None };
        let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
        let consumer =
            Consumer::new(receiver, handler).drain_timeout(seconds(10)).operation_timeout(seconds(operation));
        let health = consumer.health();
        let started = Instant::now();
        let stats = within(3_600, consumer.run_until(sleep(Duration::from_millis(500)))).await.unwrap();
        assert_eq!((started.elapsed().as_secs(), stats.completed(), stats.timed_out()), (ends, 1, timed_out));
        assert_eq!(fake.stops(), 1);
        assert_eq!(health.snapshot().timed_out, timed_out);
    }
}
