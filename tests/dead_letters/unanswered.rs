//! A transport that does not answer.

use std::{
    future::pending,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Queue, QueueLease, QueueReceiver},
    dead_letters::{ActionError, ActionErrorKind, DeadLetterFilter, DeadLetterQueue, DeadLetters},
    message::SequenceNumber,
    time::Timestamp,
    transport::{BoxFuture, Delivery, ErrorKind, Lease, ReceiveError, Receiver, SendError, SettleError},
};
use tokio::time::{sleep, timeout};

use crate::support::{Bench, OTHER, UNDECODABLE, sending};

const TIMEOUT: Duration = Duration::from_secs(5);

/// A dead-letter queue that does what it is told, and says nothing of it.
struct Silent(Queue, Delivered);

/// The ids of what was delivered, in order.
type Delivered = Arc<Mutex<Vec<String>>>;

struct SilentReceiver(QueueReceiver, Vec<Delivery<QueueLease>>, Delivered);

struct SilentLease(QueueLease);

fn unanswered<T: 'static, F: Future + Send + 'static>(operation: F) -> BoxFuture<Result<T, SettleError>> {
    Box::pin(async {
        drop(operation.await);
        pending().await
    })
}

impl DeadLetterQueue for Silent {
    type Receiver = SilentReceiver;

    async fn receiver(&self) -> Result<SilentReceiver, ReceiveError> {
        Ok(SilentReceiver(self.0.receiver(), Vec::new(), Arc::clone(&self.1)))
    }

    async fn peek(&self, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        if from == SequenceNumber::new(u64::MAX) {
            pending::<()>().await;
        }
        Ok(self.0.peek(from, max))
    }
}

impl Receiver for SilentReceiver {
    type Lease = SilentLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<SilentLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let polled = self.0.poll_receive(cx, max, &mut self.1);
        let ids = self.1.iter().map(|it| it.message.message_id().unwrap().to_owned());
        self.2.lock().unwrap().extend(ids);
        out.extend(self.1.drain(..).map(|it| Delivery { message: it.message, lease: SilentLease(it.lease) }));
        polled
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

impl Lease for SilentLease {
    type Settle = BoxFuture<Result<(), SettleError>>;
    type Renew = BoxFuture<Result<Timestamp, SettleError>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        unanswered(self.0.settle(disposition))
    }

    fn release(self) -> Self::Settle {
        unanswered(self.0.release())
    }

    fn renew(&self) -> Self::Renew {
        unanswered(self.0.renew())
    }

    fn lock_duration(&self) -> Option<Duration> {
        self.0.lock_duration()
    }
}

fn silent(bench: &Bench) -> DeadLetters<Silent> {
    silent_to(bench, &Delivered::default())
}

fn silent_to(bench: &Bench, delivered: &Delivered) -> DeadLetters<Silent> {
    DeadLetters::new(Silent(bench.queue.dead_letter(), Arc::clone(delivered))).operation_timeout(TIMEOUT)
}

/// Rules: L-230.
#[tokio::test(start_paused = true)]
async fn an_unanswered_call_is_a_failure_in_the_report() {
    let bench = Bench::new();
    // The run holds what stays until its end.
    bench.bury_many(0, 2, &UNDECODABLE).await;
    bench.bury_many(2, 3, &OTHER).await;
    let dead = silent(&bench);
    // One operation timeout for the settlements, one for the releases of the two others, and what the run waits for more.
    let run = dead.purge(DeadLetterFilter::all().reason(OTHER.as_str())).run();
    let report = timeout(3 * TIMEOUT, run).await.expect("the run ends").unwrap();
    assert_eq!((report.matching, report.skipped, report.failures.len()), (3, 2, 3));
    let kinds: Vec<_> = report.failures.iter().map(ActionError::kind).collect();
    assert_eq!(kinds, [ActionErrorKind::Settle { copied: false }; 3]);
    let left = bench.queue.dead_letter().counts();
    assert_eq!((left.active, left.locked), (2, 0), "each release has its effect");

    let never = sending(|_| Box::pin(pending()));
    let dead = bench.dead().operation_timeout(TIMEOUT);
    let run = dead.resubmit(DeadLetterFilter::all(), never).run();
    let report = timeout(2 * TIMEOUT, run).await.expect("the run ends").unwrap();
    assert_eq!((report.resubmitted, report.failures.len()), (0, 2));
    let source = std::error::Error::source(&report.failures[0]).unwrap();
    assert_eq!(source.downcast_ref::<SendError>().unwrap().kind(), ErrorKind::ServiceTimeout);
}

/// Rules: L-230.
#[tokio::test(start_paused = true)]
async fn a_peek_that_is_not_answered_fails() {
    let (dead, all) = (silent(&Bench::new()), DeadLetterFilter::all());
    let peek = dead.list(&all, SequenceNumber::new(u64::MAX), 1);
    let error = timeout(2 * TIMEOUT, peek).await.expect("the peek ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout);
}

/// Rules: L-230.
/// Each renewal has its effect, and none is answered: the locks hold for as long as the run takes.
#[tokio::test(start_paused = true)]
async fn renewals_that_are_not_answered_do_not_stop_the_others() {
    let lock = Duration::from_secs(10);
    let bench = Bench::with(QueueSettings::default().lock_duration(lock));
    bench.bury_many(0, 2, &UNDECODABLE).await;
    bench.bury_many(2, 1, &OTHER).await;
    let slow = sending(|_| {
        Box::pin(async {
            sleep(Duration::from_secs(55)).await;
            Ok(())
        })
    });
    let delivered = Delivered::default();
    let dead = silent_to(&bench, &delivered).operation_timeout(Duration::from_secs(60));
    let queue = bench.queue.dead_letter();
    let mut run = pin!(dead.resubmit(DeadLetterFilter::all().reason(OTHER.as_str()), slow).run());
    assert!(timeout(Duration::from_secs(50), run.as_mut()).await.is_err());
    assert_eq!(queue.counts().locked, 3);
    // What has lost its lock is delivered again.
    assert_eq!(*delivered.lock().unwrap(), ["0", "1", "2"]);
}
