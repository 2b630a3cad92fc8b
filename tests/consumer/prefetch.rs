//! Messages that are locked ahead of the handlers.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use consign::{
    Disposition, Message,
    consumer::Consumer,
    transport::{ErrorKind, ReceiverExt},
};
use tokio::time::{Duration, Instant, sleep};
use tower::service_fn;

use crate::{
    assert_empty, delivery,
    fake::{Answer, Asked, Fake, Script, Step},
    fill, number, queue_with_lock, seconds, until, wakes, within,
};

/// Rules: T-93.
#[tokio::test(start_paused = true)]
async fn no_handler_starts_on_an_expired_lock() {
    let queue = queue_with_lock(10);
    fill(&queue, 1_000).await;
    let started = Instant::now();
    let handler = service_fn(move |message: Message| async move {
        let received = message.received().unwrap();
        let until = received.locked_until.unwrap().saturating_since(received.enqueued_time);
        assert!(started.elapsed() < until, "the lock is over");
        assert_eq!(received.delivery_count, 1, "what no handler has seen is not counted");
        sleep(seconds(1)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(4).prefetch(1_000);
    let stats = consumer.stats();
    let stats = within(3_600, consumer.run_until(until(move || stats.completed() == 1_000))).await.unwrap();
    assert_eq!((stats.handled(), stats.panicked(), stats.lock_lost(), stats.abandoned()), (1_000, 0, 0, 0));
    assert!(stats.released() > 1_000);
    assert_empty(&queue);
}

/// Rules: T-93.
/// Handlers that hold the thread, so that the driver has no turn between them.
#[tokio::test(start_paused = true)]
async fn nor_after_handlers_that_block() {
    for (concurrency, prefetch) in [(1, 100), (16, 0)] {
        block(concurrency, prefetch).await;
    }
}

async fn block(concurrency: usize, prefetch: usize) {
    let queue = queue_with_lock(10);
    fill(&queue, 100).await;
    let (started, late) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&late);
    let handler = service_fn(move |message: Message| {
        let received = message.received().unwrap();
        let until = received.locked_until.unwrap().saturating_since(received.enqueued_time);
        if started.elapsed() >= until {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        async {
            wakes::pass(seconds(1));
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(concurrency).prefetch(prefetch);
    let stats = consumer.stats();
    let stats = within(3_600, consumer.run_until(until(move || stats.completed() == 100))).await.unwrap();
    assert_eq!((late.load(Ordering::Relaxed), stats.handled(), stats.lock_lost()), (0, 100, 0));
}

/// What was given back is there to be received at once, and there is room for it.
#[tokio::test(start_paused = true)]
async fn messages_released_after_a_blocking_handler_are_redelivered() {
    let queue = queue_with_lock(10);
    fill(&queue, 3).await;
    let handler = service_fn(|message: Message| async move {
        if number(&message) == 1 {
            wakes::pass(seconds(6));
        } else {
            sleep(seconds(60)).await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(3).renew_for(Duration::ZERO);
    let stats = consumer.stats();
    tokio::spawn(consumer.run());
    sleep(seconds(7)).await;
    assert_eq!((stats.completed(), stats.released(), stats.handled()), (1, 2, 3));
}

/// A lock begins when it is taken, not when the turn of the driver began.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_after_a_handler_blocked_is_a_new_one() {
    let queue = queue_with_lock(10);
    fill(&queue, 2).await;
    let handler = service_fn(|message: Message| async move {
        match (number(&message), delivery(&message)) {
            (2, 1) => wakes::pass(seconds(11)),
            _ => sleep(seconds(1)).await,
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(2).renew_for(Duration::ZERO);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 2))).await.unwrap();
    assert_eq!((stats.handled(), stats.cancelled()), (4, 1), "the first delivery of the first message");
    assert_empty(&queue);
}

/// Rules: S-60.
#[tokio::test(start_paused = true)]
async fn messages_waiting_for_a_slot_are_released_uncounted() {
    for renew in [300, 0] {
        let queue = queue_with_lock(10);
        fill(&queue, 10).await;
        let handler = service_fn(|_: Message| async {
            sleep(seconds(60)).await;
            Ok::<_, Infallible>(Disposition::Complete)
        });
        let consumer = Consumer::new(queue.receiver(), handler).concurrency(2).prefetch(8).renew_for(seconds(renew));
        let stats = consumer.stats();
        tokio::spawn(consumer.run());
        sleep(Duration::from_millis(4_990)).await;
        assert_eq!((queue.counts().locked, stats.released()), (10, 0));
        sleep(Duration::from_millis(110)).await;
        assert_eq!((queue.counts().locked, stats.released()), (2, 8), "at half of the lock");
        let others = queue.receiver().receive_batch(100).await.unwrap();
        assert_eq!(others.len(), 8);
        assert!(others.iter().all(|other| delivery(&other.message) == 1), "no delivery was counted");
    }
}

/// Rules: T-89.
#[tokio::test(start_paused = true)]
async fn prefetched_messages_are_released_at_shutdown_uncounted() {
    let queue = queue_with_lock(60);
    fill(&queue, 20).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(5)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(2).prefetch(10);
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.handled(), stats.completed(), stats.released()), (2, 2, 10));
    let rest = queue.receiver().receive_batch(100).await.unwrap();
    assert_eq!(rest.len(), 18);
    assert!(rest.iter().all(|rest| delivery(&rest.message) == 1));
}

#[tokio::test(start_paused = true)]
async fn a_prefetched_message_that_lost_its_lock_is_dropped() {
    let lost = Script { release: Answer::Fails(ErrorKind::MessageLockLost), ..Script::default() };
    let fake = Fake::new([Step::Deliver(Script::default()), Step::Deliver(lost)]);
    let handler = service_fn(|_: Message| async {
        sleep(seconds(40)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(1).prefetch(1);
    let stats = within(90, consumer.run_until(sleep(seconds(50)))).await.unwrap();
    assert_eq!((stats.handled(), stats.lock_lost(), stats.released()), (1, 1, 0));
}

/// Rules: S-77.
/// A lock that runs out in the buffer is a failed delivery like any other.
#[tokio::test(start_paused = true)]
async fn a_lock_that_runs_out_in_the_buffer_counts() {
    let queue = queue_with_lock(10);
    fill(&queue, 2).await;
    let handler = service_fn(|message: Message| async move {
        if delivery(&message) == 1 {
            wakes::pass(seconds(11));
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(1).prefetch(1);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 2))).await.unwrap();
    assert_eq!((stats.handled(), stats.lock_lost()), (3, 2), "the second one was counted and no handler saw it");
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn releases_that_hang_take_no_slot_and_are_bounded() {
    let held = Script { lock: Some(seconds(5)), release: Answer::Never, ..Script::default() };
    let fake = Fake::new((0..1_000).map(|_| Step::Deliver(held.clone())));
    let handler = service_fn(|_: Message| async {
        sleep(seconds(3)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(fake.receiver(), handler)
        .concurrency(2)
        .prefetch(20)
        .drain_timeout(seconds(10))
        .operation_timeout(seconds(600));
    let started = Instant::now();
    let stats = within(600, consumer.run_until(sleep(seconds(300)))).await.unwrap();
    let releases = fake.asked().iter().filter(|asked| matches!(asked, Asked::Release(_))).count();
    assert!(releases <= 2 * 22, "{releases}");
    assert!(started.elapsed() <= seconds(311), "{:?}", started.elapsed());
    assert_eq!(stats.released(), 0);
}

/// Rules: T-90.
#[tokio::test(start_paused = true)]
async fn prefetched_messages_of_receive_and_delete_are_not_lost_at_shutdown() {
    let queue = queue_with_lock(60);
    fill(&queue, 10).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(5)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let sunk = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sunk);
    let consumer =
        Consumer::new(queue.receive_and_delete(), handler).concurrency(2).prefetch(8).on_undeliverable(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.completed(), sunk.load(Ordering::Relaxed), stats.settle_failed()), (2, 8, 0));
}

/// Rules: T-90.
#[tokio::test(start_paused = true)]
async fn messages_of_receive_and_delete_are_not_lost_with_a_dropped_run() {
    let queue = queue_with_lock(60);
    fill(&queue, 10).await;
    let handler = service_fn(|_: Message| std::future::pending::<Result<Disposition, Infallible>>());
    let sunk = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sunk);
    let consumer =
        Consumer::new(queue.receive_and_delete(), handler).concurrency(2).prefetch(8).on_undeliverable(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    let stats = consumer.stats();
    assert!(tokio::time::timeout(seconds(1), consumer.run()).await.is_err());
    assert_eq!((stats.handled(), sunk.load(Ordering::Relaxed)), (2, 10), "two were with handlers, eight ahead");
}
