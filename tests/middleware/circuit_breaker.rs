use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::{
        circuit_breaker::{CircuitBreakerLayer, CircuitState},
        dedup::{DedupLayer, MemoryStore},
        lock_renewal::LockLost,
    },
    settlement::DeadLetterReason,
    transport::{ErrorKind, SettleError},
};
use tokio::time::{Instant, sleep};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_test::mock::{self, Mock};

use super::support::message;

const PAUSE: Duration = Duration::from_secs(30);

type Answer = Result<Disposition, BoxError>;
type Stack = <CircuitBreakerLayer as Layer<Mock<Message, Disposition>>>::Service;

fn stack(failures: u32, of: u32) -> (CircuitBreakerLayer, Stack, mock::Handle<Message, Disposition>) {
    let layer = CircuitBreakerLayer::new(failures, of, PAUSE);
    let (service, mut handle) = mock::pair();
    handle.allow(1_000);
    (layer.clone(), layer.layer(service), handle)
}

/// Makes a call that is answered so.
async fn answered(stack: &mut Stack, handle: &mut mock::Handle<Message, Disposition>, answer: Answer) {
    let mut call = task::spawn(stack.ready().await.unwrap().call(message("m")));
    assert_pending!(call.poll());
    let (_, answering) = handle.next_request().await.unwrap();
    match answer {
        Ok(answer) => answering.send_response(answer),
        Err(error) => answering.send_error(error),
    }
    let _ = call.await;
}

fn failure() -> Answer {
    Err("away".into())
}

/// Rules: Y-31.
#[tokio::test(start_paused = true)]
async fn a_duplicate_closes_no_circuit() {
    let layer = CircuitBreakerLayer::new(1, 1, PAUSE);
    let dedup = DedupLayer::new(MemoryStore::new(PAUSE * 10), "q");
    let handler = service_fn(|message: Message| async move {
        if message.message_id() == Some("fails") { failure() } else { Ok(Disposition::Complete) }
    });
    let mut stack = ServiceBuilder::new().layer(&layer).layer(dedup).service(handler);
    let identified = |id: &'static str| Message::builder().message_id(id).build("m").unwrap();
    stack.ready().await.unwrap().call(identified("known")).await.unwrap();
    stack.ready().await.unwrap().call(identified("fails")).await.unwrap_err();
    assert_eq!(layer.state(), CircuitState::Open);
    assert_eq!(stack.ready().await.unwrap().call(identified("known")).await.unwrap(), Disposition::Complete);
    assert_eq!((layer.state(), layer.counts().closed()), (CircuitState::HalfOpen, 0));
    stack.ready().await.unwrap().call(identified("new")).await.unwrap();
    assert_eq!((layer.state(), layer.counts().closed()), (CircuitState::Closed, 1));
}

/// Rules: Y-30.
#[tokio::test(start_paused = true)]
async fn the_circuit_opens_when_enough_of_the_latest_calls_have_failed() {
    let (layer, mut stack, mut handle) = stack(3, 5);
    // Two in five, for ever, are not enough; nor is what says nothing.
    for n in 0..50 {
        let answer = if n % 5 < 2 { failure() } else { Ok(Disposition::Complete) };
        answered(&mut stack, &mut handle, answer).await;
    }
    let dead = || Ok(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, ""));
    let lost = || Err(LockLost::from(SettleError::new(ErrorKind::MessageLockLost)).into());
    answered(&mut stack, &mut handle, failure()).await;
    for answer in [dead(), lost(), dead(), lost(), Ok(Disposition::DEFER)] {
        answered(&mut stack, &mut handle, answer).await;
    }
    answered(&mut stack, &mut handle, Ok(Disposition::ABANDON)).await;
    assert_eq!((layer.state(), layer.counts().opened()), (CircuitState::Closed, 0));
    answered(&mut stack, &mut handle, failure()).await;
    assert_eq!((layer.state(), layer.counts().opened()), (CircuitState::Open, 1));
}

/// Rules: Y-31.
#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_not_ready_for_a_pause_and_then_makes_one_probe() {
    let (layer, mut stack, mut handle) = stack(1, 1);
    let start = Instant::now();
    let mut others = [stack.clone(), stack.clone()];
    answered(&mut stack, &mut handle, failure()).await;
    let mut waiting = task::spawn(stack.ready());
    assert_pending!(waiting.poll());
    sleep(Duration::from_millis(29_999)).await;
    assert!(!waiting.is_woken());
    assert_pending!(waiting.poll());
    assert_eq!(layer.state(), CircuitState::Open);
    sleep(Duration::from_millis(1)).await;
    assert!(waiting.is_woken());
    assert_eq!(layer.state(), CircuitState::HalfOpen);
    let mut probe = task::spawn(assert_ready_ok!(waiting.poll()).call(message("probe")));
    assert_pending!(probe.poll());
    let [first, second] = &mut others;
    let mut waiting = [task::spawn(first.ready()), task::spawn(second.ready())];
    for other in &mut waiting {
        assert_pending!(other.poll());
    }
    // It fails: another pause. Those that wait are told of the end of each probe.
    handle.next_request().await.unwrap().1.send_error("away");
    assert!(probe.await.is_err());
    assert_eq!((layer.state(), layer.counts().opened(), layer.counts().probes()), (CircuitState::Open, 2, 1));
    for other in &mut waiting {
        assert!(other.is_woken());
        assert_pending!(other.poll());
    }
    sleep(PAUSE).await;
    let [mut first, mut second] = waiting;
    let mut probe = task::spawn(assert_ready_ok!(first.poll()).call(message("probe")));
    assert_pending!(probe.poll());
    assert_pending!(second.poll());
    handle.next_request().await.unwrap().1.send_response(Disposition::Complete);
    assert_eq!(probe.await.unwrap(), Disposition::Complete);
    assert!(second.is_woken());
    assert_ready_ok!(second.poll());
    assert_eq!((layer.state(), layer.counts().closed(), start.elapsed()), (CircuitState::Closed, 1, 2 * PAUSE));
}

/// Rules: Y-31.
#[tokio::test(start_paused = true)]
async fn a_probe_that_says_nothing_is_followed_by_another() {
    let (layer, mut stack, mut handle) = stack(1, 1);
    let mut other = stack.clone();
    answered(&mut stack, &mut handle, failure()).await;
    sleep(PAUSE).await;
    for probes in 1..=3 {
        let mut probe = task::spawn(stack.ready().await.unwrap().call(message("probe")));
        assert_pending!(probe.poll());
        let mut waiting = task::spawn(other.ready());
        assert_pending!(waiting.poll());
        let (_, answer) = handle.next_request().await.unwrap();
        if probes == 1 {
            drop(probe);
        } else {
            answer.send_error(LockLost::from(SettleError::new(ErrorKind::MessageLockLost)));
            assert!(probe.await.is_err());
        }
        assert!(waiting.is_woken());
        assert_ready_ok!(waiting.poll());
        assert_eq!((layer.state(), layer.counts().probes()), (CircuitState::HalfOpen, probes));
    }
}

/// Rules: Y-31.
#[tokio::test(start_paused = true)]
async fn an_idle_clone_that_is_ready_holds_no_probe() {
    let (layer, mut stack, mut handle) = stack(1, 1);
    let mut idle = stack.clone();
    answered(&mut stack, &mut handle, failure()).await;
    sleep(PAUSE).await;
    idle.ready().await.unwrap();
    answered(&mut stack, &mut handle, Ok(Disposition::Complete)).await;
    assert_eq!(layer.state(), CircuitState::Closed);
}

/// Rules: Y-31.
#[tokio::test(start_paused = true)]
async fn calls_from_before_the_circuit_opened_have_no_effect() {
    let (layer, mut stack, mut handle) = stack(1, 1);
    let mut slow = task::spawn(stack.ready().await.unwrap().call(message("slow")));
    let mut slower = task::spawn(stack.ready().await.unwrap().call(message("slower")));
    assert_pending!(slow.poll());
    assert_pending!(slower.poll());
    let (_, slow_answer) = handle.next_request().await.unwrap();
    let (_, slower_answer) = handle.next_request().await.unwrap();
    answered(&mut stack, &mut handle, failure()).await;
    slow_answer.send_response(Disposition::Complete);
    slow.await.unwrap();
    assert_eq!(layer.state(), CircuitState::Open);
    sleep(PAUSE).await;
    slower_answer.send_error("away");
    slower.await.unwrap_err();
    assert_eq!((layer.state(), layer.counts().opened()), (CircuitState::HalfOpen, 1));
}

/// Rules: Y-32.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_dropped_waits_no_more() {
    let (layer, mut stack, mut handle) = stack(1, 1);
    answered(&mut stack, &mut handle, failure()).await;
    sleep(PAUSE).await;
    let mut probe = task::spawn(stack.ready().await.unwrap().call(message("probe")));
    assert_pending!(probe.poll());
    let mut other = stack.clone();
    let waker = Arc::new(Woken(AtomicBool::new(false)));
    let std_waker = std::task::Waker::from(Arc::clone(&waker));
    assert!(other.poll_ready(&mut std::task::Context::from_waker(&std_waker)).is_pending());
    drop((other, std_waker));
    assert_eq!(Arc::strong_count(&waker), 1);
    drop(probe);
    assert_eq!(layer.state(), CircuitState::HalfOpen);
    assert!(!waker.0.load(Ordering::Relaxed));
}

struct Woken(AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn limits_are_brought_inside() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for (failures, of) in [(0, 0), (u32::MAX, u32::MAX), (64, 64), (65, 64)] {
        runtime.block_on(async {
            let layer = CircuitBreakerLayer::new(failures, of, Duration::MAX);
            let mut stack = layer.layer(tower::service_fn(|_: Message| async { Err::<Disposition, _>("away") }));
            let needed = failures.clamp(1, of.clamp(1, 64));
            for n in 0..needed {
                assert_eq!(layer.state(), CircuitState::Closed, "{n}");
                let _ = stack.ready().await.unwrap().call(message("m")).await;
            }
            assert_eq!(layer.state(), CircuitState::Open);
        });
    }
}

/// Rules: Y-32.
#[cfg(feature = "testing")]
#[tokio::test(start_paused = true)]
async fn a_consumer_holds_its_batch_at_most_and_no_delivery_is_used_up() {
    use consign::{administration::QueueSettings, consumer::Consumer, testing::TestBroker};
    const SECOND: Duration = Duration::from_secs(1);

    let broker = TestBroker::new();
    let queue = broker.queue_with("orders", QueueSettings::default().lock_duration(10 * SECOND));
    for _ in 0..40 {
        queue.send("an order");
    }
    let start = Instant::now();
    let calls = Arc::new(std::sync::Mutex::new(Vec::new()));
    let called = Arc::clone(&calls);
    let breaker = CircuitBreakerLayer::new(4, 8, PAUSE);
    // What it depends on is away for 100 seconds.
    let handler = tower::service_fn(move |message: Message| {
        let now = start.elapsed().as_secs();
        called.lock().unwrap().push((now, message.received().unwrap().delivery_count));
        async move { if now < 100 { Err(BoxError::from("away")) } else { Ok(Disposition::Complete) } }
    });
    let consumer = Consumer::new(queue.receiver(), breaker.layer(handler)).concurrency(4);
    let stats = consumer.stats();
    let run = consumer.run_until(sleep(200 * SECOND));
    let watch = async {
        let mut most = 0;
        while start.elapsed() < 190 * SECOND {
            most = most.max(queue.counts().locked);
            sleep(SECOND / 10).await;
        }
        most
    };
    let (run, most) = tokio::join!(run, watch);
    run.unwrap();
    let calls = calls.lock().unwrap();
    let failed: Vec<_> = calls.iter().map(|(at, _)| *at).take_while(|&at| at < 100).collect();
    assert_eq!(failed, [0, 0, 0, 0, 30, 60, 90]);
    // The probe of second 120 and all that waited.
    assert!(calls[7..].iter().all(|&(at, _)| at == 120), "{calls:?}");
    let deliveries = calls.iter().map(|(_, delivery)| *delivery).max();
    assert!(deliveries <= Some(8) && most <= 4, "{deliveries:?} {most}");
    assert_eq!((stats.completed(), stats.abandoned()), (40, 7));
    // Given back at half of the lock.
    assert!(stats.released() >= 4 * 20, "{}", stats.released());
    queue.assert_empty();
    assert!(queue.dead_letters().is_empty());
    assert_eq!((breaker.counts().opened(), breaker.counts().closed(), breaker.counts().probes()), (4, 1, 4));
}

/// Rules: Y-31.
/// A message that always fails would keep the circuit open without an end if its probes did not count.
#[cfg(feature = "testing")]
#[tokio::test(start_paused = true)]
async fn a_message_whose_probes_fail_is_dead_lettered_after_its_last_delivery() {
    use consign::{administration::QueueSettings, consumer::Consumer, testing::TestBroker};

    let broker = TestBroker::new();
    let queue = broker.queue_with("orders", QueueSettings::default().max_delivery_count(3));
    queue.send("fails");
    queue.send("an order");
    let breaker = CircuitBreakerLayer::new(1, 1, PAUSE);
    let handler = service_fn(async |message: Message| {
        if message.payload() == Some(b"fails") { Err(BoxError::from("away")) } else { Ok(Disposition::Complete) }
    });
    let consumer = Consumer::new(queue.receiver(), breaker.layer(handler)).concurrency(1);
    consumer.run_until(sleep(4 * PAUSE)).await.unwrap();
    queue.assert_empty();
    assert_eq!((queue.dead_letters().len(), breaker.counts().probes(), breaker.counts().closed()), (1, 3, 1));
}

/// Rules: Y-31.
#[tokio::test(start_paused = true)]
async fn a_probe_decides_only_in_the_half_open_period_in_which_it_began() {
    for late in [Disposition::Complete, Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "")] {
        let (layer, mut first, mut handle) = stack(1, 1);
        let mut second = first.clone();
        answered(&mut first, &mut handle, failure()).await;
        sleep(PAUSE).await;
        // Both are ready before either is called, so both send a probe.
        let (one, other) = (first.ready().await.unwrap(), second.ready().await.unwrap());
        let (mut failing, mut slow) =
            (task::spawn(one.call(message("failing"))), task::spawn(other.call(message("slow"))));
        assert_pending!(failing.poll());
        assert_pending!(slow.poll());
        handle.next_request().await.unwrap().1.send_error("away");
        assert!(failing.await.is_err());
        let (_, slow_answer) = handle.next_request().await.unwrap();
        sleep(PAUSE).await;
        let mut probe = task::spawn(first.ready().await.unwrap().call(message("probe")));
        assert_pending!(probe.poll());
        slow_answer.send_response(late);
        slow.await.unwrap();
        assert_eq!((layer.state(), layer.counts().closed()), (CircuitState::HalfOpen, 0));
        let mut waiting = task::spawn(second.ready());
        assert_pending!(waiting.poll());
        handle.next_request().await.unwrap().1.send_response(Disposition::Complete);
        probe.await.unwrap();
        assert_eq!((layer.state(), layer.counts().closed()), (CircuitState::Closed, 1));
    }
}

/// Rules: Y-31.
#[tokio::test(start_paused = true)]
async fn a_call_that_began_before_the_circuit_opened_has_no_effect_after_it_has_closed() {
    let (layer, mut stack, mut handle) = stack(1, 1);
    let mut old = task::spawn(stack.ready().await.unwrap().call(message("old")));
    assert_pending!(old.poll());
    let (_, old_answer) = handle.next_request().await.unwrap();
    answered(&mut stack, &mut handle, failure()).await;
    sleep(PAUSE).await;
    answered(&mut stack, &mut handle, Ok(Disposition::Complete)).await;
    assert_eq!(layer.state(), CircuitState::Closed);
    old_answer.send_error("away");
    assert!(old.await.is_err());
    assert_eq!((layer.state(), layer.counts().opened()), (CircuitState::Closed, 1));
}
