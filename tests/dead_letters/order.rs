//! Dead letters that are received in another order than that of their numbers, and what a run receives beyond what it needs.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use consign::{
    Message,
    broker::{Queue, QueueLease, QueueReceiver},
    dead_letters::{DeadLetterFilter, DeadLetterQueue, DeadLetters},
    message::SequenceNumber,
    transport::{Delivery, ReceiveError, Receiver, Sender},
};
use tokio::time::sleep;

use crate::support::{Bench, OTHER, UNDECODABLE, sending};

/// A queue without the order of released messages: what is available together is received in reverse.
struct Reversed(Queue);

struct ReversedReceiver(QueueReceiver);

impl DeadLetterQueue for Reversed {
    type Receiver = ReversedReceiver;

    async fn receiver(&self) -> Result<ReversedReceiver, ReceiveError> {
        Ok(ReversedReceiver(self.0.receiver()))
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        Ok(self.0.peek(from, max))
    }
}

impl Receiver for ReversedReceiver {
    type Lease = QueueLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<QueueLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let before = out.len();
        let received = ready!(self.0.poll_receive(cx, max, out))?;
        out[before..].reverse();
        Poll::Ready(Ok(received))
    }
}

/// Rules: L-14, L-17.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_comes_behind_later_ones_is_handled() {
    let bench = Bench::new();
    bench.bury_many(0, 1, &UNDECODABLE).await;
    bench.bury_many(1, 5, &OTHER).await;
    let dead = DeadLetters::new(Reversed(bench.queue.dead_letter()));
    let only = DeadLetterFilter::all().reason("DeserializationFailed");
    let report = dead.purge(only).run().await.unwrap();
    assert_eq!((report.matching, report.purged), (1, 1));
    let counts = bench.queue.dead_letter().counts();
    assert_eq!((counts.active, counts.locked), (5, 0));
}

/// Rules: L-14.
///
/// What a request locks besides, another receiver would wait for.
#[tokio::test(start_paused = true)]
async fn a_run_receives_nothing_while_the_last_that_matches_is_in_flight() {
    let bench = Bench::new();
    bench.bury_many(0, 1, &UNDECODABLE).await;
    bench.bury_many(1, 5, &OTHER).await;
    let (dead, sender) = (bench.queue.dead_letter(), bench.queue.sender().unwrap());
    let locked = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&locked);
    let slow = sending(move |message| {
        let (sent, dead, seen) = (sender.send(message), dead.clone(), Arc::clone(&seen));
        Box::pin(async move {
            sleep(Duration::from_secs(1)).await;
            *seen.lock().unwrap() = Some(dead.counts().locked);
            sent.await
        })
    });
    let only = DeadLetterFilter::all().reason("DeserializationFailed");
    let dead = bench.dead();
    let report = dead.resubmit(only, slow).concurrency(2).run().await.unwrap();
    assert_eq!(report.resubmitted, 1);
    assert_eq!(*locked.lock().unwrap(), Some(2), "the first receive has locked two");
}
