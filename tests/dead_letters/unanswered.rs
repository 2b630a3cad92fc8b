//! A transport that does not answer.

use std::{
    future::pending,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use consign::{
    Disposition, Message,
    broker::{Queue, QueueLease, QueueReceiver, QueueSettings},
    dead_letters::{ActionErrorKind, DeadLetterQueue, DeadLetters, Filter},
    message::SequenceNumber,
    time::Timestamp,
    transport::{BoxFuture, Delivery, ErrorKind, Lease, ReceiveError, Receiver, SendError, SettleError},
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Bench, OTHER, UNDECODABLE, sending};

const TIMEOUT: Duration = Duration::from_secs(5);

/// A dead-letter queue that does what it is told, and says nothing of it.
struct Silent(Queue);

struct SilentReceiver(QueueReceiver, Vec<Delivery<QueueLease>>);

struct SilentLease(QueueLease);

fn unanswered<T: 'static, F: Future + Send + 'static>(operation: F) -> BoxFuture<Result<T, SettleError>> {
    Box::pin(async {
        drop(operation.await);
        pending().await
    })
}

impl DeadLetterQueue for Silent {
    type Receiver = SilentReceiver;

    fn receiver(&self) -> SilentReceiver {
        SilentReceiver(self.0.receiver(), Vec::new())
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
    DeadLetters::new(Silent(bench.queue.dead_letter())).operation_timeout(TIMEOUT)
}

#[tokio::test(start_paused = true)]
async fn l_230_what_is_not_answered_is_a_failure_in_the_report() {
    let bench = Bench::new();
    bench.bury_many(0, 3, &OTHER).await;
    bench.bury_many(3, 2, &UNDECODABLE).await;
    let dead = silent(&bench);
    let started = Instant::now();
    let report = dead.purge(Filter::all().reason(OTHER.as_str())).run().await.unwrap();
    assert_eq!((report.matching, report.failures.len()), (3, 3));
    let kinds: Vec<_> = report.failures.iter().map(|failure| failure.error.kind()).collect();
    assert_eq!(kinds, [ActionErrorKind::Settle { copied: false }; 3]);
    // One operation timeout for the settlements, one for the releases of the two others, and what the run waits for more.
    assert!(started.elapsed() < 4 * TIMEOUT, "{:?}", started.elapsed());

    let never = sending(|_| Box::pin(pending()));
    let started = Instant::now();
    let report = bench.dead().operation_timeout(TIMEOUT).resubmit(Filter::all(), never).run().await.unwrap();
    assert_eq!((report.resubmitted, report.failures.len()), (0, 2));
    assert!(started.elapsed() < 2 * TIMEOUT, "{:?}", started.elapsed());
    let source = std::error::Error::source(&report.failures[0].error).unwrap();
    assert_eq!(source.downcast_ref::<SendError>().unwrap().kind(), ErrorKind::ServiceTimeout);
}

#[tokio::test(start_paused = true)]
async fn l_230_a_peek_that_is_not_answered_fails() {
    let error = silent(&Bench::new()).peek(&Filter::all(), SequenceNumber::new(u64::MAX), 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceTimeout);
}

/// Each renewal has its effect, and none is answered: the locks hold for as long as the run takes.
#[tokio::test(start_paused = true)]
async fn l_230_renewals_that_are_not_answered_do_not_stop_the_others() {
    let lock = Duration::from_secs(10);
    let bench = Bench::with(QueueSettings::default().with_lock_duration(lock));
    bench.bury_many(0, 2, &UNDECODABLE).await;
    bench.bury_many(2, 1, &OTHER).await;
    let slow = sending(|_| {
        Box::pin(async {
            sleep(Duration::from_secs(55)).await;
            Ok(())
        })
    });
    let dead = silent(&bench).operation_timeout(Duration::from_secs(60));
    let queue = bench.queue.dead_letter();
    let mut run = pin!(dead.resubmit(Filter::all().reason(OTHER.as_str()), slow).run());
    assert!(timeout(Duration::from_secs(50), run.as_mut()).await.is_err());
    assert_eq!(queue.counts().locked, 3);
}
