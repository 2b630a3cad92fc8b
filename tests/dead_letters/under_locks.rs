//! Lists of messages under their locks, which the program `consign` and its web UI use.

use std::{
    future::{pending, ready},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Message,
    broker::{QueueLease, QueueReceiver},
    dead_letters::{Ended, UnderLocks},
    testing::TestQueue,
    transport::{Delivery, ReceiveError, Receiver, ReceiverExt},
};
use tokio::time::{Sleep, sleep, timeout};

use crate::support::Bench;

const OPERATION: Duration = Duration::from_secs(60);

/// A receiver that pauses before one of its messages, and counts the locks when it is stopped.
struct Pausing {
    queue: TestQueue,
    receiver: QueueReceiver,
    left: usize,
    pause: Pin<Box<Sleep>>,
    locked_at_stop: Arc<AtomicUsize>,
}

impl Receiver for Pausing {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        if self.left == 0 && !self.pause.is_elapsed() {
            std::task::ready!(self.pause.as_mut().poll(cx));
        }
        let most = if self.left == 0 { max } else { max.min(self.left) };
        let received = std::task::ready!(self.receiver.poll_receive(cx, most, out))?;
        self.left = self.left.saturating_sub(received);
        Poll::Ready(Ok(received))
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<()> {
        self.locked_at_stop.store(self.queue.counts().locked, Ordering::Relaxed);
        Poll::Ready(())
    }
}

/// A queue of messages, and a receiver that pauses for so long before the one with this index.
fn paused(count: usize, before: usize, pause: Duration) -> (TestQueue, Pausing) {
    let queue = Bench::new().queue;
    for _ in 0..count {
        queue.send_message(Message::new(""));
    }
    let receiver = Pausing {
        receiver: queue.receiver(),
        left: before,
        pause: Box::pin(sleep(pause)),
        locked_at_stop: Arc::default(),
        queue: queue.clone(),
    };
    (queue, receiver)
}

fn expecting(expected: Option<usize>) -> UnderLocks {
    UnderLocks { operation: OPERATION, expected }
}

/// No delivery has counted.
async fn assert_uncounted(queue: &TestQueue, count: usize) {
    assert_eq!((queue.counts().active, queue.counts().locked), (count, 0));
    for delivery in queue.receiver().receive_batch(count).await.unwrap() {
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_dropped_counts_no_delivery() {
    let (queue, receiver) = paused(3, 3, OPERATION);
    let mut each = |_| 10;
    let list = expecting(None).list(receiver, 10, pending(), &mut each);
    assert!(timeout(Duration::from_millis(500), list).await.is_err());
    assert_uncounted(&queue, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_ends_within_a_batch_counts_no_delivery() {
    let (queue, receiver) = paused(5, 5, Duration::ZERO);
    let mut seen = 0;
    let mut each = |_| {
        seen += 1;
        if seen < 2 { 10 } else { 0 }
    };
    let ended = expecting(None).list(receiver, 10, pending(), &mut each).await.unwrap();
    assert_eq!((ended, seen), (Ended::Enough, 2));
    assert_uncounted(&queue, 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_has_stopped_before_its_messages_are_released() {
    let (queue, receiver) = paused(3, 3, Duration::ZERO);
    let locked_at_stop = Arc::clone(&receiver.locked_at_stop);
    expecting(None).list(receiver, 10, pending(), &mut |_| 10).await.unwrap();
    assert_eq!(locked_at_stop.load(Ordering::Relaxed), 3);
    assert_uncounted(&queue, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_stopped_releases_and_ends() {
    let (queue, receiver) = paused(3, 3, OPERATION);
    let ended = expecting(None).list(receiver, 10, sleep(Duration::from_millis(500)), &mut |_| 10).await;
    assert_eq!(ended.unwrap(), Ended::Enough);
    assert_uncounted(&queue, 3).await;
    let (_, receiver) = paused(3, 0, Duration::ZERO);
    let ended = expecting(None).list(receiver, 10, ready(()), &mut |_| panic!("it is stopped")).await;
    assert_eq!(ended.unwrap(), Ended::Enough);
}

#[tokio::test(start_paused = true)]
async fn what_the_broker_has_counted_is_awaited_for_longer() {
    for (expected, before, seen_in_the_end) in [(Some(3), 2, 3), (Some(2), 2, 2), (None, 2, 2), (None, 0, 3)] {
        let (_, receiver) = paused(3, before, Duration::from_secs(3));
        let mut seen = 0;
        let mut each = |_| {
            seen += 1;
            10
        };
        let ended = expecting(expected).list(receiver, 10, pending(), &mut each).await.unwrap();
        assert_eq!((ended, seen), (Ended::Silent, seen_in_the_end), "{expected:?}, {before}");
    }
}
