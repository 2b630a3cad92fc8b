//! The locks of handlers that run for long.

use std::convert::Infallible;

use consign::{
    Disposition, Message,
    consumer::{Consumer, Stats},
    transport::{ErrorKind, ReceiverExt},
};
use tokio::time::{Duration, Instant, advance, sleep};
use tower::service_fn;

use crate::{
    Gauge, assert_empty, delivery,
    fake::{Answer, Asked, Fake, Script, Step},
    fill, queue_with_lock, seconds, until, within,
};

/// Rules: S-58.
#[tokio::test(start_paused = true)]
async fn a_handler_of_three_locks_runs_once_and_completes() {
    let queue = queue_with_lock(10);
    fill(&queue, 1).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(31)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!((stats.handled(), stats.renewed(), stats.lock_lost()), (1, 6, 0));
    assert_empty(&queue);
}

/// Attacks: 72.
#[tokio::test(start_paused = true)]
async fn renewal_ends_after_its_total_and_the_handler_with_its_lock() {
    let queue = queue_with_lock(10);
    fill(&queue, 1).await;
    let handler = service_fn(|message: Message| async move {
        sleep(seconds(if delivery(&message) == 1 { 1_000 } else { 1 })).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let started = Instant::now();
    let consumer = Consumer::new(queue.receiver(), handler).renew_for(seconds(20));
    let stats = consumer.stats();
    let stats = within(120, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!((stats.handled(), stats.renewed(), stats.cancelled(), stats.lock_lost()), (2, 4, 1, 1));
    assert!(started.elapsed() < seconds(32), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_renewal_cancels_at_the_end_of_the_lock_and_the_delivery_counts() {
    let queue = queue_with_lock(10);
    fill(&queue, 1).await;
    let (gauge, started) = (Gauge::default(), Instant::now());
    let inside = gauge.clone();
    let handler = service_fn(move |_: Message| {
        let entered = inside.enter();
        async move {
            sleep(seconds(1_000)).await;
            drop(entered);
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(queue.receiver(), handler).renew_for(seconds(0)).drain_timeout(seconds(0));
    let stats = consumer.stats();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(consumer.run_until(stopped));
    sleep(Duration::from_millis(9_990)).await;
    assert_eq!((stats.cancelled(), stats.handled()), (0, 1));
    sleep(Duration::from_millis(110)).await;
    assert_eq!((stats.cancelled(), stats.handled()), (1, 2), "cancelled, and delivered again");
    assert_eq!((gauge.now(), gauge.most()), (1, 1), "never two handlers of one message");
    stop.send(()).unwrap();
    within(60, run).await.unwrap().unwrap();
    assert_eq!((stats.renewed(), started.elapsed() < seconds(20)), (0, true));
    let again = queue.receiver().receive().await.unwrap();
    assert_eq!(delivery(&again.message), 3);
}

/// One message whose handler does not end; what became of it after `after`.
async fn held(script: Script, after: Duration) -> (Stats, Gauge, Vec<(Duration, Asked)>) {
    let (fake, gauge, started) = (Fake::new([Step::Deliver(script)]), Gauge::default(), Instant::now());
    let inside = gauge.clone();
    let handler = service_fn(move |_: Message| {
        let entered = inside.enter();
        async move {
            std::future::pending::<()>().await;
            drop(entered);
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(2);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run());
    sleep(after).await;
    let asked = fake.asked_at().into_iter().map(|(at, asked)| (at - started, asked)).collect();
    assert!(!run.is_finished());
    (stats, gauge, asked)
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_cancels_within_100_ms() {
    let script = Script { renew: vec![Answer::Fails(ErrorKind::MessageLockLost)], ..Script::default() };
    let (stats, gauge, asked) = held(script, Duration::from_millis(30_100)).await;
    assert_eq!((stats.cancelled(), stats.lock_lost(), gauge.now(), gauge.most()), (1, 1, 0, 1));
    assert!(!asked.iter().any(|(_, asked)| matches!(asked, Asked::Settle(..))), "no right to settle is left");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_cancels_at_the_end_of_the_lock() {
    let script = || Script { renew: vec![Answer::Never], ..Script::default() };
    let (stats, gauge, _) = held(script(), Duration::from_millis(59_990)).await;
    assert_eq!((stats.cancelled(), gauge.now()), (0, 1));
    let (stats, gauge, asked) = held(script(), Duration::from_millis(60_100)).await;
    assert_eq!((stats.cancelled(), gauge.now(), asked[0].clone()), (1, 0, (seconds(30), Asked::Renew(1))));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again() {
    let script = Script { renew: vec![Answer::Fails(ErrorKind::ServiceBusy)], ..Script::default() };
    let (stats, gauge, asked) = held(script, seconds(80)).await;
    let at: Vec<_> = asked.iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!((at, stats.renewed(), gauge.now()), (vec![30, 45, 75], 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_until_the_end_cancels_there() {
    let script = Script { renew: vec![Answer::Fails(ErrorKind::ServiceBusy); 20], ..Script::default() };
    let (stats, _, asked) = held(script.clone(), Duration::from_millis(59_990)).await;
    assert_eq!((stats.cancelled(), asked.len() > 3), (0, true));
    let (stats, ..) = held(script, Duration::from_millis(60_100)).await;
    assert_eq!((stats.cancelled(), stats.renewed()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_renewal_counts_from_when_it_was_asked_for() {
    let script = Script { renew: vec![Answer::Later(seconds(20)), Answer::Never], ..Script::default() };
    let (_, _, asked) = held(script.clone(), seconds(61)).await;
    assert_eq!(asked.iter().map(|(at, _)| at.as_secs()).collect::<Vec<_>>(), [30, 60]);
    let (stats, ..) = held(script.clone(), Duration::from_millis(89_990)).await;
    assert_eq!(stats.cancelled(), 0);
    let (stats, ..) = held(script, Duration::from_millis(90_100)).await;
    assert_eq!(stats.cancelled(), 1);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_end_at_once_are_not_renewed() {
    let queue = queue_with_lock(5);
    fill(&queue, 1_000).await;
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = Consumer::new(queue.receiver(), handler);
    let (stats, seen) = (consumer.stats(), consumer.stats());
    within(60, consumer.run_until(until(move || stats.completed() == 1_000))).await.unwrap();
    assert_eq!((seen.renewed(), seen.handled()), (0, 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_runs_for_long_is_renewed_while_others_never_pause() {
    let queue = queue_with_lock(10);
    fill(&queue, 1).await;
    let sender = queue.clone();
    let handler = service_fn(move |message: Message| {
        let is_first = crate::number(&message) == 1;
        let queue = sender.clone();
        async move {
            if is_first {
                sleep(seconds(60)).await;
            } else {
                // There is always a next message, and time passes only here.
                crate::wakes::pass(Duration::from_millis(1));
                fill(&queue, 1).await;
            }
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(queue.receiver(), handler).drain_timeout(seconds(0));
    let stats = consumer.stats();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(consumer.run_until(stopped));
    fill(&queue, 1).await;
    while stats.handled() < 40_000 {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
    assert_eq!((stats.lock_lost(), stats.renewed() >= 6), (0, true), "{stats:?}");
}

/// A transport may say that a lock never ends.
#[tokio::test(start_paused = true)]
async fn a_lock_of_any_length_is_no_overflow() {
    for concurrency in [1, 2] {
        let forever = Script { lock: Some(Duration::MAX), settle: Answer::Later(seconds(1)), ..Script::default() };
        let fake = Fake::new((0..4).map(|_| Step::Deliver(forever.clone())));
        let handler = service_fn(|_: Message| async {
            sleep(seconds(400)).await;
            Ok::<_, Infallible>(Disposition::Complete)
        });
        let consumer =
            Consumer::new(fake.receiver(), handler).concurrency(concurrency).prefetch(1).renew_for(Duration::MAX);
        let stats = consumer.stats();
        let stats = within(3_600, consumer.run_until(until(move || stats.completed() == 4))).await.unwrap();
        assert_eq!((stats.handled(), stats.lock_lost()), (4, 0));
    }
}

/// The task is polled again when the lock would have ended without the answer, which has come in time.
#[tokio::test(start_paused = true)]
async fn an_answer_that_came_while_the_task_was_not_polled_is_not_lost() {
    let script = Script { renew: vec![Answer::Later(seconds(1)), Answer::Never], ..Script::default() };
    let (fake, gauge) = (Fake::new([Step::Deliver(script)]), Gauge::default());
    let consumer = Consumer::new(fake.receiver(), gauge.hanging());
    let stats = consumer.stats();
    let mut run = tokio_test::task::spawn(consumer.run());
    assert!(run.poll().is_pending());
    advance(seconds(30)).await;
    assert!(run.poll().is_pending());
    assert_eq!(fake.asked(), [Asked::Renew(1)]);
    advance(seconds(31)).await;
    assert!(run.poll().is_pending());
    assert_eq!((stats.renewed(), stats.lock_lost(), gauge.now()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_was_answered_while_the_task_was_not_polled_counts() {
    let script = Script { settle: Answer::Later(seconds(1)), ..Script::default() };
    let fake = Fake::new([Step::Deliver(script)]);
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = Consumer::new(fake.receiver(), handler);
    let stats = consumer.stats();
    let mut run = tokio_test::task::spawn(consumer.run());
    assert!(run.poll().is_pending());
    advance(seconds(61)).await;
    assert!(run.poll().is_pending());
    assert_eq!((stats.completed(), stats.timed_out()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_held_message_whose_renewal_was_answered_while_the_task_was_not_polled_is_kept() {
    let script = Script { renew: vec![Answer::Now, Answer::Later(seconds(1)), Answer::Never], ..Script::default() };
    let fake = Fake::new([Step::Deliver(script)]);
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::abandon_after(seconds(80))) });
    let consumer = Consumer::new(fake.receiver(), handler);
    let stats = consumer.stats();
    let mut run = tokio_test::task::spawn(consumer.run());
    // Its lock is renewed at once, and when half of it has passed.
    for _ in 0..2 {
        assert!(run.poll().is_pending());
        advance(Duration::from_millis(1)).await;
    }
    advance(seconds(30)).await;
    assert!(run.poll().is_pending());
    assert_eq!((fake.asked().len(), stats.renewed()), (2, 1));
    advance(seconds(31)).await;
    assert!(run.poll().is_pending());
    assert_eq!((stats.renewed(), stats.lock_lost()), (2, 0));
}
