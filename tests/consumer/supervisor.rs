//! Several consumers under one supervisor.

use std::{
    convert::Infallible,
    future::{Ready, pending},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    consumer::{Consumer, ConsumerState},
    middleware::retry::{Backoff, Jitter},
    supervisor::{PartState, RestartPolicy, Supervisor, SupervisorErrorKind},
    transport::{AsyncReceiver, Delivery, ErrorKind, FromAsync, ReceiveError, ReceiverExt, Stop},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tower::{BoxError, service_fn};

use crate::{
    assert_empty,
    fake::{Fake, FakeLease, FakeReceiver, Script, Step},
    fill, hush, panic_on_purpose, queue_with_lock, seconds, until, within,
};

fn every(seconds: u64) -> RestartPolicy {
    RestartPolicy::new().backoff(Backoff::fixed(Duration::from_secs(seconds)))
}

async fn complete(_: Message) -> Disposition {
    Disposition::Complete
}

/// Rules: J-260, J-263.
#[tokio::test(start_paused = true)]
async fn all_consumers_run_and_drain_together() {
    let queues = [queue_with_lock(60), queue_with_lock(60)];
    for queue in &queues {
        fill(queue, 5).await;
    }
    let mut supervisor = Supervisor::new();
    for (name, queue) in ["first", "second"].into_iter().zip(queues.clone()) {
        supervisor = supervisor.consumer(name, move || {
            Consumer::new(queue.receiver(), async |_: Message| {
                sleep(seconds(4)).await;
                Disposition::Complete
            })
            .concurrency(2)
        });
    }
    let health = supervisor.health();
    assert_eq!(health.part("first").unwrap().state, PartState::New);
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(supervisor.run_until(stopped));
    sleep(seconds(1)).await;
    let snapshot = health.snapshot();
    assert!(snapshot.is_healthy());
    for part in &snapshot.parts {
        let consumer = part.consumer.as_ref().unwrap();
        assert_eq!((part.state, part.restarts, part.lasting), (PartState::Running, 0, seconds(1)));
        assert_eq!((consumer.state, consumer.in_use), (ConsumerState::Running, 2));
    }
    drop(stop);
    sleep(seconds(1)).await;
    assert!(health.snapshot().parts.iter().all(|part| part.state == PartState::Draining));
    within(60, run).await.unwrap().unwrap();
    assert!(health.snapshot().parts.iter().all(|part| part.state == PartState::Ended));
    for queue in &queues {
        assert_eq!((queue.counts().active, queue.counts().locked), (3, 0));
    }
    assert_eq!(
        health.part("second").unwrap().to_string(),
        "second: ended for 0 s, 0 restarts; consumer ended, 0 of 2 slots, 0 waiting, 2 handled, 2 completed, 0 abandoned, \
         0 dead-lettered, 0 deferred, no failure"
    );
    assert!(health.part("third").is_none());
}

/// Rules: J-261.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_fails_is_restarted_after_its_backoff_while_others_run() {
    let (broken, queue) = (Fake::default(), queue_with_lock(60));
    broken.push([Step::Fail(ErrorKind::EntityNotFound)]);
    let (receivers, others) = (broken.clone(), queue.clone());
    let supervisor = Supervisor::new()
        .restart(RestartPolicy::new().backoff(Backoff::exponential(seconds(10)).jitter(Jitter::None)))
        .consumer("broken", move || Consumer::new(receivers.receiver(), complete))
        .consumer("other", move || Consumer::new(others.receiver(), complete));
    let health = supervisor.health();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(supervisor.run_until(stopped));
    sleep(seconds(2)).await;
    let part = health.part("broken").unwrap();
    assert_eq!((part.state, part.restart_delay, part.restarts), (PartState::Restarting, Some(seconds(10)), 0));
    let error = part.last_error.unwrap();
    assert!(error.starts_with("the consumer stopped because its receiver failed: "), "{error}");
    assert_eq!((part.lasting, health.snapshot().is_healthy()), (seconds(2), false));
    fill(&queue, 3).await;
    sleep(seconds(1)).await;
    assert_empty(&queue);
    sleep(seconds(8)).await;
    assert_eq!(
        (health.part("broken").unwrap().state, health.part("broken").unwrap().restarts),
        (PartState::Running, 1)
    );
    assert!(health.snapshot().is_healthy());
    broken.push([Step::Fail(ErrorKind::EntityNotFound)]);
    sleep(seconds(1)).await;
    assert_eq!(health.part("broken").unwrap().restart_delay, Some(seconds(20)), "twice of it");
    drop(stop);
    within(1, run).await.unwrap().unwrap();
    assert_eq!(health.part("broken").unwrap().state, PartState::Ended, "a restart is not waited for");
}

/// Rules: J-261.
#[tokio::test(start_paused = true)]
async fn a_part_that_fails_too_often_ends_the_others() {
    hush();
    let runs = Arc::new(AtomicU64::new(0));
    for (keeps, panics_at_start) in [(false, false), (false, true), (true, false)] {
        let (counted, queue) = (Arc::clone(&runs), queue_with_lock(60));
        counted.store(0, Ordering::Relaxed);
        let others = queue.clone();
        let mut supervisor = Supervisor::new()
            .restart(every(10).limit(2, seconds(100)))
            .part("broken", move |part| {
                assert_eq!((part.name(), part.restarts()), ("broken", counted.fetch_add(1, Ordering::Relaxed)));
                if panics_at_start {
                    panic_on_purpose();
                }
                async move {
                    if part.restarts() == 1 {
                        panic_on_purpose();
                    }
                    Err::<(), BoxError>("no more".into())
                }
            })
            .consumer("other", move || Consumer::new(others.receiver(), complete));
        if keeps {
            supervisor = supervisor.keep_running();
        }
        let (health, started) = (supervisor.health(), Instant::now());
        let error = within(1_000, supervisor.run_until(sleep(seconds(50)))).await.unwrap_err();
        assert_eq!(started.elapsed(), if keeps { seconds(50) } else { seconds(20) });
        assert_eq!(
            (error.kind(), error.parts().collect::<Vec<_>>()),
            (SupervisorErrorKind::PartFailed, vec!["broken"])
        );
        assert_eq!(error.to_string(), "the part `broken` failed for good");
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!((runs.load(Ordering::Relaxed), health.part("broken").unwrap().state), (3, PartState::Failed));
        assert_eq!(health.part("other").unwrap().state, PartState::Ended);
    }
}

/// Rules: J-261.
#[tokio::test(start_paused = true)]
async fn a_part_that_cannot_run_twice_fails_for_good_and_one_that_ends_is_not_restarted() {
    let supervisor =
        Supervisor::new().part("ends", async |_| Ok::<_, Infallible>("a value")).once("once", async |_| {
            sleep(seconds(5)).await;
            Err::<(), BoxError>("broken".into())
        });
    let (health, started) = (supervisor.health(), Instant::now());
    let error = within(60, supervisor.run()).await.unwrap_err();
    assert_eq!((error.parts().next(), started.elapsed()), (Some("once"), seconds(5)));
    assert_eq!((health.part("ends").unwrap().state, health.part("ends").unwrap().restarts), (PartState::Ended, 0));
    assert_eq!(health.part("once").unwrap().last_error.as_deref(), Some("broken"));
    within(1, Supervisor::new().run()).await.unwrap();
}

/// Rules: J-262.
#[tokio::test(start_paused = true)]
async fn parts_that_do_not_end_are_aborted_at_the_drain_timeout() {
    let queue = queue_with_lock(60);
    fill(&queue, 4).await;
    let hanging = queue.clone();
    let supervisor = Supervisor::new()
        .drain_timeout(seconds(10))
        .consumer("hangs", move || {
            let handler = service_fn(|_: Message| pending::<Result<Disposition, Infallible>>());
            Consumer::new(hanging.receiver(), handler).concurrency(2).prefetch(1).drain_timeout(seconds(3_600))
        })
        .part("deaf", |_| pending::<Result<(), Infallible>>())
        .part("ends", |part| async move {
            part.shutdown().await;
            Ok::<_, Infallible>(())
        });
    let (health, started) = (supervisor.health(), Instant::now());
    let error = within(60, supervisor.run_until(sleep(seconds(1)))).await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed()), (SupervisorErrorKind::DrainTimeout, seconds(11)));
    assert_eq!(error.parts().collect::<Vec<_>>(), ["hangs", "deaf"]);
    assert_eq!(
        health.snapshot().parts.iter().map(|part| part.state).collect::<Vec<_>>(),
        [PartState::Aborted, PartState::Aborted, PartState::Ended]
    );
    // The tasks have ended by now, so that a process may end here.
    assert_eq!((queue.counts().locked, queue.counts().active), (0, 4));
}

/// Rules: J-262.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_never_yields_does_not_keep_an_aborting_supervisor() {
    let (blocks, blocked) = std::sync::mpsc::channel::<()>();
    let (starts, started) = oneshot::channel::<()>();
    let supervisor = Supervisor::new().drain_timeout(Duration::ZERO).once("blocks", move |_| async move {
        drop(starts);
        // Until the test has its answer.
        let _ = blocked.recv();
        Ok::<_, Infallible>(())
    });
    let error = supervisor.run_until(started).await.unwrap_err();
    drop(blocks);
    assert_eq!((error.kind(), error.parts().next()), (SupervisorErrorKind::DrainTimeout, Some("blocks")));
}

/// Rules: J-262.
#[tokio::test(start_paused = true)]
async fn a_dropped_supervisor_aborts_its_parts() {
    let queue = queue_with_lock(60);
    fill(&queue, 2).await;
    let hanging = queue.clone();
    let supervisor = Supervisor::new().consumer("hangs", move || {
        Consumer::new(hanging.receiver(), service_fn(|_: Message| pending::<Result<Disposition, Infallible>>()))
    });
    assert!(tokio::time::timeout(seconds(1), supervisor.run()).await.is_err());
    within(1, until(|| queue.counts().locked == 0)).await;
}

/// Rules: J-262.
#[tokio::test(start_paused = true)]
async fn a_cancellation_token_is_a_shutdown() {
    let token = tokio_util::sync::CancellationToken::new();
    let supervisor = Supervisor::new().part("part", |part| async move {
        let shutdown = part.shutdown();
        assert!(!shutdown.has_begun());
        shutdown.clone().await;
        assert!(shutdown.has_begun());
        Ok::<_, Infallible>(())
    });
    let run = tokio::spawn(supervisor.run_until(token.clone().cancelled_owned()));
    sleep(seconds(1)).await;
    assert!(!run.is_finished());
    token.cancel();
    within(1, run).await.unwrap().unwrap();
}

/// Rules: J-264.
#[cfg(all(feature = "signal", unix))]
#[tokio::test]
async fn a_signal_drains_and_a_second_one_aborts() {
    let signal = |name: &str| {
        let id = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args([name, &id]).status().unwrap().success());
    };
    let supervisor = Supervisor::new().part("deaf", |_| pending::<Result<(), Infallible>>());
    let health = supervisor.health();
    let run = tokio::spawn(supervisor.run_until_signal());
    let is = |state| {
        let health = health.clone();
        until(move || health.part("deaf").unwrap().state == state)
    };
    is(PartState::Running).await;
    signal("-TERM");
    is(PartState::Draining).await;
    signal("-INT");
    let error = run.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.parts().next()), (SupervisorErrorKind::DrainTimeout, Some("deaf")));
}

/// Rules: J-264.
#[cfg(all(feature = "signal", unix))]
#[tokio::test]
async fn a_signal_aborts_a_drain_that_a_failed_part_has_begun() {
    let (fail, failed) = oneshot::channel::<()>();
    let supervisor =
        Supervisor::new().part("deaf", |_| pending::<Result<(), Infallible>>()).once("failing", |_| async {
            failed.await.unwrap();
            Err::<(), BoxError>("broken".into())
        });
    let health = supervisor.health();
    let run = tokio::spawn(supervisor.run_until_signal());
    let is = |state| {
        let health = health.clone();
        until(move || health.part("deaf").unwrap().state == state)
    };
    is(PartState::Running).await;
    fail.send(()).unwrap();
    is(PartState::Draining).await;
    let id = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let error = within(20, run).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.parts().collect::<Vec<_>>()), (SupervisorErrorKind::PartFailed, vec!["failing"]));
    assert_eq!(health.part("deaf").unwrap().state, PartState::Aborted);
}

/// Rules: J-260.
#[tokio::test(start_paused = true)]
async fn a_shutdown_before_the_start_starts_nothing() {
    let starts = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&starts);
    let supervisor = Supervisor::new().consumer("first", move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Consumer::new(queue_with_lock(60).receiver(), complete)
    });
    let health = supervisor.health();
    supervisor.run_until(std::future::ready(())).await.unwrap();
    assert_eq!((health.part("first").unwrap().state, starts.load(Ordering::Relaxed)), (PartState::Ended, 0));
}

/// Its first receive panics if `panics` is set.
struct PanicsOnce {
    panics: Arc<AtomicBool>,
    receiver: FakeReceiver,
}

impl AsyncReceiver for PanicsOnce {
    type Lease = FakeLease;

    async fn receive(&mut self, max: usize, _: Stop) -> Result<Vec<Delivery<FakeLease>>, ReceiveError> {
        if self.panics.swap(false, Ordering::Relaxed) {
            panic_on_purpose();
        }
        self.receiver.receive_batch(max).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_is_not_called_a_handler() {
    hush();
    let in_the_closure = |_| -> Ready<Result<(), BoxError>> { panic_on_purpose() };
    let in_the_task = async |_| -> Result<(), BoxError> { panic_on_purpose() };
    for supervisor in [Supervisor::new().once("part", in_the_closure), Supervisor::new().once("part", in_the_task)] {
        let health = supervisor.health();
        within(60, supervisor.run()).await.unwrap_err();
        assert_eq!(health.part("part").unwrap().last_error.as_deref(), Some("the part panicked: on purpose"));
    }
}

/// Rules: J-261.
#[tokio::test(start_paused = true)]
async fn a_consumer_whose_receiver_has_panicked_is_restarted_with_another_one() {
    hush();
    let (fake, panics) = (Fake::new([Step::Deliver(Script::default())]), Arc::new(AtomicBool::new(true)));
    let supervisor = Supervisor::new().consumer("orders", move || {
        let receiver = PanicsOnce { panics: Arc::clone(&panics), receiver: fake.receiver() };
        Consumer::new(FromAsync::new(receiver), complete)
    });
    let health = supervisor.health();
    let run = tokio::spawn(supervisor.run_until(pending::<()>()));
    sleep(seconds(60)).await;
    let part = health.part("orders").unwrap();
    assert_eq!((part.state, part.restarts, part.consumer.unwrap().completed), (PartState::Running, 1, 1));
    run.abort();
}
