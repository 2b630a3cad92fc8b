use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::{
        lock_renewal::{LockLost, LockRenewalLayer, Renew},
        renewal::Renewal,
    },
    time::{Clock, SystemClock, Timestamp},
    transport::{ErrorKind, SettleError},
};
use tokio::time::{Instant, sleep};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_test::mock;

use super::support::{Boxed, message, received};

const LOCK: Duration = Duration::from_secs(60);

/// Writes down when it is asked, and answers what it is told.
#[derive(Clone)]
struct Client {
    start: Instant,
    asked: Arc<Mutex<Vec<u64>>>,
    answer: fn(usize) -> Boxed<(), SettleError>,
}

impl Client {
    fn answering(answer: fn(usize) -> Boxed<(), SettleError>) -> Self {
        Self { start: Instant::now(), asked: Arc::default(), answer }
    }

    fn asked(&self) -> Vec<u64> {
        self.asked.lock().unwrap().clone()
    }
}

impl Renew for Client {
    type Future = Boxed<(), SettleError>;

    fn renew(&self, _: &Message) -> Self::Future {
        let mut asked = self.asked.lock().unwrap();
        asked.push(self.start.elapsed().as_secs());
        (self.answer)(asked.len())
    }
}

fn renewed(_: usize) -> Boxed<(), SettleError> {
    Box::pin(async { Ok(()) })
}

fn failed(kind: ErrorKind) -> Boxed<(), SettleError> {
    Box::pin(async move { Err(SettleError::new(kind)) })
}

/// Handles `message` for `seconds`, and answers with what came of it and after how many seconds.
async fn handle(
    client: &Client,
    policy: Renewal,
    message: Message,
    seconds: u64,
) -> (Result<Disposition, BoxError>, u64) {
    let start = Instant::now();
    let stack = LockRenewalLayer::new(client.clone(), policy).layer(service_fn(move |_: Message| async move {
        sleep(Duration::from_secs(seconds)).await;
        Ok::<_, BoxError>(Disposition::Complete)
    }));
    (stack.oneshot(message).await, start.elapsed().as_secs())
}

/// Rules: S-58.
#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_at_half_of_it_for_as_long_as_the_handler_runs() {
    let client = Client::answering(renewed);
    let (result, took) = handle(&client, Renewal::new(LOCK), message("m"), 100).await;
    assert_eq!((result.unwrap(), took), (Disposition::Complete, 100));
    assert_eq!(client.asked(), [30, 60, 90]);
}

/// Rules: S-58.
/// Attacks: 72.
#[tokio::test(start_paused = true)]
async fn renewal_stops_after_the_total_and_the_handler_runs_on() {
    let client = Client::answering(renewed);
    let (result, took) = handle(&client, Renewal::new(LOCK), message("m"), 1_000).await;
    assert_eq!((result.unwrap(), took), (Disposition::Complete, 1_000));
    assert_eq!(client.asked().last(), Some(&300));
}

/// Rules: S-58.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_done_in_time_is_not_renewed() {
    let client = Client::answering(renewed);
    for seconds in [0, 29] {
        handle(&client, Renewal::new(LOCK), message("m"), seconds).await.0.unwrap();
    }
    assert!(client.asked().is_empty(), "{:?}", client.asked());
}

/// Rules: S-57.
#[tokio::test(start_paused = true)]
async fn a_slow_renewal_holds_from_when_it_was_requested() {
    let client = Client::answering(|_| {
        Box::pin(async {
            sleep(Duration::from_secs(10)).await;
            Ok(())
        })
    });
    handle(&client, Renewal::new(LOCK), message("m"), 100).await.0.unwrap();
    assert_eq!(client.asked(), [30, 60, 90]);
}

/// Rules: S-60.
#[tokio::test(start_paused = true)]
async fn a_lock_that_has_been_running_is_renewed_sooner() {
    let client = Client::answering(renewed);
    let now = SystemClock::new().now().utc;
    // The layer reads UTC for itself when it is made. What passes until then, up to half a second, changes no whole second.
    let waited = received(Some(now.saturating_add(Duration::from_millis(40_500))), now);
    handle(&client, Renewal::new(LOCK), waited, 50).await.0.unwrap();
    assert_eq!(client.asked(), [10, 40]);

    // By this process's clock the lock is over, but only the broker knows.
    let client = Client::answering(renewed);
    handle(&client, Renewal::new(LOCK), received(Some(Timestamp::EPOCH), now), 20).await.0.unwrap();
    assert_eq!(client.asked(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_lock_is_not_renewed() {
    let client = Client::answering(|_| failed(ErrorKind::MessageLockLost));
    let now = SystemClock::new().now().utc;
    handle(&client, Renewal::new(LOCK), received(None, now), 100).await.0.unwrap();
    assert!(client.asked().is_empty(), "{:?}", client.asked());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_drops_the_handler_at_once() {
    struct OnDrop(Arc<AtomicBool>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let start = Instant::now();
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = Arc::clone(&dropped);
    let client = Client::answering(|_| failed(ErrorKind::MessageLockLost));
    let mut stack = LockRenewalLayer::new(client, Renewal::new(LOCK)).layer(service_fn(move |_: Message| {
        let guard = OnDrop(Arc::clone(&guard));
        async move {
            let _guard = guard;
            pending::<Result<Disposition, BoxError>>().await
        }
    }));
    let mut call = Box::pin(stack.call(message("m")));
    let error = call.as_mut().await.unwrap_err();
    assert!(dropped.load(Ordering::Relaxed), "while the future of the call still lives");
    assert_eq!(start.elapsed().as_secs(), 30);
    let lost = error.downcast::<LockLost>().unwrap();
    let cause = std::error::Error::source(&*lost).and_then(|source| source.downcast_ref::<SettleError>()).unwrap();
    assert!(cause.is_lock_lost());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_for_now_is_repeated() {
    let client = Client::answering(|attempt| match attempt {
        1 | 2 => failed(ErrorKind::ServiceBusy),
        _ => Box::pin(async { Ok(()) }),
    });
    let (result, _) = handle(&client, Renewal::new(LOCK), message("m"), 100).await;
    result.unwrap();
    // After half of what is left each time, and then at half of the lock that was renewed at 52.5 s.
    assert_eq!(client.asked(), [30, 45, 52, 82]);
}

/// Rules: S-58.
#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_not_repeated_after_the_total_and_the_handler_runs_on() {
    let client = Client::answering(|_| failed(ErrorKind::ServiceBusy));
    let policy = Renewal::new(LOCK).total(Duration::from_secs(40));
    let (result, took) = handle(&client, policy, message("m"), 100).await;
    assert_eq!((result.unwrap(), took, client.asked()), (Disposition::Complete, 100, vec![30]));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_renews_is_lost_when_it_runs_out() {
    let client = Client::answering(|_| failed(ErrorKind::CommunicationProblem));
    let (result, took) = handle(&client, Renewal::new(LOCK), message("m"), 100).await;
    assert!(result.unwrap_err().is::<LockLost>());
    assert_eq!(took, 60);
    assert!(client.asked().len() <= 6, "{:?}", client.asked());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_a_lost_lock_when_it_runs_out() {
    let client = Client::answering(|_| Box::pin(pending()));
    let (result, took) = handle(&client, Renewal::new(LOCK), message("m"), 100).await;
    assert!(result.unwrap_err().is::<LockLost>());
    assert_eq!((took, client.asked()), (60, vec![30]));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_done_with_the_lock_lost_in_the_same_instant_has_its_say() {
    let client = Client::answering(|_| failed(ErrorKind::MessageLockLost));
    let (result, _) = handle(&client, Renewal::new(LOCK), message("m"), 30).await;
    assert_eq!(result.unwrap(), Disposition::Complete);
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_the_inner_service_is_passed_on() {
    let layer = LockRenewalLayer::new(Client::answering(renewed), Renewal::new(LOCK));
    let (mut stack, mut handle) = mock::spawn_layer::<Message, Disposition, _>(layer);
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut call = task::spawn(stack.call(message("m")));
    assert_pending!(call.poll());
    handle.next_request().await.unwrap().1.send_response(Disposition::DEFER);
    assert!(call.is_woken());
    assert_eq!(assert_ready_ok!(call.poll()), Disposition::DEFER);
}
