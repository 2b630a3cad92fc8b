//! A transport without peek that takes long to deliver the first dead letter, or to end a receive.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Message,
    broker::{Queue, QueueLease, QueueReceiver},
    dead_letters::{DeadLetterFilter, DeadLetterQueue, DeadLetters},
    message::SequenceNumber,
    transport::{Delivery, ErrorKind, ReceiveError, Receiver},
};
use tokio::time::{Sleep, sleep};

use crate::support::{Bench, OTHER};

/// A dead-letter queue whose first delivery takes so long. It does not end a receive if it `hangs`.
struct Slow {
    queue: Queue,
    takes: Duration,
    hangs: bool,
}

struct SlowReceiver {
    queue: QueueReceiver,
    takes: Duration,
    first: Option<Pin<Box<Sleep>>>,
    hangs: bool,
}

impl DeadLetterQueue for Slow {
    type Receiver = SlowReceiver;

    async fn receiver(&self) -> Result<SlowReceiver, ReceiveError> {
        Ok(SlowReceiver { queue: self.queue.receiver(), takes: self.takes, first: None, hangs: self.hangs })
    }

    async fn peek(&self, _: SequenceNumber, _: usize) -> Result<Vec<Message>, ReceiveError> {
        Err(ReceiveError::new(ErrorKind::NotSupported))
    }

    fn can_peek(&self) -> bool {
        false
    }
}

impl Receiver for SlowReceiver {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let first = self.first.get_or_insert_with(|| Box::pin(sleep(self.takes)));
        if !first.is_elapsed() {
            std::task::ready!(first.as_mut().poll(cx));
        }
        self.queue.poll_receive(cx, max, out)
    }

    fn stop(&mut self) {
        self.queue.stop();
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.hangs { Poll::Pending } else { self.queue.poll_stopped(cx) }
    }
}

async fn slow(takes: Duration, hangs: bool) -> (Bench, DeadLetters<Slow>) {
    let bench = Bench::new();
    bench.bury_many(0, 3, &OTHER).await;
    let dead = DeadLetters::new(Slow { queue: bench.queue.dead_letter(), takes, hangs });
    (bench, dead)
}

#[tokio::test(start_paused = true)]
async fn a_first_dead_letter_that_is_slow_to_arrive_is_not_taken_for_the_end() {
    let (bench, dead) = slow(Duration::from_millis(1_200), false).await;
    let listed = dead.list(&DeadLetterFilter::all(), SequenceNumber::default(), 10).await.unwrap();
    assert_eq!(listed.len(), 3);
    let report = dead.purge(DeadLetterFilter::all()).run().await.unwrap();
    assert_eq!((report.purged, bench.queue.dead_letter().counts().active), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_silence_in_which_the_receive_does_not_end_either_is_an_error() {
    let (_bench, dead) = slow(Duration::from_secs(3_600), true).await;
    let error = dead.list(&DeadLetterFilter::all(), SequenceNumber::default(), 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout);
}
