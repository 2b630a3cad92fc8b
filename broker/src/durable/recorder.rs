use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch};

use super::{Batch, Commit, Commits, Durability, Recovery, StorageError, fetcher::Fetcher, journal::Reader};
use crate::{engine::record::Identity, shared::Next, sync::Mutex};

/// The state of a broker on a disk besides its engine.
pub(crate) struct Recorder {
    pub(super) commits: Arc<Commits>,
    /// The compactions that were requested, counted as batches are.
    compactions: Arc<Commits>,
    /// The batch that changes are for. It is changed where the engine is locked.
    filling: AtomicU64,
    /// Whether the last batch was taken. It is changed where the engine is locked.
    is_ending: AtomicBool,
    /// Whether a call waits for the disk.
    durability: Durability,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Closed when the writer has closed the journal.
    is_open: watch::Receiver<()>,
    identity: Identity,
    recovery: Recovery,
    fetcher: Fetcher,
}

impl Recorder {
    pub(super) fn new(
        commits: Arc<Commits>,
        compactions: Arc<Commits>,
        durability: Durability,
        identity: Identity,
        recovery: Recovery,
        reader: Arc<dyn Reader>,
        is_open: watch::Receiver<()>,
    ) -> Self {
        let fetcher = Fetcher::new(reader, Arc::clone(&commits));
        let (filling, is_ending, writer) = (AtomicU64::new(1), AtomicBool::new(false), Mutex::new(None));
        Self { commits, compactions, filling, is_ending, durability, writer, is_open, identity, recovery, fetcher }
    }

    pub(super) fn set_writer(&self, writer: JoinHandle<()>) {
        *self.writer.lock() = Some(writer);
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    pub(crate) fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Records that the batch that is being filled has a change; `true` if it is the first one. Called where the engine
    /// is locked.
    pub(crate) fn note(&self) -> bool {
        self.commits.begin(self.filling.load(Ordering::Relaxed))
    }

    /// Requests that the writer writes all changes so far, unless it was requested already.
    pub(crate) fn request(&self) {
        self.commits.request(self.commits.begun());
    }

    /// Requests a compaction, as if there were changes. Called where the engine is locked.
    pub(crate) fn compact(&self) {
        self.compactions.begin(self.compactions.begun() + 1);
        self.note();
    }

    /// Returns what to wait for until the compactions that were requested have ended.
    pub(crate) fn compacted(&self) -> Option<Commit> {
        self.compactions.pending()
    }

    /// Takes the batch that was being filled. Called where the engine is locked.
    pub(crate) fn turn(&self) -> u64 {
        self.filling.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that the batch that is taken now is the last one. Called where the engine is locked.
    pub(crate) fn end_batches(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Returns the commit that a call has to wait for, if there is one. The writer is notified when it is waited
    /// for, or dropped, and at once where no call waits for the disk.
    pub(crate) fn pending(&self) -> Option<Commit> {
        match self.durability {
            Durability::Durable => self.commits.pending(),
            Durability::Relaxed { .. } => {
                self.request();
                // A change after the last batch is not written.
                let has_ended = self.is_ending.load(Ordering::Relaxed) || self.failure().is_some();
                has_ended.then(|| self.commits.pending()).flatten()
            }
        }
    }

    /// Starts the work of the broker's threads after a call.
    pub(crate) fn go_on(&self, next: Next) {
        if next.requests || next.hurries {
            self.request();
        }
        if next.hurries {
            self.commits.hurry();
        }
        if !next.wanted.is_empty() {
            self.fetcher.fetch(next.wanted);
        }
    }

    pub(crate) fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    /// Returns the commit to wait for until everything is on the disk, whatever the durability.
    pub(crate) fn flushed(&self) -> Option<Commit> {
        self.commits.hurry();
        self.commits.pending()
    }

    /// Ends the writer after one more batch.
    pub(crate) fn close(&self) -> Commit {
        self.commits.close()
    }

    /// Waits until the writer has closed the journal, so that the store can be opened.
    pub(crate) async fn released(&self) {
        let mut is_open = self.is_open.clone();
        while is_open.changed().await.is_ok() {}
    }

    /// Stops all writes, and ends the threads.
    pub(crate) fn fail(&self, failure: StorageError) {
        self.commits.fail(failure);
        self.fetcher.end();
        drop(self.commits.close());
    }

    /// Returns how many commits have changed the disk, and how long all of them took.
    pub(crate) fn counted(&self) -> (u64, Duration) {
        self.commits.counted()
    }

    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.commits.failure()
    }

    /// Ends the writer with the last changes. A thread outside of a runtime waits for that. A thread of a runtime
    /// does not, but the runtime waits for it when it is shut down.
    pub(crate) fn end(&mut self, last: Batch) {
        self.fetcher.end();
        self.commits.close_with(last);
        let writer = self.writer.lock().take();
        if let Some(writer) = writer.filter(|writer| writer.thread().id() != std::thread::current().id()) {
            // It does not panic, and if it did there is no caller to report it to.
            let join = move || drop(writer.join());
            match Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(join)),
                Err(_) => join(),
            }
        }
    }
}
