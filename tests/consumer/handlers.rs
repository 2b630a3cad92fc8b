//! What a call of the stack can do to its message, and to the driver.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::{Ready, pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use consign::{
    Disposition, Message,
    consumer::{ConsumeError, Consumer},
    settlement::{DeadLetterReason, Transient},
    transport::ReceiverExt,
};
use tokio::time::{sleep, timeout};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use crate::{
    Gauge, assert_empty, delivery,
    fake::{Answer, Asked, Fake, Script, Step},
    fill, hush, number, panic_on_purpose, queue_with_lock, seconds, until, within,
};

#[tokio::test(start_paused = true)]
async fn a_function_of_a_message_is_a_stack() {
    async fn handle(message: Message) -> Disposition {
        if number(&message) == 2 {
            Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "second")
        } else {
            Disposition::Complete
        }
    }
    let queue = queue_with_lock(60);
    fill(&queue, 3).await;
    let consumer = Consumer::new(queue.receiver(), handle);
    let stats = consumer.stats();
    let stats = consumer.run_until(until(move || stats.completed() + stats.dead_lettered() == 3)).await.unwrap();
    assert_eq!((stats.completed(), stats.dead_lettered()), (2, 1));

    // A closure is one too, and what it returns converts.
    let handled = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&handled);
    let closure = move |_: Message| {
        count.fetch_add(1, Ordering::Relaxed);
        ready(Ok::<(), Transient>(()))
    };
    fill(&queue, 2).await;
    let consumer = Consumer::new(queue.receiver(), closure);
    let stats = consumer.stats();
    consumer.run_until(until(move || stats.completed() == 2)).await.unwrap();
    assert_eq!(handled.load(Ordering::Relaxed), 2);
}

/// Rules: I-33.
#[tokio::test(start_paused = true)]
async fn a_panicking_handler_costs_one_delivery() {
    hush();
    let (queue, messages) = (queue_with_lock(60), 100_000);
    fill(&queue, messages).await;
    let deliveries = Arc::new(Mutex::new(HashMap::<u64, u32>::new()));
    let miscounted = Arc::new(AtomicU64::new(0));
    let (seen, wrong) = (Arc::clone(&deliveries), Arc::clone(&miscounted));
    let handler = service_fn(move |message: Message| {
        let mut seen = seen.lock().unwrap();
        let count = seen.entry(number(&message)).or_default();
        *count += 1;
        if delivery(&message) != *count {
            wrong.fetch_add(1, Ordering::Relaxed);
        }
        async move {
            if number(&message).is_multiple_of(100) && delivery(&message) == 1 {
                panic_on_purpose();
            }
            Ok::<_, Infallible>(Disposition::Complete)
        }
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let done = until(move || stats.completed() == 100_000);
    let stats = within(3_600, consumer.run_until(done)).await.unwrap();
    assert_eq!((stats.panicked(), stats.abandoned(), stats.handled()), (1_000, 1_000, 101_000));
    assert_eq!(miscounted.load(Ordering::Relaxed), 0, "counted once for each delivery");
    let twice = deliveries.lock().unwrap().iter().filter(|(_, count)| **count == 2).count();
    assert_eq!((deliveries.lock().unwrap().len(), twice), (messages, 1_000));
    assert_empty(&queue);
}

/// What a panic carries is the handler's, and may panic when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_panic_whose_payload_panics_costs_one_delivery() {
    struct Payload;

    impl Drop for Payload {
        fn drop(&mut self) {
            panic_on_purpose();
        }
    }

    hush();
    let queue = queue_with_lock(60);
    fill(&queue, 1).await;
    let handler = service_fn(|message: Message| async move {
        if delivery(&message) == 1 {
            std::panic::resume_unwind(Box::new(Payload));
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!((stats.panicked(), stats.abandoned(), stats.handled()), (1, 1, 2));
    assert_empty(&queue);
}

#[tokio::test(start_paused = true)]
async fn an_error_abandons_and_counts() {
    let queue = queue_with_lock(60);
    fill(&queue, 1).await;
    let handler = service_fn(|message: Message| async move {
        if delivery(&message) < 3 { Err(BoxError::from("not yet")) } else { Ok(Disposition::Complete) }
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!((stats.failed(), stats.abandoned(), stats.handled()), (2, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_call_itself_costs_one_delivery() {
    hush();
    let queue = queue_with_lock(60);
    fill(&queue, 5).await;
    let handler = service_fn(|message: Message| {
        if delivery(&message) == 1 {
            panic_on_purpose();
        }
        ready(Ok::<_, Infallible>(Disposition::Complete))
    });
    let consumer = Consumer::new(queue.receiver(), handler).concurrency(2);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 5))).await.unwrap();
    assert_eq!((stats.panicked(), stats.handled()), (5, 10));
    assert_empty(&queue);
}

/// Panics when it is dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic_on_purpose();
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_drop_of_a_handler_stays_there() {
    hush();
    let queue = queue_with_lock(5);
    fill(&queue, 1).await;
    let handler = service_fn(|message: Message| async move {
        if delivery(&message) == 1 {
            let _kept = PanicsOnDrop;
            pending::<()>().await;
        }
        Ok::<_, Infallible>(Disposition::Complete)
    });
    let consumer = Consumer::new(queue.receiver(), handler).renew_for(seconds(0));
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 1))).await.unwrap();
    assert_eq!((stats.cancelled(), stats.lock_lost(), stats.handled()), (1, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_sink_stays_there() {
    hush();
    let script = Script { lock: None, ..Script::default() };
    let fake = Fake::new((0..3).map(|_| Step::Deliver(script.clone())));
    let handler = service_fn(|_| ready(Ok::<_, Infallible>(Disposition::ABANDON)));
    let consumer = Consumer::new(fake.receiver(), handler).concurrency(1).on_undeliverable(|_| panic_on_purpose());
    let stats = within(60, consumer.run_until(sleep(seconds(1)))).await.unwrap();
    assert_eq!((stats.handled(), stats.undeliverable()), (3, 3));
}

fn locked_until_settled(settle: Answer) -> Step {
    Step::Deliver(Script { lock: None, is_locked_until_settled: true, settle, ..Script::default() })
}

#[tokio::test(start_paused = true)]
async fn a_delivery_whose_lock_does_not_run_out_is_settled_and_not_renewed() {
    for disposition in [Disposition::Complete, Disposition::ABANDON, Disposition::DEFER] {
        let fake = Fake::new([locked_until_settled(Answer::Now)]);
        let answer = disposition.clone();
        let handler = service_fn(move |_| {
            let answer = answer.clone();
            async move {
                sleep(seconds(600)).await;
                Ok::<_, Infallible>(answer)
            }
        });
        let consumer = Consumer::new(fake.receiver(), handler);
        let stats = within(700, consumer.run_until(sleep(seconds(601)))).await.unwrap();
        assert_eq!(fake.asked(), [Asked::Settle(1, disposition)]);
        assert_eq!((stats.handled(), stats.undeliverable()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_whose_lock_does_not_run_out_is_released_by_a_drain() {
    let fake = Fake::new([locked_until_settled(Answer::Now)]);
    let consumer = Consumer::new(fake.receiver(), Broken { left: 0, then: Readiness::Waits });
    within(60, consumer.run_until(sleep(seconds(10)))).await.unwrap();
    assert_eq!(fake.asked(), [Asked::Release(1)]);
    let fake = Fake::new([locked_until_settled(Answer::Now)]);
    let consumer = Consumer::new(fake.receiver(), Broken { left: 0, then: Readiness::Waits });
    assert!(timeout(seconds(10), consumer.run()).await.is_err());
    assert_eq!(fake.asked(), [Asked::Release(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_of_a_lock_that_does_not_run_out_has_the_deadline_of_an_operation() {
    let fake = Fake::new([locked_until_settled(Answer::Never)]);
    let handler = service_fn(|_| ready(Ok::<_, Infallible>(Disposition::Complete)));
    let consumer = Consumer::new(fake.receiver(), handler).operation_timeout(seconds(5));
    let stats = within(60, consumer.run_until(sleep(seconds(6)))).await.unwrap();
    assert_eq!((stats.completed(), stats.timed_out()), (0, 1));
}

/// How a stack answers when it is asked whether it is ready.
#[derive(Clone, Copy)]
enum Readiness {
    Fails,
    Panics,
    Waits,
}

/// A stack that takes `left` messages and holds them, and then does something else.
#[derive(Clone)]
struct Broken {
    left: usize,
    then: Readiness,
}

impl Service<Message> for Broken {
    type Response = Disposition;
    type Error = BoxError;
    type Future = Ready<Result<Disposition, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self.then {
            _ if self.left > 0 => Poll::Ready(Ok(())),
            Readiness::Fails => Poll::Ready(Err("gone".into())),
            Readiness::Panics => panic_on_purpose(),
            Readiness::Waits => Poll::Pending,
        }
    }

    fn call(&mut self, _: Message) -> Self::Future {
        self.left = self.left.checked_sub(1).expect("called without being ready");
        ready(Ok(Disposition::Complete))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_fails_ends_the_consumer_and_gives_back_uncounted() {
    hush();
    for then in [Readiness::Fails, Readiness::Panics] {
        let queue = queue_with_lock(60);
        fill(&queue, 10).await;
        let consumer = Consumer::new(queue.receiver(), Broken { left: 3, then }).concurrency(8);
        let stats = consumer.stats();
        let error = within(60, consumer.run()).await.unwrap_err();
        assert!(matches!(error, ConsumeError::Service(_)), "{error:?}");
        assert_eq!((stats.completed(), stats.released()), (3, 5));
        let rest = queue.receiver().receive_batch(100).await.unwrap();
        assert_eq!(rest.len(), 7);
        assert!(rest.iter().all(|rest| delivery(&rest.message) == 1), "no delivery was counted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_not_ready_for_long_gives_back_uncounted_in_time() {
    let queue = queue_with_lock(10);
    fill(&queue, 3).await;
    let consumer = Consumer::new(queue.receiver(), Broken { left: 0, then: Readiness::Waits }).concurrency(2);
    let stats = consumer.stats();
    let run = tokio::spawn(consumer.run_until(sleep(seconds(61))));
    sleep(seconds(60)).await;
    assert!(stats.released() >= 10, "{}", stats.released());
    within(60, run).await.unwrap().unwrap();
    assert_eq!((stats.handled(), stats.lock_lost(), stats.abandoned()), (0, 0, 0));
    let rest = queue.receiver().receive_batch(100).await.unwrap();
    assert_eq!(rest.len(), 3);
    assert!(rest.iter().all(|rest| delivery(&rest.message) == 1), "no delivery was counted");
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_an_odd_length_does_not_make_a_waiting_driver_spin() {
    let lock = Some(std::time::Duration::from_nanos(5_000_000_001));
    let fake = Fake::new([Step::Deliver(Script { lock, ..Script::default() })]);
    let consumer = Consumer::new(fake.receiver(), Broken { left: 0, then: Readiness::Waits });
    within(60, consumer.run_until(sleep(seconds(10)))).await.unwrap();
    assert_eq!(fake.asked(), [Asked::Release(1)]);
}

#[tokio::test(start_paused = true)]
async fn idle_consumers_hold_no_permit_of_a_shared_limit() {
    let queues: Vec<_> = (0..3).map(|_| queue_with_lock(60)).collect();
    let busy = Gauge::default();
    let inside = busy.clone();
    let handler = service_fn(move |_: Message| {
        let entered = inside.enter();
        async move {
            sleep(seconds(1)).await;
            drop(entered);
            Ok::<_, BoxError>(Disposition::Complete)
        }
    });
    let permits = Arc::new(tokio::sync::Semaphore::new(2));
    let limit = tower::limit::GlobalConcurrencyLimitLayer::with_semaphore(permits);
    let consumers = queues.iter().map(|queue| {
        Consumer::new(queue.receiver(), ServiceBuilder::new().layer(limit.clone()).service(handler.clone()))
    });
    let mut third = None;
    for consumer in consumers {
        third = Some(consumer.stats());
        tokio::spawn(consumer.run());
    }
    sleep(seconds(1)).await;
    fill(&queues[2], 3).await;
    let third = third.unwrap();
    within(60, until(|| third.completed() == 3)).await;
    assert_eq!((busy.most(), busy.now()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn idle_consumers_do_not_fill_a_shared_buffer() {
    let queues: Vec<_> = (0..5).map(|_| queue_with_lock(60)).collect();
    let handler = service_fn(|_: Message| ready(Ok::<_, BoxError>(Disposition::Complete)));
    let buffered = tower::buffer::Buffer::new(handler, 2);
    let mut last = None;
    for queue in &queues {
        let consumer = Consumer::new(queue.receiver(), buffered.clone());
        last = Some(consumer.stats());
        tokio::spawn(consumer.run());
    }
    sleep(seconds(1)).await;
    fill(&queues[4], 10).await;
    let last = last.unwrap();
    within(60, until(|| last.completed() == 10)).await;
}

/// An error of a handler whose conversion panics.
struct Hostile;

impl From<Hostile> for BoxError {
    fn from(_: Hostile) -> Self {
        panic_on_purpose()
    }
}

/// Rules: I-33.
#[tokio::test(start_paused = true)]
async fn an_error_that_panics_costs_one_delivery() {
    hush();
    let queue = queue_with_lock(60);
    fill(&queue, 2).await;
    let handler = service_fn(|message: Message| {
        ready(if delivery(&message) == 1 { Err(Hostile) } else { Ok(Disposition::Complete) })
    });
    let consumer = Consumer::new(queue.receiver(), handler);
    let stats = consumer.stats();
    let stats = within(60, consumer.run_until(until(move || stats.completed() == 2))).await.unwrap();
    assert_eq!((stats.handled(), stats.panicked(), stats.failed()), (4, 2, 0));
    assert_empty(&queue);
}
