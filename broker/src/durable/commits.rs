#[cfg(all(test, shuttle))]
mod explored;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use slab::Slab;

use super::{Batch, StorageError};
use crate::{
    panics,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The state of the batches: which are on the disk, which tasks wait for one, and whether the writer has work.
///
/// The writer is requested to write a batch when the first call that has changed something in it is waited for, not
/// when it has changed something. Calls that are made together and then waited for are therefore one commit, and the
/// writer is woken once for all of them.
#[derive(Default)]
pub(crate) struct Commits {
    /// The last batch that has a change.
    begun: AtomicU64,
    /// The last batch that the writer was requested to write.
    requested: AtomicU64,
    done: AtomicU64,
    /// Commits that changed the disk, and how long all of them took.
    written: AtomicU64,
    written_nanos: AtomicU64,
    failure: OnceLock<StorageError>,
    /// The tasks that wait for each batch, so that a commit wakes those of its batch and looks at no others.
    waiting: Mutex<BTreeMap<u64, Slab<Waker>>>,
    work: Mutex<Work>,
    has_work: Condvar,
}

/// The work of the writer.
#[derive(Default)]
struct Work {
    is_there: bool,
    is_closing: bool,
    /// A call waits for the changes.
    is_urgent: bool,
    /// The last changes of a broker that was dropped.
    last: Option<Batch>,
}

impl Commits {
    /// Records that a batch has a change; `true` if it is the first one. Called where the engine is locked.
    pub(crate) fn begin(&self, batch: u64) -> bool {
        let is_first = self.begun() < batch;
        if is_first {
            self.begun.store(batch, Ordering::Release);
        }
        is_first
    }

    /// Requests that the writer writes everything up to this batch, unless it was requested already.
    pub(crate) fn request(&self, batch: u64) {
        if self.requested.load(Ordering::Relaxed) < batch && self.requested.fetch_max(batch, Ordering::AcqRel) < batch {
            self.work.lock().is_there = true;
            self.has_work.notify_one();
        }
    }

    /// Records that all batches up to this one are on the disk.
    pub(crate) fn finish(&self, batch: u64) {
        self.done.store(batch, Ordering::Release);
        self.wake(batch);
    }

    /// Stops all writes. The first failure counts.
    pub(crate) fn fail(&self, failure: StorageError) {
        // Every waiting call finds the first failure.
        let _ = self.failure.set(failure);
        self.wake(u64::MAX);
    }

    /// Counts a commit that changed the disk.
    pub(crate) fn count(&self, took: Duration) {
        self.written.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.written_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns how many commits have changed the disk, and how long all of them took.
    pub(crate) fn counted(&self) -> (u64, Duration) {
        let nanos = self.written_nanos.load(Ordering::Relaxed);
        (self.written.load(Ordering::Relaxed), Duration::from_nanos(nanos))
    }

    fn wake(&self, batch: u64) {
        let mut waiting = self.waiting.lock();
        let later = batch.checked_add(1).map_or_else(BTreeMap::new, |next| waiting.split_off(&next));
        let woken = std::mem::replace(&mut *waiting, later);
        // A waker is the user's code.
        drop(waiting);
        woken.into_values().flatten().for_each(|(_, waker)| panics::wake(waker));
    }

    /// Returns why nothing is written any more.
    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.failure.get()
    }

    /// Returns the commit to wait for until everything that has happened is on the disk, if there is one.
    pub(crate) fn pending(self: &Arc<Self>) -> Option<Commit> {
        let batch = self.begun.load(Ordering::Acquire);
        let is_done = self.is_done(batch) && self.failure.get().is_none();
        (!is_done).then(|| Commit { commits: Arc::clone(self), batch, place: None, requests: true })
    }

    fn outcome(&self, batch: u64) -> Option<Result<(), StorageError>> {
        if self.is_done(batch) {
            return Some(Ok(()));
        }
        self.failure.get().map(|failure| Err(failure.clone()))
    }

    /// Whether everything up to this batch is on the disk.
    pub(crate) fn is_done(&self, batch: u64) -> bool {
        self.done.load(Ordering::Acquire) >= batch
    }

    /// The last batch that has a change.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Makes the writer write pending changes now.
    pub(crate) fn hurry(&self) {
        self.work.lock().is_urgent = true;
        self.has_work.notify_one();
    }

    /// Ends the writer after one more batch. The returned commit is ready then.
    pub(crate) fn close(self: &Arc<Self>) -> Commit {
        self.work.lock().is_closing = true;
        self.has_work.notify_one();
        self.last()
    }

    /// A commit that is ready when nothing is written any more.
    fn last(self: &Arc<Self>) -> Commit {
        Commit { commits: Arc::clone(self), batch: u64::MAX, place: None, requests: false }
    }

    /// Ends the writer after this batch, which has the last changes of a broker that is dropped.
    pub(crate) fn close_with(&self, last: Batch) {
        let mut work = self.work.lock();
        (work.is_closing, work.last) = (true, Some(last));
        self.has_work.notify_one();
    }

    pub(crate) fn take_last(&self) -> Option<Batch> {
        self.work.lock().last.take()
    }

    /// Waits until there is something to write, `most` at most, or not at all if that is zero; `false` if this is the last
    /// time.
    pub(crate) fn wait_for_work(&self, most: Duration) -> bool {
        let mut work = self.work.lock();
        while !most.is_zero() && !work.is_there && !work.is_closing {
            if self.has_work.wait_for(&mut work, most).timed_out() {
                break;
            }
        }
        work.is_there = false;
        !work.is_closing
    }

    /// Waits until a full disk may have space again; `false` if the broker ends meanwhile.
    pub(crate) fn pause(&self, most: Duration) -> bool {
        let mut work = self.work.lock();
        if !work.is_closing {
            self.has_work.wait_for(&mut work, most);
        }
        !work.is_closing
    }

    /// Collects changes for a while, unless it is closed.
    pub(crate) fn linger(&self, delay: Duration) {
        let mut work = self.work.lock();
        if !work.is_closing && !work.is_urgent {
            // The writer was notified of the batch that is being filled already, so only a close or a flush ends this
            // early.
            self.has_work.wait_for(&mut work, delay);
        }
        work.is_urgent = false;
    }
}

/// A future that is ready when a batch is on the disk, or never will be.
#[must_use]
pub(crate) struct Commit {
    commits: Arc<Commits>,
    batch: u64,
    /// Where its waker is among those of its batch.
    place: Option<usize>,
    /// Whether the writer is not yet notified of the batch: it is when this is first polled, or dropped.
    requests: bool,
}

impl Future for Commit {
    type Output = Result<(), StorageError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { commits, batch, place, requests } = &mut *self;
        if let Some(outcome) = commits.outcome(*batch) {
            // Its waker is taken with all others of the batch.
            (*place, *requests) = (None, false);
            return Poll::Ready(outcome);
        }
        if std::mem::take(requests) {
            commits.request(*batch);
        }
        let waker = cx.waker().clone();
        let mut waiting = commits.waiting.lock();
        // From here on, the thread that finishes the batch finds the waker.
        let outcome = commits.outcome(*batch);
        let replaced = if outcome.is_some() {
            *place = None;
            Some(waker)
        } else {
            let wakers = waiting.entry(*batch).or_default();
            if let Some(registered) = place.and_then(|place| wakers.get_mut(place)) {
                Some(std::mem::replace(registered, waker))
            } else {
                *place = Some(wakers.insert(waker));
                None
            }
        };
        // A waker is the user's code.
        drop(waiting);
        drop(replaced);
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        if self.commits.outcome(self.batch).is_some() {
            return;
        }
        if self.requests {
            self.commits.request(self.batch);
        }
        let Some(place) = self.place else { return };
        let mut waiting = self.commits.waiting.lock();
        let mut left = None;
        if let Entry::Occupied(mut wakers) = waiting.entry(self.batch) {
            left = wakers.get_mut().try_remove(place);
            if wakers.get().is_empty() {
                wakers.remove();
            }
        }
        drop(waiting);
        drop(left);
    }
}
