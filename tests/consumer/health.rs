//! How a consumer says that it is.

use std::{
    convert::Infallible,
    future::pending,
    task::{Context, Poll},
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    consumer::{Consumer, ConsumerFailure, ConsumerState, SessionConsumer},
    transport::{ErrorKind, ReceiveError, Sender, SessionSource},
};
use tokio::time::sleep;
use tower::{BoxError, service_fn};

use crate::{
    fake::{Answer, Fake, Script, Step},
    fill, queue_with_lock, seconds, within,
};

/// Rules: J-62.
#[tokio::test(start_paused = true)]
async fn slots_and_state_are_shown_while_it_runs_drains_and_has_ended() {
    let queue = queue_with_lock(60);
    fill(&queue, 10).await;
    let handler = service_fn(|_: Message| async {
        sleep(seconds(8)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(3).prefetch(2);
    let health = consumer.health();
    assert_eq!(
        health.snapshot().to_string(),
        "new, 0 of 3 slots, 0 waiting, 0 handled, 0 completed, 0 abandoned, 0 dead-lettered, 0 deferred, no failure"
    );
    let watched = async {
        sleep(seconds(1)).await;
        let running = health.snapshot();
        assert_eq!((running.state, running.slots, running.in_use, running.waiting), (ConsumerState::Running, 3, 3, 2));
        sleep(seconds(4)).await;
        let draining = health.snapshot();
        assert_eq!((draining.state, draining.in_use, draining.waiting), (ConsumerState::Draining, 3, 0));
    };
    let (stats, ()) = tokio::join!(within(60, consumer.run_until(sleep(seconds(3)))), watched);
    assert_eq!(stats.unwrap().completed(), 3);
    let ended = health.snapshot();
    assert_eq!((ended.state, ended.in_use, ended.waiting), (ConsumerState::Ended, 0, 0));
    assert_eq!((ended.handled, ended.completed, ended.last_failure), (3, 3, None));
}

/// Rules: J-62.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_dropped_holds_nothing() {
    let queue = queue_with_lock(60);
    fill(&queue, 5).await;
    let handler = service_fn(|_: Message| pending::<Result<Disposition, Infallible>>());
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(2);
    let health = consumer.health();
    assert!(tokio::time::timeout(seconds(1), consumer.run()).await.is_err());
    let ended = health.snapshot();
    assert_eq!((ended.state, ended.in_use, ended.waiting), (ConsumerState::Ended, 0, 0));
}

/// What a consumer says after each failure.
async fn after(steps: Vec<Step>, answer: fn() -> Result<Disposition, BoxError>) -> Option<ConsumerFailure> {
    let fake = Fake::new(steps);
    let consumer = Consumer::new(fake.receiver(), service_fn(move |_: Message| async move { answer() }));
    let health = consumer.health();
    let _ = within(600, consumer.run_until(sleep(seconds(300)))).await;
    health.snapshot().last_failure
}

/// Rules: J-63.
#[tokio::test(start_paused = true)]
async fn the_last_failure_is_shown_by_its_kind() {
    let one = || vec![Step::Deliver(Script::default())];
    let settling = |settle| vec![Step::Deliver(Script { settle, ..Script::default() })];
    let complete = || Ok(Disposition::Complete);
    assert_eq!(after(one(), complete).await, None);
    assert_eq!(after(one(), || Err("refused".into())).await, Some(ConsumerFailure::Handler));
    assert_eq!(after(one(), || panic!("a handler panics")).await, Some(ConsumerFailure::Panic));
    let receive = ConsumerFailure::Receive(ErrorKind::ServiceBusy);
    assert_eq!(after(vec![Step::Fail(ErrorKind::ServiceBusy)], complete).await, Some(receive));
    assert_eq!(
        after(settling(Answer::Fails(ErrorKind::MessageLockLost)), complete).await,
        Some(ConsumerFailure::LockLost)
    );
    let settle = ConsumerFailure::Settle(ErrorKind::ServiceTimeout);
    assert_eq!(after(settling(Answer::Fails(ErrorKind::ServiceTimeout)), complete).await, Some(settle));
    assert_eq!(after(settling(Answer::Never), complete).await, Some(settle));
    assert_eq!(
        (receive.to_string(), settle.to_string()),
        ("receive: ServiceBusy".into(), "settle: ServiceTimeout".into())
    );
}

/// A source that never has a session.
struct Busy;

impl SessionSource for Busy {
    type Session = <consign::broker::SessionAcceptor as SessionSource>::Session;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<Result<Self::Session, ReceiveError>> {
        Poll::Ready(Err(ReceiveError::new(ErrorKind::ServiceBusy)))
    }
}

/// Rules: J-63.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_accepted_is_a_failure_too() {
    let handler = service_fn(|_: Message| async { Ok::<_, Infallible>(Disposition::Complete) });
    let consumer = SessionConsumer::new(Busy, handler);
    let health = consumer.health();
    within(60, consumer.run_until(sleep(seconds(5)))).await.unwrap();
    assert_eq!(health.snapshot().last_failure, Some(ConsumerFailure::Receive(ErrorKind::ServiceBusy)));
}

/// Rules: J-64.
#[tokio::test(start_paused = true)]
async fn a_consumer_of_sessions_shows_all_of_them_together() {
    let queue = Broker::new().create_queue("orders", QueueSettings::default().requires_session(true)).unwrap();
    for session in ["a", "b", "c"] {
        let message = Message::builder().session_id(session).build("one").unwrap();
        queue.sender().unwrap().send(message).await.unwrap();
    }
    let handler = service_fn(|_: Message| async {
        sleep(seconds(8)).await;
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = SessionConsumer::new(queue.session_acceptor().unwrap(), handler).concurrency(2);
    let health = consumer.health();
    let watched = async {
        sleep(seconds(1)).await;
        let running = health.snapshot();
        assert_eq!((running.state, running.slots, running.in_use), (ConsumerState::Running, 2, 2));
        sleep(seconds(9)).await;
        assert_eq!((health.snapshot().state, health.snapshot().in_use), (ConsumerState::Running, 1));
        sleep(seconds(3)).await;
        assert_eq!((health.snapshot().state, health.snapshot().in_use), (ConsumerState::Draining, 1));
    };
    let (ended, ()) = tokio::join!(within(60, consumer.run_until(sleep(seconds(12)))), watched);
    ended.unwrap();
    assert_eq!((health.snapshot().state, health.snapshot().in_use), (ConsumerState::Ended, 0));
    assert_eq!(health.snapshot().completed, 3);
}
