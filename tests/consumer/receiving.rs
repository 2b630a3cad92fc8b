//! A receiver that fails.

use std::{
    convert::Infallible,
    error::Error,
    future::{pending, ready},
};

use consign::{
    Disposition, Message,
    consumer::{ConsumeError, Consumer},
    transport::{ErrorKind, ReceiveError},
};
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::{
    fake::{Answer, Asked, Fake, Script, Step},
    seconds, within,
};

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_met_with_growing_pauses() {
    let busy = |n| (0..n).map(|_| Step::Fail(ErrorKind::ServiceBusy));
    let fake = Fake::new(busy(10).chain([Step::Deliver(Script::default())]).chain(busy(2)));
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = Consumer::new(fake.receiver(), handler);
    let stats = within(600, consumer.run_until(sleep(seconds(300)))).await.unwrap();
    assert_eq!((stats.completed(), fake.stops() >= 12), (1, true));
    let at = fake.polled_at();
    let pauses: Vec<_> = at.windows(2).map(|pair| (pair[1] - pair[0]).as_millis() / 10 * 10).collect();
    let expected = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000, 0, 100];
    assert_eq!(pauses, expected, "and from the start after a success");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_does_not_pass_ends_the_consumer_after_what_runs() {
    let fake = Fake::new([Step::Deliver(Script::default()), Step::Fail(ErrorKind::EntityNotFound)]);
    let handler = service_fn(|_: Message| async {
        sleep(seconds(10)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let started = Instant::now();
    let error = within(60, Consumer::new(fake.receiver(), handler).run()).await.unwrap_err();
    assert!(matches!(error, ConsumeError::Receive(_)), "{error:?}");
    let source = error.source().and_then(|source| source.downcast_ref::<ReceiveError>()).unwrap();
    assert_eq!(source.kind(), ErrorKind::EntityNotFound);
    assert_eq!(started.elapsed().as_secs(), 10);
    assert_eq!(fake.asked(), [Asked::Settle(1, Disposition::Complete)]);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_answers_with_nothing_does_not_make_it_spin() {
    let fake = Fake::new((0..5).map(|_| Step::Nothing).chain([Step::Deliver(Script::default())]));
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = Consumer::new(fake.receiver(), handler);
    let stats = within(60, consumer.run_until(sleep(seconds(30)))).await.unwrap();
    assert_eq!(stats.completed(), 1);
    assert!(*fake.polled_at().last().unwrap() - fake.polled_at()[0] > seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_pause_does_not_hold_up_what_runs_nor_the_shutdown() {
    let fake = Fake::new(
        [Step::Deliver(Script::default())].into_iter().chain((0..100).map(|_| Step::Fail(ErrorKind::ServiceBusy))),
    );
    let handler = service_fn(|_: Message| pending::<Result<Disposition, Infallible>>());
    let consumer = Consumer::new(fake.receiver(), handler).drain_timeout(seconds(1));
    let stats = consumer.stats();
    let started = Instant::now();
    within(120, consumer.run_until(sleep(seconds(64)))).await.unwrap();
    assert_eq!((stats.renewed(), stats.cancelled(), started.elapsed().as_secs()), (2, 1, 65));
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_hangs_is_given_up_after_a_lock() {
    let hangs = Script { lock: Some(seconds(30)), settle: Answer::Never, ..Script::default() };
    let fake = Fake::new([Step::Deliver(hangs), Step::Deliver(Script::default())]);
    let handler = service_fn(|_: Message| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(1);
    let stats = within(60, consumer.run_until(sleep(seconds(29)))).await.unwrap();
    assert_eq!((stats.handled(), stats.completed()), (1, 0), "it is waited for");

    let hangs = Script { lock: Some(seconds(30)), settle: Answer::Never, ..Script::default() };
    let fake = Fake::new([Step::Deliver(hangs), Step::Deliver(Script::default())]);
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(1);
    let stats = within(60, consumer.run_until(sleep(seconds(31)))).await.unwrap();
    assert_eq!((stats.handled(), stats.completed(), stats.settle_failed()), (2, 1, 1));
}

/// The contract forbids it. What is locked has to be handled all the same, and in its order.
#[tokio::test(start_paused = true)]
async fn deliveries_of_a_receive_that_fails_are_handled_in_order() {
    let scripts = vec![Script::default(), Script::default(), Script::default()];
    let fake = Fake::new([Step::DeliverAndFail(scripts, ErrorKind::ServiceBusy)]);
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(3);
    let health = consumer.health();
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!(stats.completed(), 3);
    assert_eq!(fake.asked(), [1, 2, 3].map(|id| Asked::Settle(id, Disposition::Complete)));
    assert_eq!(health.snapshot().last_failure, None);
}
