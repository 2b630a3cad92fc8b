//! The jobs of a connection, and the task that runs them: it settles dropped deliveries, keeps requests without a waiting receive,
//! and watches locks of last deliveries and the connection.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use consign_core::transport::{BoxFuture, SettleError};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use crate::{link::Watching, log, source::Source};

/// A job of the task.
pub(crate) enum Job {
    /// A settlement without a caller who waits, or that has its own way to answer.
    Settle(BoxFuture<()>),
    /// Messages may still arrive for a request without a waiting receive.
    Keep(BoxFuture<()>),
    /// The last delivery of a message: if its lock ends, the message is dead-lettered.
    Last(Instant, Weak<dyn LastLock>),
    /// Answers when all earlier jobs are done, except requests that are kept.
    Flush(oneshot::Sender<()>),
    /// Answers when all earlier jobs are done. The server does not withdraw a request: those that are still kept have [`LAST_CALL`] to
    /// release what arrives for them, such as messages that were released a moment ago.
    Close(oneshot::Sender<()>),
}

/// A place in the queue of jobs.
pub(crate) type JobPlace = mpsc::OwnedPermit<Job>;

/// A lock after which its message is dead-lettered.
pub(crate) trait LastLock: Send + Sync {
    fn until(&self) -> Instant;

    /// Ends the lock, for one caller. Returns `false` to all others.
    fn end(&self) -> bool;

    fn dead_letter(self: Arc<Self>) -> BoxFuture<()>;
}

impl Job {
    /// A settlement of what the application has dropped. `what` is the line if it fails.
    pub(crate) fn dropped(
        source: Arc<Source>,
        what: &'static str,
        settlement: impl Future<Output = Result<(), SettleError>> + Send + 'static,
    ) -> Self {
        Self::Settle(Box::pin(async move {
            if let Err(error) = settlement.await
                && !error.is_lock_lost()
            {
                log::failed(&source.settings.path, what, &error);
            }
        }))
    }
}

/// How long a connection that closes waits for requests that are kept. The server sends what is available at once.
const LAST_CALL: Duration = Duration::from_millis(200);

/// Jobs at once, besides requests that are kept. More wait in the queue.
const AT_ONCE: usize = 256;

type Running = FuturesUnordered<BoxFuture<()>>;

pub(crate) async fn run(mut jobs: mpsc::Receiver<Job>, watching: Watching) {
    let mut look_at = Instant::now() + Watching::EVERY;
    let (mut running, mut kept) = (Running::new(), Running::new());
    let mut last = Last::default();
    let mut flushes = Vec::new();
    let mut closes: Option<(Instant, oneshot::Sender<()>)> = None;
    loop {
        if running.is_empty() && jobs.is_empty() {
            for done in flushes.drain(..) {
                let _: Result<(), ()> = oneshot::Sender::send(done, ());
            }
            if let Some((_, done)) = closes.take_if(|(end, _)| kept.is_empty() || *end <= Instant::now()) {
                let _: Result<(), ()> = done.send(());
            }
        }
        let close_at = closes.as_ref().map(|(end, _)| *end).filter(|_| running.is_empty());
        let next = last.next();
        tokio::select! {
            biased;
            Some(()) = running.next(), if !running.is_empty() => {}
            Some(()) = kept.next(), if !kept.is_empty() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => last.end_due(&running),
            () = sleep_until(look_at) => {
                watching.look();
                look_at = Instant::now() + Watching::EVERY;
            }
            job = jobs.recv(), if running.len() < AT_ONCE => match job {
                None => break,
                Some(Job::Last(end, lock)) => last.insert(end, lock),
                Some(Job::Flush(done)) => flushes.push(done),
                Some(Job::Close(done)) => closes = Some((Instant::now() + LAST_CALL, done)),
                Some(Job::Keep(request)) => kept.push(request),
                Some(Job::Settle(settlement)) => running.push(settlement),
            },
            () = sleep_until(close_at.unwrap_or_else(Instant::now)), if close_at.is_some() => {}
        }
    }
    while running.next().await.is_some() {}
}

/// Locks that end as the last one of their messages, by their end.
#[derive(Default)]
struct Last {
    by_end: BTreeMap<(Instant, u64), Weak<dyn LastLock>>,
    inserted: u64,
    /// At this size settled ones are removed.
    swept_at: usize,
}

/// How many locks are kept before settled ones are removed.
const UNSWEPT: usize = 4_096;

impl Last {
    fn insert(&mut self, end: Instant, lock: Weak<dyn LastLock>) {
        self.inserted += 1;
        self.by_end.insert((end, self.inserted), lock);
        if self.by_end.len() > self.swept_at.max(UNSWEPT) {
            self.by_end.retain(|_, lock| lock.strong_count() > 0);
            self.swept_at = self.by_end.len() * 2;
        }
    }

    fn next(&self) -> Option<Instant> {
        self.by_end.first_key_value().map(|((end, _), _)| *end)
    }

    fn end_due(&mut self, running: &Running) {
        let now = Instant::now();
        while let Some(entry) = self.by_end.first_entry().filter(|entry| entry.key().0 <= now) {
            let weak = entry.remove();
            // A settled delivery is dropped.
            let Some(lock) = weak.upgrade() else { continue };
            if lock.until() > now {
                self.insert(lock.until(), weak);
            } else if lock.end() {
                running.push(lock.dead_letter());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Settled;

    impl LastLock for Settled {
        fn until(&self) -> Instant {
            Instant::now()
        }

        fn end(&self) -> bool {
            false
        }

        fn dead_letter(self: Arc<Self>) -> BoxFuture<()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[test]
    fn locks_that_were_settled_are_not_kept_to_their_end() {
        let (mut last, now) = (Last::default(), Instant::now());
        for number in 0..100_000 {
            last.insert(now + Duration::from_secs(3_600 + number), Weak::<Settled>::new());
            assert!(last.by_end.len() <= UNSWEPT, "{number}");
        }
    }
}
