//! One pass over a dead-letter sub-queue.

mod browse;
mod fates;
mod finish;
mod held;
mod numbers;
mod pace;
mod pass;

use std::{fmt, future::poll_fn, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::timeout;

pub use self::browse::{Ended, UnderLocks};
use self::{browse::FIRST_ARRIVAL, finish::finish, held::Held, pace::Pace, pass::Pass};
pub(super) use self::{held::Kept, numbers::IdHash};
use super::{DeadLetterFilter, DeadLetterQueue, DeadLetters, Explained, Report, RunError, RunOutcome, action::Action};
use crate::{
    message::SequenceNumber,
    transport::{ReceiveError, Receiver, ReceiverExt},
};

/// An operation on all dead letters that pass a filter; see the [module](super).
#[must_use = "nothing is done until `run` is awaited"]
pub struct Run<'d, Q, A> {
    dead: &'d DeadLetters<Q>,
    filter: DeadLetterFilter,
    pub(super) action: A,
    concurrency: usize,
    max_held: usize,
    lock_wait: Duration,
    rate: Option<f64>,
    progress: Option<Progress<'d>>,
}

type Progress<'d> = Box<dyn FnMut(&Report) + Send + 'd>;

impl<'d, Q, A> Run<'d, Q, A> {
    pub(super) fn new(dead: &'d DeadLetters<Q>, filter: DeadLetterFilter, action: A) -> Self {
        let lock_wait = Duration::from_secs(1);
        Self { dead, filter, action, concurrency: 16, max_held: 16_384, lock_wait, rate: None, progress: None }
    }

    /// Sets how many are handled at once: 16 by default, at least 1. They begin in the order of their
    /// numbers.
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = most.max(1);
        self
    }

    /// Sets how many that stay are held at once: 16,384 by default, at least 1. A held one costs a lease, which is tens
    /// of bytes, and the renewal of its lock.
    pub fn max_held(mut self, most: usize) -> Self {
        self.max_held = most.max(1);
        self
    }

    /// Sets how long the run waits for dead letters that should be there and that others may have locked: 1 s unless set.
    /// On a transport without peek, the first dead letter is awaited for at least 5 s.
    pub fn lock_wait(mut self, lock_wait: Duration) -> Self {
        self.lock_wait = lock_wait;
        self
    }

    /// Sets how many are handled in a second at most: any number unless set. At least one an hour. Those that stay do not count.
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// Calls `progress` with the report so far, again and again. It must not block.
    pub fn on_progress(mut self, progress: impl FnMut(&Report) + Send + 'd) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl<Q, A> Run<'_, Q, A>
where
    Q: DeadLetterQueue,
    A: Action<<Q::Receiver as Receiver>::Lease>,
{
    /// Runs the operation, once over the queue.
    ///
    /// Errors: those of a peek or a receive, and [`InvalidOperation`](crate::transport::ErrorKind::InvalidOperation) if
    /// the queue is not a dead-letter sub-queue. A failure of one dead letter is in the report.
    ///
    /// Dropping the future loses nothing: what was not settled stays, and its lock is released. A copy that was in
    /// transit may have been accepted, see the [module](super). A dead letter whose removal was part of a transaction that was not
    /// committed is abandoned, which counts a delivery.
    pub async fn run(mut self) -> Result<Report, RunError> {
        let mut report = Report::default();
        let passed = if self.dead.queue.can_peek() {
            match last_matching(self.dead, &self.filter, &mut report).await {
                Ok(None) => Ok(()),
                Ok(Some(last)) => self.pass(Some(last), &mut report).await,
                Err(error) => Err(error),
            }
        } else {
            self.pass(None, &mut report).await
        };
        match passed {
            Ok(()) => Ok(report),
            Err(error) => {
                report.end = RunOutcome::Failed;
                Err(RunError::new(error, report))
            }
        }
    }

    async fn pass(&mut self, last: Option<SequenceNumber>, report: &mut Report) -> Result<(), ReceiveError> {
        let mut receiver = self.dead.queue.receiver().await?;
        let mut in_flight = FuturesUnordered::new();
        let operation = self.dead.operation;
        let mut pass = Pass::new(last, report, Held::new(operation, receiver.entity_info()));
        let mut pace = Pace::new(self.rate);
        let mut failed = None;
        // What was peeked is there. Without a peek, a first one that is slow to arrive would be taken for the end.
        let mut wait = if last.is_some() { self.lock_wait } else { self.lock_wait.max(FIRST_ARRIVAL) };
        loop {
            let free =
                pass.free_places(self.max_held, in_flight.len()).min(self.concurrency).saturating_sub(in_flight.len());
            if pass.is_over && in_flight.is_empty() {
                break;
            }
            let (most, permitted) = (pace.step().min(free).min(pass.most_received()), pace.permitted());
            let received = async {
                permitted.await;
                timeout(wait, receiver.receive_batch(most)).await
            };
            tokio::select! {
                biased;
                Some(finished) = in_flight.next() => pass.finished(finished),
                never = pass.held.keep() => match never {},
                received = received, if free > 0 && !pass.is_over => {
                    match received {
                        Ok(Ok(deliveries)) => {
                            wait = self.lock_wait;
                            let now = self.dead.clock.now().utc;
                            let before = in_flight.len();
                            for delivery in deliveries {
                                match pass.take(delivery, now, &self.filter, &self.action) {
                                    Ok(Some(begun)) => in_flight.push(finish(begun, operation)),
                                    Ok(None) => {}
                                    Err(error) => {
                                        pass.is_over = true;
                                        failed = Some(error);
                                    }
                                }
                            }
                            pace.took(in_flight.len() - before);
                        }
                        Ok(Err(error)) => {
                            pass.is_over = true;
                            failed = Some(error);
                        }
                        Err(_) => pass.is_over = in_flight.is_empty(),
                    }
                }
            }
            if let Some(progress) = &mut self.progress {
                progress(pass.report);
            }
        }
        // A broker delivers what is released to a receiver that still waits, and it returns behind the others.
        receiver.stop();
        tokio::select! {
            biased;
            never = pass.held.keep() => match never {},
            _ = timeout(operation, poll_fn(|cx| receiver.poll_stopped(cx))) => {}
        }
        pass.end().await;
        failed.map_or(Ok(()), Err)
    }
}

/// Counts what passes the filter, and answers the last of it. Nothing behind that is touched, the copies of this run that
/// die again among it.
async fn last_matching<Q: DeadLetterQueue>(
    dead: &DeadLetters<Q>,
    filter: &DeadLetterFilter,
    report: &mut Report,
) -> Result<Option<SequenceNumber>, ReceiveError> {
    let mut last = None;
    let mut next = Some(SequenceNumber::default());
    while let Some(from) = next {
        let count = &mut |dead: Explained| {
            if filter.matches(&dead) {
                report.matching += 1;
                last = last.max(Some(dead.sequence_number()));
            }
        };
        next = dead.page(from, count).await?;
    }
    Ok(last)
}

impl<Q, A> fmt::Debug for Run<'_, Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("filter", &self.filter)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// A run may be spawned.
#[cfg(feature = "embedded")]
const _: fn() = || {
    fn is_send(_: impl std::future::Future + Send) {}
    fn run<Q: DeadLetterQueue, A: Action<<Q::Receiver as Receiver>::Lease>>(run: Run<'_, Q, A>) {
        is_send(run.run());
    }
    let _ = run::<crate::broker::Queue, super::Purge>;
    let _ = run::<super::EntityDeadLetters, super::ResubmitTo>;
};
