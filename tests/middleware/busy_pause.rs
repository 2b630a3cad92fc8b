use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    middleware::busy_pause::BusyPauseLayer,
    time::Timestamp,
    transport::{
        AsyncReceiver, BoxFuture, Delivery, ErrorKind, FromAsync, Lease, ReceiveError, ReceiverExt, SendError, SendExt,
        SendService, Sender, SettleError, Stop,
    },
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, task};
use tower::{Layer, Service, ServiceExt, limit::GlobalConcurrencyLimitLayer};
use tower_test::mock;

use super::support::{Broker, message};

const PAUSE: Duration = Duration::from_secs(10);
const ALMOST: Duration = Duration::from_millis(9_999);
const MS: Duration = Duration::from_millis(1);

type Pausing = <BusyPauseLayer as Layer<SendService<Broker>>>::Service;

fn stack() -> (Broker, BusyPauseLayer, Pausing) {
    let (broker, layer) = (Broker::default(), BusyPauseLayer::new());
    (broker.clone(), layer.clone(), layer.layer(SendService::new(broker)))
}

/// Sends, and the broker answers the transfer at once.
fn answered(broker: &Broker, stack: &mut Pausing, kind: ErrorKind) {
    let mut send = task::spawn(stack.call(message("m")));
    assert_pending!(send.poll());
    broker.answer(broker.transfers() - 1, Err(SendError::new(kind)));
    assert_eq!(assert_ready_err!(send.poll()).kind(), kind);
}

/// Rules: X-14.
#[tokio::test(start_paused = true)]
async fn after_busy_every_clone_waits_for_ten_seconds() {
    let (broker, layer, mut stack) = stack();
    let mut clone = stack.clone();
    let mut of_the_same_layer = layer.layer(SendService::new(broker.clone()));
    let mut under_way = task::spawn(clone.call(message("m")));
    assert_pending!(under_way.poll());

    answered(&broker, &mut stack, ErrorKind::ServiceBusy);
    assert!(layer.is_paused());
    let mut waiting: Vec<_> =
        [&mut stack, &mut clone, &mut of_the_same_layer].map(|stack| task::spawn(stack.call(message("m")))).into();
    sleep(ALMOST).await;
    for send in &mut waiting {
        assert_pending!(send.poll());
    }
    assert_eq!(broker.transfers(), 2);
    sleep(MS).await;
    assert!(!layer.is_paused());
    for send in &mut waiting {
        assert_pending!(send.poll());
    }
    assert_eq!(broker.transfers(), 5);
    broker.answer(0, Ok(()));
    assert_ready_ok!(under_way.poll());
}

/// Rules: X-14.
#[tokio::test(start_paused = true)]
async fn a_second_answer_of_the_kind_begins_the_pause_anew() {
    let (broker, _, mut stack) = stack();
    let mut under_way = task::spawn(stack.call(message("m")));
    assert_pending!(under_way.poll());
    answered(&broker, &mut stack, ErrorKind::ServiceBusy);
    let start = Instant::now();
    let mut waiting = task::spawn(stack.call(message("m")));
    assert_pending!(waiting.poll());
    sleep(PAUSE / 2).await;
    broker.answer(0, Err(SendError::new(ErrorKind::ServiceBusy)));
    assert_ready_err!(under_way.poll());

    sleep(ALMOST).await;
    assert_pending!(waiting.poll());
    assert_eq!(broker.transfers(), 2);
    sleep(MS).await;
    assert_pending!(waiting.poll());
    assert_eq!((broker.transfers(), start.elapsed()), (3, PAUSE * 3 / 2));
}

/// Rules: X-14.
#[tokio::test(start_paused = true)]
async fn other_errors_begin_no_pause() {
    let (broker, layer, mut stack) = stack();
    for kind in [ErrorKind::QuotaExceeded, ErrorKind::ServiceTimeout, ErrorKind::CommunicationProblem] {
        answered(&broker, &mut stack, kind);
        assert!(!layer.is_paused());
    }
    let other = BusyPauseLayer::new();
    answered(&broker, &mut stack, ErrorKind::ServiceBusy);
    assert!(layer.is_paused() && !other.is_paused(), "another client does not pause");
}

/// Rules: X-230.
/// Others may share the limit, and have a broker that is not busy.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_holds_no_place_in_the_stack_inside() {
    let (broker, layer) = (Broker::default(), BusyPauseLayer::new());
    let limit = Arc::new(Semaphore::new(1));
    let inside =
        GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&limit)).layer(SendService::new(broker.clone()));
    let mut stack = layer.layer(inside);
    let mut send = task::spawn(ServiceExt::<Message>::ready(&mut stack).await.unwrap().call(message("m")));
    assert_pending!(send.poll());
    broker.answer(0, Err(SendError::new(ErrorKind::ServiceBusy)));
    assert_ready_err!(send.poll());
    drop(send);

    let mut send = task::spawn(ServiceExt::<Message>::ready(&mut stack).await.unwrap().call(message("m")));
    assert_pending!(send.poll());
    let other = limit.try_acquire().expect("the call that waits holds the permit");
    sleep(PAUSE).await;
    assert_pending!(send.poll());
    assert_eq!(broker.transfers(), 1, "it waits for the permit");
    drop(other);
    assert_pending!(send.poll());
    broker.answer(1, Ok(()));
    assert_ready_ok!(send.poll());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_waits_sends_nothing() {
    let (broker, _, mut stack) = stack();
    answered(&broker, &mut stack, ErrorKind::ServiceBusy);
    drop(stack.call(message("m")));
    sleep(PAUSE).await;
    assert_eq!(broker.transfers(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_pause_can_be_set() {
    let broker = Broker::default();
    let layer = BusyPauseLayer::with_pause(3 * MS);
    answered(&broker, &mut layer.layer(SendService::new(broker.clone())), ErrorKind::ServiceBusy);
    sleep(2 * MS).await;
    assert!(layer.is_paused());
    sleep(MS).await;
    assert!(!layer.is_paused());
    let never = BusyPauseLayer::with_pause(Duration::ZERO);
    answered(&broker, &mut never.layer(SendService::new(broker.clone())), ErrorKind::ServiceBusy);
    assert!(!never.is_paused());
    let _ = BusyPauseLayer::with_pause(Duration::MAX);
}

#[tokio::test(start_paused = true)]
async fn the_instance_that_was_ready_is_called_after_the_pause() {
    let (mut stack, mut handle) = mock::spawn_layer::<Message, (), _>(BusyPauseLayer::new());
    handle.allow(2);
    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut busy = task::spawn(stack.call(message("busy")));
    assert_pending!(busy.poll());
    let (_, answer) = handle.next_request().await.unwrap();
    answer.send_error(SendError::new(ErrorKind::ServiceBusy));
    assert_ready_err!(busy.poll());

    assert_ready_ok!(stack.poll_ready::<Message>());
    let mut waiting = task::spawn(stack.call(message("waits")));
    assert_pending!(waiting.poll());
    assert_pending!(handle.poll_request());
    sleep(PAUSE).await;
    // The mock panics if this is another instance than the one that was ready.
    assert_pending!(waiting.poll());
    let (request, answer) = handle.next_request().await.unwrap();
    assert_eq!(request.subject(), Some("waits"));
    answer.send_response(());
    assert_ready_ok!(waiting.poll());
}

/// Answers that it is busy, and counts how often it was asked.
struct Busy(Arc<AtomicUsize>);

struct NoLease;

impl Lease for NoLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, _: Disposition) -> Self::Settle {
        Box::pin(async { Ok(()) })
    }

    fn release(self) -> Self::Settle {
        Box::pin(async { Ok(()) })
    }

    fn renew(&self) -> Self::Renew {
        Box::pin(async { Ok(Timestamp::MAX) })
    }

    fn lock_duration(&self) -> Option<Duration> {
        None
    }
}

impl AsyncReceiver for Busy {
    type Lease = NoLease;

    async fn receive(&mut self, _: usize, _: Stop) -> Result<Vec<Delivery<NoLease>>, ReceiveError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(ReceiveError::new(ErrorKind::ServiceBusy))
    }
}

/// Rules: X-14.
#[tokio::test(start_paused = true)]
async fn sends_and_receives_of_a_client_pause_together() {
    let (broker, layer, mut stack) = stack();
    let asked = Arc::new(AtomicUsize::new(0));
    let mut receiver = layer.receiver(FromAsync::new(Busy(Arc::clone(&asked))));
    let start = Instant::now();
    receiver.receive().await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    let mut send = task::spawn(stack.send(message("m")));
    assert_pending!(send.poll());
    assert_eq!(broker.transfers(), 0);
    receiver.receive().await.unwrap_err();
    assert_eq!((start.elapsed(), asked.load(Ordering::Relaxed)), (PAUSE, 2));
}

/// Rules: X-14.
#[tokio::test(start_paused = true)]
async fn a_message_does_not_wait_for_a_receiver_that_pauses() {
    let (broker, layer, mut stack) = stack();
    let queue = consign::broker::Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let (mut pausing, mut other) = (layer.receiver(queue.receiver()), queue.receiver());
    let mut first = task::spawn(pausing.receive());
    let mut second = task::spawn(other.receive());
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    answered(&broker, &mut stack, ErrorKind::ServiceBusy);
    queue.sender().unwrap().send(Message::new("a")).await.unwrap();
    assert!(first.is_woken() && !second.is_woken());
    assert_pending!(first.poll());
    assert!(second.is_woken());
    assert_ready_ok!(second.poll()).complete().await.unwrap();
}
