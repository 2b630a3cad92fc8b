//! tower's own layers around ours, and the other way round: each does what it does elsewhere.

use std::{
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::{
        catch_panic::CatchPanicLayer, dead_letter::DeadLetterLayer, in_flight::InFlightLayer,
        message_id::MessageIdLayer, size_limit::SizeLimitLayer,
    },
    settlement::{DeadLetter, DeadLetterReason},
    transport::{ErrorKind, SendError, SendService},
};
use tokio::time::{Instant, sleep};
use tower::{
    BoxError, ServiceBuilder, ServiceExt,
    load_shed::error::Overloaded,
    retry::{Policy, RetryLayer},
    service_fn,
    timeout::error::Elapsed,
};

use super::support::{Broker, message};

const SECOND: Duration = Duration::from_secs(1);

/// A handler that takes a second, and the highest number of calls at a time.
fn handler() -> (
    impl tower::Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send,
    Arc<AtomicUsize>,
) {
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&peak);
    let service = service_fn(move |_: Message| {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            sleep(SECOND).await;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok(Disposition::Complete)
        }
    });
    (service, seen)
}

#[tokio::test(start_paused = true)]
async fn timeout_drops_the_handler_half_way_and_can_be_classified() {
    let slow = |error: &BoxError| {
        error.is::<Elapsed>().then(|| DeadLetter::new(DeadLetterReason::Application("TooSlow".into()), ""))
    };
    let finished = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&finished);
    let stack = ServiceBuilder::new()
        .layer(DeadLetterLayer::new().classify(slow))
        .timeout(SECOND / 2)
        .layer(CatchPanicLayer::new())
        .service(service_fn(move |_: Message| {
            let finished = Arc::clone(&counted);
            async move {
                sleep(SECOND).await;
                finished.fetch_add(1, Ordering::Relaxed);
                Ok::<_, BoxError>(Disposition::Complete)
            }
        }));
    let Disposition::DeadLetter(letter) = stack.oneshot(message("m")).await.unwrap() else { panic!("dead letter") };
    assert_eq!(letter.reason.as_str(), "TooSlow");
    sleep(SECOND).await;
    assert_eq!(finished.load(Ordering::Relaxed), 0);
}

/// Rules: X-13.
#[tokio::test(start_paused = true)]
async fn a_send_that_times_out_has_an_unknown_outcome_and_frees_its_permit() {
    let (broker, bound) = (Broker::default(), InFlightLayer::new(1));
    let stack = ServiceBuilder::new()
        .layer(MessageIdLayer::new())
        .timeout(SECOND)
        .layer(SizeLimitLayer::default())
        .layer(&bound)
        .service(SendService::new(broker.clone()));
    let error = stack.oneshot(message("m")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout);
    assert!(error.is_outcome_unknown() && error.is_retryable(), "{error}");
    assert!(std::error::Error::source(&error).unwrap().is::<Elapsed>());
    assert_eq!((broker.transfers(), bound.available()), (1, 1));
}

/// Rules: I-36.
#[tokio::test(start_paused = true)]
async fn concurrency_limit_holds_across_clones() {
    let (handler, peak) = handler();
    let start = Instant::now();
    let stack = ServiceBuilder::new()
        .layer(DeadLetterLayer::new())
        .concurrency_limit(2)
        .layer(CatchPanicLayer::new())
        .service(handler);
    let calls: Vec<_> = (0..6).map(|_| tokio::spawn(stack.clone().oneshot(message("m")))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), Disposition::Complete);
    }
    assert_eq!((peak.load(Ordering::Relaxed), start.elapsed()), (2, 3 * SECOND));
}

/// Rules: I-36.
#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_inside_the_in_flight_bound_is_not_starved() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let stack = ServiceBuilder::new().layer(InFlightLayer::new(4)).concurrency_limit(1).service(service_fn(
        move |_: Message| {
            let sent = Arc::clone(&counted);
            async move {
                sleep(SECOND).await;
                sent.fetch_add(1, Ordering::Relaxed);
                Ok::<_, SendError>(())
            }
        },
    ));
    let mut idle: Vec<_> = (0..4).map(|_| stack.clone()).collect();
    for clone in &mut idle {
        clone.ready().await.unwrap();
    }
    for send in (0..8).map(|_| tokio::spawn(stack.clone().oneshot(message("m")))).collect::<Vec<_>>() {
        send.await.unwrap().unwrap();
    }
    assert_eq!(sent.load(Ordering::Relaxed), 8);
}

#[derive(Clone)]
struct Times(usize);

impl<T, E> Policy<Message, T, E> for Times {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Message, result: &mut Result<T, E>) -> Option<Ready<()>> {
        self.0 = self.0.checked_sub(1)?;
        result.is_err().then(|| ready(()))
    }

    fn clone_request(&mut self, request: &Message) -> Option<Message> {
        Some(request.clone())
    }
}

#[tokio::test]
async fn retry_repeats_a_handler_that_failed_or_panicked() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let stack = ServiceBuilder::new()
        .layer(DeadLetterLayer::new())
        .layer(RetryLayer::new(Times(3)))
        .layer(CatchPanicLayer::new())
        .service(service_fn(move |_: Message| {
            let attempt = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_ne!(attempt, 0);
                if attempt == 1 { Err(BoxError::from("again")) } else { Ok(Disposition::Complete) }
            }
        }));
    assert_eq!(stack.oneshot(message("m")).await.unwrap(), Disposition::Complete);
    assert_eq!(attempts.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn retry_of_a_send_holds_one_permit_at_a_time() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let bound = InFlightLayer::new(1);
    let stack =
        ServiceBuilder::new().layer(MessageIdLayer::new()).layer(RetryLayer::new(Times(5))).layer(&bound).service(
            service_fn(move |_: Message| {
                let attempt = counted.fetch_add(1, Ordering::Relaxed);
                async move { if attempt < 2 { Err(SendError::new(ErrorKind::ServiceBusy)) } else { Ok(()) } }
            }),
        );
    tokio::time::timeout(SECOND, stack.oneshot(message("m"))).await.expect("no deadlock").unwrap();
    assert_eq!((attempts.load(Ordering::Relaxed), bound.available()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn buffer_passes_dispositions_and_our_errors_through() {
    let (handler, _) = handler();
    let stack =
        ServiceBuilder::new().layer(DeadLetterLayer::new()).buffer(4).layer(CatchPanicLayer::new()).service(handler);
    for call in (0..8).map(|_| tokio::spawn(stack.clone().oneshot(message("m")))).collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().unwrap(), Disposition::Complete);
    }

    let broker = Broker::default();
    let sender = ServiceBuilder::new()
        .layer(MessageIdLayer::new())
        .buffer(4)
        .layer(SizeLimitLayer::new(1))
        .service(SendService::new(broker.clone()));
    let error = sender.oneshot(message("too large")).await.unwrap_err();
    assert_eq!((error.kind(), broker.transfers()), (ErrorKind::MessageSizeExceeded, 0));
}

#[tokio::test(start_paused = true)]
async fn load_shed_refuses_what_a_limit_cannot_take_at_once() {
    let (handler, _) = handler();
    let stack = ServiceBuilder::new()
        .layer(DeadLetterLayer::new())
        .load_shed()
        .concurrency_limit(1)
        .layer(CatchPanicLayer::new())
        .service(handler);
    let first = tokio::spawn(stack.clone().oneshot(message("m")));
    tokio::task::yield_now().await;
    let error = stack.oneshot(message("m")).await.unwrap_err();
    assert!(error.is::<Overloaded>(), "{error}");
    assert_eq!(first.await.unwrap().unwrap(), Disposition::Complete);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_spreads_calls_over_time() {
    let start = Instant::now();
    let mut stack = ServiceBuilder::new()
        .layer(DeadLetterLayer::new())
        .rate_limit(2, SECOND)
        .layer(CatchPanicLayer::new())
        .service(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    for _ in 0..5 {
        stack.ready().await.unwrap();
        tower::Service::call(&mut stack, message("m")).await.unwrap();
    }
    assert!((2 * SECOND..3 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());

    let start = Instant::now();
    let sender = ServiceBuilder::new()
        .layer(MessageIdLayer::new())
        .buffer(8)
        .rate_limit(2, SECOND)
        .layer(InFlightLayer::default())
        .service(service_fn(|_: Message| async { Ok::<_, SendError>(()) }));
    for send in (0..5).map(|_| tokio::spawn(sender.clone().oneshot(message("m")))).collect::<Vec<_>>() {
        send.await.unwrap().unwrap();
    }
    assert!((2 * SECOND..3 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
}
