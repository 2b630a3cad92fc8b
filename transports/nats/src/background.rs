//! The background task of a connection: settles dropped deliveries, keeps requests without a waiting receive, and watches locks
//! of last deliveries.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use async_nats::{Client, Statistics, connection::State};
use consign_core::{message::ApplicationProperties, settlement::Changes, transport::SettleError};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use crate::{
    connection::Link,
    held::{Held, Lock, Watched},
    log,
    pending_requests::PendingRequest,
    session_lock::SessionLock,
    settle,
};

/// A job of the task.
pub(crate) enum Work {
    /// A delivery was dropped by the application.
    Abandon(Box<Held>),
    /// A delivery is released uncounted. A caller may wait for it.
    Release(Box<Held>, Option<oneshot::Sender<Result<(), SettleError>>>),
    /// The last delivery of a message: if its lock ends, the message is dead-lettered.
    Last(Instant, Weak<Box<Held>>),
    /// Messages may still arrive for a request without a waiting receive.
    Keep(PendingRequest),
    /// A session was dropped.
    Close(Arc<SessionLock>),
    /// Answers when all earlier jobs are done.
    Flush(oneshot::Sender<()>),
}

/// Jobs at once, besides requests that are kept. More wait in the queue.
const AT_ONCE: usize = 256;

/// How often the connection is looked at, for all receivers.
const LOOK: Duration = Duration::from_millis(250);

/// Notifies waiting receivers of a change of the connection: a client that is wrapped has no other place for that.
pub(crate) struct Watching {
    client: Client,
    statistics: Arc<Statistics>,
    changes: Arc<watch::Sender<Link>>,
}

impl Watching {
    pub(crate) fn new(client: &Client, changes: &Arc<watch::Sender<Link>>) -> Self {
        Self { client: client.clone(), statistics: client.statistics(), changes: Arc::clone(changes) }
    }

    fn look(&self) {
        let connects = self.statistics.connects.load(Ordering::Relaxed);
        let now = (connects, self.client.connection_state() == State::Connected);
        self.changes.send_if_modified(|before| std::mem::replace(before, now) != now);
    }
}

type Works = FuturesUnordered<BoxFuture<'static, ()>>;

pub(crate) async fn run(mut works: mpsc::Receiver<Work>, watching: Watching) {
    let mut look_at = Instant::now() + LOOK;
    let (mut running, mut kept) = (Works::new(), Works::new());
    let mut last = Last::default();
    let mut flushes = Vec::new();
    loop {
        if running.is_empty() && works.is_empty() {
            for done in flushes.drain(..) {
                let _: Result<(), ()> = oneshot::Sender::send(done, ());
            }
        }
        let next = last.next();
        tokio::select! {
            biased;
            Some(()) = running.next(), if !running.is_empty() => {}
            Some(()) = kept.next(), if !kept.is_empty() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => last.end_due(&running),
            () = sleep_until(look_at) => {
                watching.look();
                look_at = Instant::now() + LOOK;
            }
            work = works.recv(), if running.len() < AT_ONCE => match work {
                None => break,
                Some(Work::Last(end, held)) => last.insert(end, held),
                Some(Work::Flush(done)) => flushes.push(done),
                Some(Work::Keep(pending)) => kept.push(pending.keep().boxed()),
                Some(work) => running.push(execute(work).boxed()),
            },
        }
    }
    while running.next().await.is_some() {}
}

async fn execute(work: Work) {
    let result = match work {
        Work::Abandon(held) => settle::abandon(held, Changes::NONE, None).await,
        Work::Release(held, done) => {
            let result = settle::release(held, None).await;
            match done {
                Some(done) => {
                    let _ = done.send(result);
                    return;
                }
                None => result,
            }
        }
        Work::Close(session_lock) => session_lock.close().await,
        Work::Last(..) | Work::Keep(_) | Work::Flush(_) => Ok(()),
    };
    if let Err(error) = result {
        // The lock ends by itself.
        tracing::debug!(%error, "a dropped delivery could not be released");
    }
}

/// Locks that end as the last one of their messages, by their end.
#[derive(Default)]
struct Last {
    by_end: BTreeMap<(Instant, u64), Weak<Box<Held>>>,
    inserted: u64,
    /// At this size settled ones are removed.
    swept_at: usize,
}

/// How many locks are kept before settled ones are removed.
const UNSWEPT: usize = 4_096;

impl Last {
    fn insert(&mut self, end: Instant, held: Weak<Box<Held>>) {
        self.inserted += 1;
        self.by_end.insert((end, self.inserted), held);
        if self.by_end.len() > self.swept_at.max(UNSWEPT) {
            self.by_end.retain(|_, held| held.strong_count() > 0);
            self.swept_at = self.by_end.len() * 2;
        }
    }

    fn next(&self) -> Option<Instant> {
        self.by_end.first_key_value().map(|((end, _), _)| *end)
    }

    fn end_due(&mut self, running: &Works) {
        let now = Instant::now();
        while let Some(entry) = self.by_end.first_entry().filter(|entry| entry.key().0 <= now) {
            let weak = entry.remove();
            // A settled delivery is dropped.
            let Some(held) = weak.upgrade() else { continue };
            if held.lock.until() > now {
                self.insert(held.lock.until(), weak);
            } else if Lock::end(&held.lock) {
                running.push(died(held).boxed());
            }
        }
    }
}

/// Dead-letters a message after its last lock. The server still takes the acknowledgement. If it fails, the next receiver that
/// gets the message dead-letters it.
async fn died(held: Watched) {
    if let Err(error) = settle::buried_by_count(&held, ApplicationProperties::new()).await {
        let entity = &held.source.settings.path;
        log::failed(
            entity,
            "a message whose last lock has ended was not dead-lettered: the next receiver does it",
            &error,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_were_settled_are_not_kept_to_their_end() {
        let (mut last, now) = (Last::default(), Instant::now());
        for number in 0..100_000 {
            last.insert(now + Duration::from_secs(3_600 + number), Weak::new());
            assert!(last.by_end.len() <= UNSWEPT, "{number}");
        }
    }
}
