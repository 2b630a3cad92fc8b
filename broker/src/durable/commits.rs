use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use slab::Slab;

use super::{Batch, StorageError};
use crate::panics;

/// The state of the batches: which are on the disk, which tasks wait for one, and whether the writer has work.
#[derive(Default)]
pub(crate) struct Commits {
    /// The last batch that has a change.
    begun: AtomicU64,
    done: AtomicU64,
    /// Commits that changed the disk, and how long all of them took.
    written: AtomicU64,
    written_nanos: AtomicU64,
    compacts: AtomicBool,
    failure: OnceLock<StorageError>,
    waiting: Mutex<Slab<Waiting>>,
    work: Mutex<Work>,
    has_work: Condvar,
}

struct Waiting {
    batch: u64,
    waker: Option<Waker>,
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
    /// Records that a batch has its first change.
    pub(crate) fn begin(&self, batch: u64) {
        self.begun.store(batch, Ordering::Release);
        self.work.lock().is_there = true;
        self.has_work.notify_one();
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
        let woken = waiting.iter_mut().filter(|(_, waiting)| waiting.batch <= batch);
        let wakers: Vec<Waker> = woken.filter_map(|(_, waiting)| waiting.waker.take()).collect();
        // A waker is the user's code.
        drop(waiting);
        wakers.into_iter().for_each(panics::wake);
    }

    /// Returns why nothing is written any more.
    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.failure.get()
    }

    /// Returns the commit to wait for until everything that has happened is on the disk, if there is one.
    pub(crate) fn pending(self: &Arc<Self>) -> Option<Commit> {
        let batch = self.begun.load(Ordering::Acquire);
        let is_done = self.done.load(Ordering::Acquire) >= batch && self.failure.get().is_none();
        (!is_done).then(|| Commit { commits: Arc::clone(self), batch, place: None })
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

    /// Returns a commit that is ready at once, if nothing is written any more.
    pub(crate) fn failed(self: &Arc<Self>) -> Option<Commit> {
        self.failure.get().map(|_| Commit { commits: Arc::clone(self), batch: u64::MAX, place: None })
    }

    /// Requests a compaction of the journal with the batch that is being filled.
    pub(crate) fn ask_to_compact(&self) {
        self.compacts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn takes_compaction(&self) -> bool {
        self.compacts.swap(false, Ordering::Relaxed)
    }

    /// Ends the writer after one more batch. The returned commit is ready then.
    pub(crate) fn close(self: &Arc<Self>) -> Commit {
        self.work.lock().is_closing = true;
        self.has_work.notify_one();
        Commit { commits: Arc::clone(self), batch: u64::MAX, place: None }
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

    /// Waits until there is something to write, `most` at most; `false` if this is the last time.
    pub(crate) fn wait_for_work(&self, most: Duration) -> bool {
        let mut work = self.work.lock();
        while !work.is_there && !work.is_closing {
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
            // The batch that is being filled has woken the writer already, so only a close or a flush ends this
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
    place: Option<usize>,
}

impl Commit {
    fn outcome(&self) -> Option<Result<(), StorageError>> {
        if self.commits.done.load(Ordering::Acquire) >= self.batch {
            return Some(Ok(()));
        }
        self.commits.failure.get().map(|failure| Err(failure.clone()))
    }
}

impl Future for Commit {
    type Output = Result<(), StorageError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        let waker = Some(cx.waker().clone());
        let mut waiting = self.commits.waiting.lock();
        let (place, replaced) = match self.place {
            Some(place) => (place, waiting.get_mut(place).and_then(|it| std::mem::replace(&mut it.waker, waker))),
            None => (waiting.insert(Waiting { batch: self.batch, waker }), None),
        };
        drop(waiting);
        drop(replaced);
        self.place = Some(place);
        // It may have been finished between the check and the wait.
        self.outcome().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let left = self.commits.waiting.lock().try_remove(place);
            drop(left);
        }
    }
}
