use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::watch;

use super::{Batch, Commits, Journal, StorageError, StorageErrorKind, Taken, sabotage::without_dead_letters};
use crate::{
    engine::{Ticks, Wanted},
    panics::caught,
    sabotage::Defect,
    shared::{Shared, Stamp},
};

/// Takes the changes, writes them, and reports the commit: the one thread that writes.
pub(super) struct Writer {
    journal: Box<dyn Journal>,
    commits: Arc<Commits>,
    /// The compactions, and up to which one the compaction counts that is being done.
    compactions: Arc<Commits>,
    compacting: Option<u64>,
    shared: Weak<Shared>,
    /// Dropped when the journal is closed.
    open: watch::Sender<()>,
    /// How long changes are collected before they are written.
    delay: Duration,
    taken: Taken,
    batch: Batch,
    is_full: bool,
    /// Bytes that the journal has space for.
    space: u64,
    /// Batches since the disk was checked.
    passed_over: u32,
    /// When the time was last written for its own sake.
    stamped: Ticks,
}

impl Writer {
    /// How much memory of a batch is kept for the next one.
    const KEPT: usize = 4 << 20;
    /// How often a full disk is checked, where nothing is written.
    const FULL: Duration = Duration::from_secs(1);
    /// How often the time is written while an event is pending.
    const STAMP: Duration = Duration::from_secs(60);
    /// With more space than this, the space limits no batch.
    const AMPLE: u64 = 4 << 30;
    /// And after how many batches the disk is checked.
    const PASSED_OVER: u32 = 64;

    pub(super) fn new(
        journal: Box<dyn Journal>,
        commits: Arc<Commits>,
        compactions: Arc<Commits>,
        shared: Weak<Shared>,
        open: watch::Sender<()>,
        delay: Duration,
    ) -> Self {
        let (taken, batch, space) = (Taken::default(), Batch::default(), journal.space());
        Self {
            journal,
            commits,
            compactions,
            compacting: None,
            shared,
            open,
            delay,
            taken,
            batch,
            is_full: false,
            space,
            passed_over: 0,
            stamped: 0,
        }
    }

    /// Writes until the broker is closed, or dropped, or the disk fails. After a panic nothing is written any more.
    pub(super) fn run(mut self) {
        let written = caught("writer", || self.write_on());
        let Self { journal, commits, compactions, shared, open, .. } = self;
        // A caller that sees the broker closed can open it.
        let closed = caught("writer", || journal.close());
        drop(open);
        let ended = written.and(closed).err();
        let ended = ended.unwrap_or_else(|| StorageError::new(StorageErrorKind::Closed, ""));
        if ended.kind() != StorageErrorKind::Closed {
            tracing::error!(error = %ended, "the writer failed: all calls fail until the store is opened again");
        }
        commits.fail(ended.clone());
        compactions.fail(ended);
        if let Some(shared) = shared.upgrade() {
            shared.wake_all();
        }
    }

    fn write_on(&mut self) -> Result<(), StorageError> {
        loop {
            let goes_on = self.commits.wait_for_work(match self.compacting {
                Some(_) => Duration::ZERO,
                None if self.is_full => Self::FULL,
                None => Self::STAMP,
            });
            if goes_on && self.compacting.is_none() && !self.delay.is_zero() {
                self.commits.linger(self.delay);
            }
            if let Some(shared) = self.shared.upgrade() {
                // It may be the last handle, whose drop leaves the last batch.
                self.advance(shared, if goes_on { Stamp::IfDue } else { Stamp::Yes })?;
            }
            if !goes_on {
                return match self.commits.take_last() {
                    Some(last) if !last.is_empty() => self.journal.commit(&last, true),
                    _ => Ok(()),
                };
            }
        }
    }

    /// Reports to the engine when the disk is full, and when it no longer is.
    fn check_disk(&mut self) {
        self.passed_over += 1;
        let has_more = !self.batch.is_empty() || self.compacting.is_some();
        if self.is_full && has_more && self.passed_over < Self::PASSED_OVER {
            return;
        }
        self.passed_over = 0;
        let is_full = !self.journal.has_space();
        self.set_full(is_full);
    }

    /// Writes the changes since the last call.
    #[cfg(test)]
    pub(super) fn step(&mut self, shared: Arc<Shared>) -> Result<(), StorageError> {
        self.advance(shared, Stamp::IfDue)
    }

    /// Writes the changes since the last call.
    fn advance(&mut self, shared: Arc<Shared>, stamp: Stamp) -> Result<(), StorageError> {
        let (number, written) = self.take(&shared, stamp)?;
        drop(shared);
        self.write(number)?;
        self.page_out(&written);
        self.compact_on()?;
        self.check_disk();
        if self.batch.is_empty() {
            self.measure();
        }
        Ok(())
    }

    /// Reports to the engine how much the next batch may have.
    fn measure(&mut self) {
        let before = std::mem::replace(&mut self.space, self.journal.space());
        if before.min(self.space) < Self::AMPLE
            && let Some(shared) = self.shared.upgrade()
        {
            shared.set_space(self.space);
        }
    }

    /// Does a part of a compaction, if one was requested. Between the parts, commits go on.
    fn compact_on(&mut self) -> Result<(), StorageError> {
        let requested = self.compactions.begun();
        if self.compacting.is_none() && !self.compactions.is_done(requested) {
            self.compacting = Some(requested);
        }
        let Some(compaction) = self.compacting else { return Ok(()) };
        let has_ended = match self.journal.compact() {
            // Compaction needs space itself. The stored data is unchanged.
            Err(full) if full.kind() == StorageErrorKind::Full => {
                tracing::warn!("the store was not compacted: there is no disk space");
                true
            }
            outcome => outcome?,
        };
        if has_ended {
            self.compacting = None;
            self.compactions.finish(compaction);
        }
        Ok(())
    }

    /// Takes the changes since the last call.
    fn take(&mut self, shared: &Shared, stamp: Stamp) -> Result<(u64, Vec<Wanted>), StorageError> {
        self.batch.clear(Self::KEPT);
        let (now, every) = (shared.now().ticks, Self::STAMP.as_secs() * 1_000_000_000);
        let stamp = match stamp {
            Stamp::IfDue if now.saturating_sub(self.stamped) < every => Stamp::No,
            stamp => stamp,
        };
        let taken = shared.take_changes(&mut self.taken, stamp, self.space)?;
        self.taken.encode(&mut self.batch);
        if stamp == Stamp::IfDue || !self.batch.is_empty() {
            self.stamped = now;
        }
        Ok(taken)
    }

    fn page_out(&self, written: &[Wanted]) {
        if written.is_empty() {
            return;
        }
        if let Some(shared) = self.shared.upgrade() {
            shared.with(|state| state.engine.page_out(written));
        }
    }

    /// Commits the batch, however long the disk is full.
    fn commit(&mut self) -> Result<(), StorageError> {
        loop {
            match self.journal.commit(&self.batch, true) {
                Err(failure) if failure.kind() == StorageErrorKind::Full => {
                    self.set_full(true);
                    if !self.commits.pause(Self::FULL) {
                        return Err(failure);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Commits the batch, and counts the commit.
    #[expect(clippy::disallowed_methods, reason = "how long the disk takes is reported, not used")]
    fn commit_timed(&mut self) -> Result<(), StorageError> {
        let began = std::time::Instant::now();
        self.commit()?;
        self.commits.count(began.elapsed());
        Ok(())
    }

    fn set_full(&mut self, is_full: bool) {
        if is_full == self.is_full {
            return;
        }
        let Some(shared) = self.shared.upgrade() else { return };
        self.is_full = is_full;
        shared.with(|state| state.engine.set_full(is_full));
        drop(shared);
        self.measure();
        if is_full {
            tracing::warn!("the disk is full: sends are refused until there is space. Free disk space");
        } else {
            tracing::info!("the disk has space again");
        }
    }

    fn write(&mut self, number: u64) -> Result<(), StorageError> {
        if Defect::AcknowledgeBeforeSync.is_there() {
            self.commits.finish(number);
        }
        if !self.batch.is_empty() {
            if Defect::DeadLetterInTwoSteps.is_there() {
                self.journal.commit(&without_dead_letters(&self.batch)?, true)?;
            }
            self.commit_timed()?;
            // Before a call that has waited for this sends more.
            self.measure();
        }
        self.commits.finish(number);
        Ok(())
    }
}
