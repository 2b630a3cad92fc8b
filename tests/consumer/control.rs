//! A consumer that is paused, resumed, and whose concurrency is changed while it runs.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    BuildErrorKind, Disposition, Message,
    consumer::{Consumer, ConsumerControl, ConsumerState},
    supervisor::{PartState, Supervisor},
    transport::{ErrorKind, ReceiverExt},
};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep},
};
use tokio_util::sync::PollSemaphore;
use tower::{Service, service_fn};

use crate::{
    Gauge, assert_empty, delivery,
    fake::{Answer, Asked, Fake, Script, Step},
    fill, queue_with_lock, seconds,
    settle_once::{Random, Replay, seeds},
    until, within,
};

/// Rules: J-250.
#[tokio::test(start_paused = true)]
async fn a_paused_consumer_receives_nothing_and_its_handlers_finish_under_renewed_locks() {
    let queue = queue_with_lock(10);
    fill(&queue, 12).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(40)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(2).prefetch(4);
    let (control, stats, health) = (consumer.control(), consumer.stats(), consumer.health());
    tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    assert_eq!((stats.handled(), queue.counts().locked), (2, 6));
    control.pause();
    sleep(Duration::from_millis(10)).await;
    assert_eq!((queue.counts().locked, stats.released()), (2, 4), "what no handler has got is released at once");
    assert_eq!((health.snapshot().state, control.is_paused()), (ConsumerState::Paused, true));
    sleep(seconds(100)).await;
    assert_eq!((stats.completed(), stats.handled(), stats.lock_lost()), (2, 2, 0));
    assert!(stats.renewed() >= 2 * 3, "{}", stats.renewed());
    let snapshot = health.snapshot();
    assert_eq!((snapshot.state, snapshot.in_use, snapshot.waiting), (ConsumerState::Paused, 0, 0));
    let others = queue.receiver().receive_batch(100).await.unwrap();
    assert_eq!((others.len(), others.iter().all(|other| delivery(&other.message) == 1)), (10, true), "uncounted");
    drop(others);
    control.resume();
    within(1_000, until(move || stats.completed() == 12)).await;
    assert_eq!((health.snapshot().state, control.is_paused()), (ConsumerState::Running, false));
}

/// Rules: J-250.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_paused_before_it_runs_starts_paused() {
    let queue = queue_with_lock(10);
    fill(&queue, 3).await;
    let consumer = Consumer::new(queue.receiver(), service_fn(complete));
    let (control, stats) = (consumer.control(), consumer.stats());
    control.pause();
    control.set_concurrency(1).unwrap();
    tokio::spawn(consumer.run());
    sleep(seconds(60)).await;
    assert_eq!((stats.handled(), queue.counts().locked), (0, 0));
    control.resume();
    within(10, until(move || stats.completed() == 3)).await;
}

async fn complete(_: Message) -> Result<Disposition, Infallible> {
    Ok(Disposition::Complete)
}

/// Rules: J-250.
#[tokio::test(start_paused = true)]
async fn a_paused_consumer_stops_its_receiver_once_and_drains() {
    let fake = Fake::new([Step::Deliver(Script::default())]);
    let handler = service_fn(|_: Message| async {
        sleep(seconds(8)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(fake.receiver(), handler).drain_timeout(seconds(30));
    let (control, health) = (consumer.control(), consumer.health());
    let run = tokio::spawn(consumer.run_until(sleep(seconds(4))));
    sleep(seconds(1)).await;
    control.pause();
    sleep(seconds(1)).await;
    let polls = fake.polled_at().len();
    fake.push([Step::Deliver(Script::default())]);
    sleep(seconds(3)).await;
    assert_eq!((health.snapshot().state, fake.polled_at().len()), (ConsumerState::Draining, polls));
    let stats = within(60, run).await.unwrap().unwrap();
    assert_eq!((stats.completed(), stats.handled(), fake.stops()), (1, 1, 1));
}

/// Rules: J-250.
#[tokio::test(start_paused = true)]
async fn releases_that_hang_do_not_keep_a_paused_consumer_from_resuming() {
    let held = Script { release: Answer::Never, ..Script::default() };
    let fake = Fake::new((0..3).map(|_| Step::Deliver(held.clone())));
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let handler = service_fn(move |_: Message| {
        let gate = Arc::clone(&gate);
        async move {
            drop(gate.acquire().await);
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(1).prefetch(2).operation_timeout(seconds(5));
    let (control, stats) = (consumer.control(), consumer.stats());
    tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    control.pause();
    sleep(seconds(10)).await;
    assert_eq!((stats.timed_out(), stats.released()), (2, 0), "given up after the operation timeout");
    opened.add_permits(10);
    fake.push([Step::Deliver(Script::default())]);
    control.resume();
    within(10, until(move || stats.completed() == 2)).await;
}

/// Rules: J-250.
#[tokio::test(start_paused = true)]
async fn a_pause_ends_the_pause_after_a_failed_receive_and_keeps_delayed_abandons() {
    let fake = Fake::new([Step::Deliver(Script::default()), Step::Fail(ErrorKind::ServiceBusy)]);
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::abandon_after(seconds(20))) });
    let consumer = Consumer::new(fake.receiver(), handler);
    let (control, stats, health) = (consumer.control(), consumer.stats(), consumer.health());
    tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    control.pause();
    sleep(seconds(10)).await;
    assert_eq!((stats.abandoned(), health.snapshot().waiting), (0, 1), "its delay goes on");
    sleep(seconds(10)).await;
    assert_eq!((stats.abandoned(), stats.released(), health.snapshot().waiting), (1, 0, 0));
    assert!(fake.asked().iter().any(|asked| matches!(asked, Asked::Settle(1, Disposition::Abandon(_)))));
}

/// Rules: J-251.
#[tokio::test(start_paused = true)]
async fn concurrency_goes_up_at_once_and_running_handlers_are_still_woken() {
    for (from, to) in [(1, 2), (2, 64), (3, 65), (63, 200), (1, 4_096)] {
        let queue = queue_with_lock(60);
        let messages = to + 10;
        fill(&queue, messages).await;
        let gauge = Gauge::default();
        let inside = gauge.clone();
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        let handler = service_fn(move |_: Message| {
            let (entered, gate) = (inside.enter(), Arc::clone(&gate));
            async move {
                drop(gate.acquire().await);
                drop(entered);
                Ok::<_, Infallible>(Disposition::Complete)
            }
        });
        let consumer = Consumer::new(queue.receiver(), handler).concurrency(from);
        let (control, stats, health) = (consumer.control(), consumer.stats(), consumer.health());
        tokio::spawn(consumer.run());
        sleep(seconds(1)).await;
        assert_eq!((gauge.now(), queue.counts().locked), (from, from));
        control.set_concurrency(to).unwrap();
        sleep(seconds(1)).await;
        assert_eq!((gauge.now(), queue.counts().locked), (to, to));
        assert_eq!((health.snapshot().slots, health.snapshot().in_use, control.concurrency()), (to, to, to));
        opened.add_permits(usize::try_from(u32::MAX / 2).unwrap());
        within(60, until(move || stats.completed() == messages as u64)).await;
        assert_eq!(gauge.most(), to);
        assert_empty(&queue);
    }
}

/// Rules: J-251.
#[tokio::test(start_paused = true)]
async fn concurrency_goes_down_without_a_cancelled_handler() {
    let queue = queue_with_lock(60);
    fill(&queue, 40).await;
    let gauge = Gauge::default();
    let inside = gauge.clone();
    let handler = service_fn(move |_: Message| {
        let entered = inside.enter();
        async move {
            sleep(seconds(5)).await;
            drop(entered);
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(16).prefetch(4);
    let (control, stats, health) = (consumer.control(), consumer.stats(), consumer.health());
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(consumer.run_until(stopped));
    sleep(seconds(1)).await;
    control.set_concurrency(3).unwrap();
    sleep(seconds(1)).await;
    assert_eq!((gauge.now(), queue.counts().locked, health.snapshot().slots), (16, 20, 3), "none is cancelled");
    sleep(seconds(5)).await;
    assert_eq!((gauge.now(), queue.counts().locked), (3, 4), "three run, and one of those ahead is left");
    control.set_concurrency(1).unwrap();
    control.set_concurrency(2).unwrap();
    sleep(seconds(10)).await;
    assert_eq!(gauge.now(), 2);
    control.set_concurrency(8).unwrap();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(gauge.now(), 8, "closed slots are opened again");
    within(60, until(|| stats.completed() == 40)).await;
    stop.send(()).unwrap();
    let stats = within(60, run).await.unwrap().unwrap();
    assert_eq!((stats.cancelled(), stats.handled(), gauge.most(), health.snapshot().in_use), (0, 40, 16, 0));
    assert_empty(&queue);
}

/// A service that is ready when the semaphore has a permit.
#[derive(Clone)]
struct Gated(PollSemaphore);

impl Service<Message> for Gated {
    type Response = Disposition;
    type Error = Infallible;
    type Future = Ready<Result<Disposition, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_acquire(cx).map(|_| Ok(()))
    }

    fn call(&mut self, _: Message) -> Self::Future {
        ready(Ok(Disposition::Complete))
    }
}

/// Rules: J-251.
#[tokio::test(start_paused = true)]
async fn messages_that_a_lower_concurrency_has_no_slot_for_are_released() {
    let fake = Fake::new((0..10).map(|_| Step::Deliver(Script::default())));
    let gate = Arc::new(Semaphore::new(0));
    let stack = Gated(PollSemaphore::new(Arc::clone(&gate)));
    let consumer = Consumer::new(fake.receiver(), stack).concurrency(6).prefetch(2);
    let (control, health) = (consumer.control(), consumer.health());
    tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    assert_eq!((health.snapshot().in_use, health.snapshot().waiting), (0, 8), "the stack is not ready");
    control.set_concurrency(4).unwrap();
    sleep(seconds(1)).await;
    assert_eq!((health.snapshot().in_use, health.snapshot().waiting), (0, 6));
    assert_eq!(fake.asked(), [Asked::Release(8), Asked::Release(7)], "the newest");
    gate.add_permits(100);
    within(10, until(|| health.snapshot().completed == 8)).await;
}

/// Rules: J-250, J-251, T-90.
#[tokio::test(start_paused = true)]
async fn messages_that_were_received_and_deleted_wait_for_the_end_of_a_pause() {
    let queue = queue_with_lock(60);
    fill(&queue, 8).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(5)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let lost = Gauge::default();
    let sunk = lost.clone();
    let consumer = Consumer::new(queue.receive_and_delete(), handler)
        .concurrency(2)
        .prefetch(4)
        .on_undeliverable(move |_| std::mem::forget(sunk.enter()));
    let (control, stats, health) = (consumer.control(), consumer.stats(), consumer.health());
    tokio::spawn(consumer.run());
    sleep(seconds(1)).await;
    control.pause();
    control.set_concurrency(1).unwrap();
    sleep(seconds(60)).await;
    assert_eq!((stats.completed(), stats.handled(), lost.now()), (2, 2, 0));
    assert_eq!((health.snapshot().waiting, queue.counts().active), (4, 2));
    control.resume();
    within(100, until(|| stats.completed() == 8)).await;
    assert_eq!(lost.now(), 0);
}

/// Rules: J-251.
#[test]
fn no_concurrency_and_too_much_are_refused() {
    let fake = Fake::new([]);
    let consumer = Consumer::new(fake.receiver(), service_fn(complete)).concurrency(5);
    let control = consumer.control();
    let kind = |messages| control.set_concurrency(messages).unwrap_err().kind();
    assert_eq!(kind(0), BuildErrorKind::NoConcurrency);
    assert_eq!(kind(4_097), BuildErrorKind::TooMuchConcurrency);
    assert_eq!(
        control.set_concurrency(0).unwrap_err().to_string(),
        "the consumer handles 0 messages at once: set at least 1"
    );
    assert_eq!(control.concurrency(), 5);
    drop(consumer.run());
    control.pause();
    control.set_concurrency(7).unwrap();
    assert_eq!(control.concurrency(), 7, "without an effect: the consumer has ended");
}

/// Rules: J-250, J-251.
/// Random handlers, pauses and concurrencies, stopped or dropped at a random instant.
#[tokio::test(start_paused = true)]
async fn nothing_is_lost_by_pauses_and_changes_of_concurrency() {
    for seed in seeds(200) {
        let _replay = Replay("nothing_is_lost_by_pauses_and_changes_of_concurrency", seed);
        let random = Random::new(seed);
        let (queue, messages) = (queue_with_lock(5 + random.below(20)), 1 + random.below(120));
        fill(&queue, usize::try_from(messages).unwrap()).await;
        let times = random.clone();
        let handler = service_fn(move |_: Message| {
            let time = times.below(4_000);
            async move {
                if time > 1_000 {
                    sleep(Duration::from_millis(time)).await;
                }
                Ok::<_, Infallible>(Disposition::Complete)
            }
        });
        let consumer = Consumer::new(queue.receiver(), handler)
            .concurrency(random.size(1..70))
            .prefetch(random.size(0..20))
            .drain_timeout(seconds(random.below(10)));
        let (control, stats) = (consumer.control(), consumer.stats());
        let (stop, stopped) = oneshot::channel::<()>();
        let run = tokio::spawn(consumer.run_until(stopped));
        for _ in 0..random.below(40) {
            match random.below(3) {
                0 => control.pause(),
                1 => control.resume(),
                _ => control.set_concurrency(random.size(1..200)).unwrap(),
            }
            sleep(Duration::from_millis(random.below(1_500))).await;
        }
        let started = Instant::now();
        if random.below(2) == 0 {
            drop(stop);
            let ended = within(600, run).await.unwrap().unwrap();
            assert!(started.elapsed() <= seconds(11), "{:?}", started.elapsed());
            assert_eq!(queue.counts().active as u64 + ended.completed(), messages);
        } else {
            run.abort();
            let _ = run.await;
        }
        assert_eq!((queue.counts().locked, stats.lock_lost()), (0, 0));
        let (second, rest) = (Consumer::new(queue.receiver(), service_fn(complete)), messages - stats.completed());
        let seen = second.stats();
        within(60, second.run_until(until(move || seen.completed() == rest))).await.unwrap();
        assert_empty(&queue);
    }
}

/// Rules: J-254.
#[tokio::test(start_paused = true)]
async fn a_handle_that_is_given_to_each_consumer_outlives_a_restart() {
    let (fake, control) = (Fake::new([Step::Fail(ErrorKind::EntityNotFound)]), ConsumerControl::new());
    assert_eq!((control.concurrency(), control.is_paused()), (16, false));
    let (receivers, given) = (fake.clone(), control.clone());
    let supervisor = Supervisor::new().consumer("orders", move || {
        Consumer::new(receivers.receiver(), service_fn(complete)).controlled_by(&given).concurrency(8)
    });
    let health = supervisor.health();
    let of_consumer = || {
        let consumer = health.part("orders").unwrap().consumer.unwrap();
        (consumer.state, consumer.slots, consumer.completed)
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(supervisor.run_until(stopped));
    sleep(Duration::from_millis(100)).await;
    assert_eq!(health.part("orders").unwrap().state, PartState::Restarting);
    assert_eq!((of_consumer(), control.concurrency()), ((ConsumerState::Ended, 8, 0), 8), "its own concurrency");
    control.pause();
    control.set_concurrency(2).unwrap();
    fake.push((0..5).map(|_| Step::Deliver(Script::default())));
    sleep(seconds(60)).await;
    assert_eq!(
        (health.part("orders").unwrap().state, health.part("orders").unwrap().restarts),
        (PartState::Running, 1)
    );
    assert_eq!((of_consumer(), control.is_paused()), ((ConsumerState::Paused, 2, 0), true));
    control.resume();
    within(1, until(|| of_consumer() == (ConsumerState::Running, 2, 5))).await;

    // And the same handle still reaches the second one, and the third one.
    control.set_concurrency(3).unwrap();
    assert_eq!(of_consumer(), (ConsumerState::Running, 3, 5));
    fake.push([Step::Fail(ErrorKind::EntityNotFound)]);
    sleep(seconds(60)).await;
    assert_eq!((of_consumer(), health.part("orders").unwrap().restarts), ((ConsumerState::Running, 3, 0), 2));
    control.pause();
    within(1, until(|| of_consumer() == (ConsumerState::Paused, 3, 0))).await;
    drop(stop);
    within(1, run).await.unwrap().unwrap();
}

/// Rules: J-254.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_ends_late_does_not_take_the_handle_from_the_next_one() {
    let (queue, control) = (queue_with_lock(60), ConsumerControl::new());
    let consumer = || Consumer::new(queue.receiver(), service_fn(complete)).controlled_by(&control);
    let first = consumer().run();
    let second = consumer();
    let stats = second.stats();
    tokio::spawn(second.run());
    sleep(seconds(1)).await;
    drop(first);
    control.pause();
    sleep(seconds(1)).await;
    fill(&queue, 1).await;
    sleep(seconds(1)).await;
    assert_eq!(stats.completed(), 0);
    control.resume();
    within(1, until(move || stats.completed() == 1)).await;
}

/// Rules: J-254.
#[tokio::test(start_paused = true)]
async fn a_handle_controls_each_consumer_that_has_it_at_the_same_time() {
    let (queues, control) = ([(); 3].map(|()| queue_with_lock(60)), ConsumerControl::new());
    let handler = || {
        service_fn(|_: Message| async {
            sleep(seconds(5)).await;
            Ok::<_, Infallible>(Disposition::Complete)
        })
    };
    let consumer = |at: usize| Consumer::new(queues[at].receiver(), handler()).controlled_by(&control);
    let first = consumer(0).concurrency(4);
    let (stats, health) = (first.stats(), first.health());
    tokio::spawn(first.run());
    sleep(seconds(1)).await;
    // Neither a consumer that is built only, nor one with a concurrency of its own, changes the first one.
    drop(consumer(1).concurrency(8));
    assert_eq!(control.concurrency(), 4);
    let (stop, stopped) = oneshot::channel::<()>();
    let second = tokio::spawn(consumer(1).concurrency(2).run_until(stopped));
    sleep(seconds(1)).await;
    control.pause();
    sleep(seconds(1)).await;
    fill(&queues[0], 9).await;
    drop(stop);
    within(60, second).await.unwrap().unwrap();
    assert_eq!((health.snapshot().state, stats.handled()), (ConsumerState::Paused, 0));
    control.resume();
    sleep(seconds(1)).await;
    assert_eq!((health.snapshot().slots, health.snapshot().in_use), (4, 4));
    // One that grows is still reached beside the one after it.
    control.set_concurrency(5).unwrap();
    let third = consumer(2);
    let seen = third.health();
    tokio::spawn(third.run());
    sleep(seconds(1)).await;
    assert_eq!((health.snapshot().in_use, health.snapshot().slots, seen.snapshot().slots), (5, 5, 5));
    control.pause();
    sleep(seconds(1)).await;
    assert_eq!([health, seen].map(|health| health.snapshot().state), [ConsumerState::Paused; 2]);
}
