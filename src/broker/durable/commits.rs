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
use crate::broker::panics;

/// Which batches are on the disk, who waits for one, and whether the writer has anything to do.
#[derive(Default)]
pub(crate) struct Commits {
    /// The last batch that has a change.
    begun: AtomicU64,
    done: AtomicU64,
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

/// What the writer is to do.
#[derive(Default)]
struct Work {
    is_there: bool,
    is_closing: bool,
    /// Somebody waits for what is there.
    is_urgent: bool,
    /// What a broker that was dropped had left.
    last: Option<Batch>,
}

impl Commits {
    /// A batch has its first change.
    pub(crate) fn begin(&self, batch: u64) {
        self.begun.store(batch, Ordering::Release);
        self.work.lock().is_there = true;
        self.has_work.notify_one();
    }

    /// All batches up to this one are on the disk.
    pub(crate) fn finish(&self, batch: u64) {
        self.done.store(batch, Ordering::Release);
        self.wake(batch);
    }

    /// Nothing is written any more. The first failure counts.
    pub(crate) fn fail(&self, failure: StorageError) {
        // Whoever waits finds the failure, whichever that is.
        let _ = self.failure.set(failure);
        self.wake(u64::MAX);
    }

    fn wake(&self, batch: u64) {
        let mut waiting = self.waiting.lock();
        let woken = waiting.iter_mut().filter(|(_, waiting)| waiting.batch <= batch);
        let wakers: Vec<Waker> = woken.filter_map(|(_, waiting)| waiting.waker.take()).collect();
        // A waker is the user's code.
        drop(waiting);
        wakers.into_iter().for_each(panics::wake);
    }

    /// Why nothing is written any more.
    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.failure.get()
    }

    /// What to wait for until everything that has happened is on the disk, if anything.
    pub(crate) fn pending(self: &Arc<Self>) -> Option<Commit> {
        let batch = self.begun.load(Ordering::Acquire);
        let is_done = self.done.load(Ordering::Acquire) >= batch && self.failure.get().is_none();
        (!is_done).then(|| Commit { commits: Arc::clone(self), batch, place: None })
    }

    /// The last batch that has a change.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// What there is to write is written now.
    pub(crate) fn hurry(&self) {
        self.work.lock().is_urgent = true;
        self.has_work.notify_one();
    }

    /// What is ready at once, if nothing is written any more.
    pub(crate) fn failed(self: &Arc<Self>) -> Option<Commit> {
        self.failure.get().map(|_| Commit { commits: Arc::clone(self), batch: u64::MAX, place: None })
    }

    /// The journal is to be compacted with the batch that is being filled.
    pub(crate) fn ask_to_compact(&self) {
        self.compacts.store(true, Ordering::Relaxed);
    }

    pub(crate) fn takes_compaction(&self) -> bool {
        self.compacts.swap(false, Ordering::Relaxed)
    }

    /// The writer ends after one more batch, and whoever waits for what is returned learns of it.
    pub(crate) fn close(self: &Arc<Self>) -> Commit {
        self.work.lock().is_closing = true;
        self.has_work.notify_one();
        Commit { commits: Arc::clone(self), batch: u64::MAX, place: None }
    }

    /// The writer ends after this batch, which is what a broker that is dropped has left.
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

    /// Waits until a disk may have room again; `false` if the broker ends meanwhile.
    pub(crate) fn pause(&self, most: Duration) -> bool {
        let mut work = self.work.lock();
        if !work.is_closing {
            self.has_work.wait_for(&mut work, most);
        }
        !work.is_closing
    }

    /// Lets changes come together for a while, unless it is closed.
    pub(crate) fn linger(&self, delay: Duration) {
        let mut work = self.work.lock();
        if !work.is_closing && !work.is_urgent {
            // The batch that is being filled has told of itself already, so that only a close or a flush ends this early.
            self.has_work.wait_for(&mut work, delay);
        }
        work.is_urgent = false;
    }
}

/// Ready when a batch is on the disk, or will never be.
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
        // It may have been finished between the look and the wait.
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
