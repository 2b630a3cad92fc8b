//! Writes commits.

use super::{
    super::{StorageError, StorageErrorKind, journal::Batch},
    builder::Numbers,
    damage::{at, damaged, failed},
    entry::{Change, HEAD, SPAN},
    files,
    frame::{HEADER, Header, PAGE, SECTOR, Spot, padded},
    journal::LogJournal,
};
use crate::sabotage::Defect;

impl LogJournal {
    /// Writes a batch as one frame, with up to `budget` bytes of entries from the segment that is being emptied.
    pub(super) fn append(&mut self, batch: &Batch, budget: u32, sync: bool) -> Result<(), StorageError> {
        let appended = self.try_append(batch, budget, sync);
        if appended.is_err() {
            // What it has copied is not known to be there.
            self.cursor = None;
        }
        appended
    }

    fn try_append(&mut self, batch: &Batch, budget: u32, sync: bool) -> Result<(), StorageError> {
        let need = needed(batch)?;
        self.prepare()?;
        let copied = if self.cursor.is_some() { std::mem::take(&mut self.wanted) } else { 0 };
        let space = need.saturating_add(copied);
        if space > 0 {
            self.ensure_space(space)?;
        }
        let Some(active) = &self.active else { return Ok(()) };
        let (number, offset, size) = (active.number, active.end, active.size);
        self.frame.begin(&active.tail, number, offset);
        self.fill(batch)?;
        self.copy_some(batch, budget, size - SECTOR - offset)?;
        if !self.frame.is_empty() {
            let numbers =
                Numbers { store: self.shared.store, epoch: self.epoch, commit: self.commit, synced: self.synced };
            let length = self.frame.finish(numbers, true).ok_or_else(|| too_large(batch))?;
            self.retried(Self::write)?;
            self.commit += 1;
            if let Some(active) = &mut self.active {
                active.advance(length, self.frame.bytes());
            }
        }
        let reports = sync && self.synced + 1 < self.commit;
        if sync {
            self.sync()?;
        }
        if !self.frame.is_empty() {
            self.apply(number)?;
        }
        if reports {
            self.mark()?;
        }
        self.end_copying();
        Ok(())
    }

    /// Adds the changes of a batch to the frame.
    fn fill(&mut self, batch: &Batch) -> Result<(), StorageError> {
        let state = self.shared.state.read();
        for (table, key, value) in batch.iter() {
            let change = match value {
                Some(value) => Change::Put(value),
                None => match state.index.get(table, key) {
                    Some(place) => Change::Removed(state.span(place)),
                    // It has no value, or has been removed.
                    None => continue,
                },
            };
            self.frame.add(table, key, change).ok_or_else(|| too_large(batch))?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), StorageError> {
        let Some(active) = &self.active else { return Ok(()) };
        let written = active.file.write(active.page().into(), self.frame.bytes());
        written.map_err(|error| failed("writing", &files::segment(active.number), error))
    }

    /// Has readers find what the frame has.
    fn apply(&mut self, number: u32) -> Result<(), StorageError> {
        let (records, offset) = self.frame.records();
        let mut state = self.shared.state.write();
        let applied = state.apply(number, offset, records);
        applied.map_err(|malformed| damaged(at(number, malformed.offset, "a record is malformed")))?;
        if let (Some(segment), Some(active)) = (state.segments.get_mut(&number), &self.active) {
            (segment.end, segment.next) = (active.end, self.commit);
        }
        Ok(())
    }

    /// Makes all commits survive a power loss.
    pub(super) fn sync(&mut self) -> Result<(), StorageError> {
        if self.synced + 1 < self.commit {
            self.sync_active()?;
            self.synced = self.commit - 1;
        }
        Ok(())
    }

    fn sync_active(&self) -> Result<(), StorageError> {
        let Some(active) = &self.active else { return Ok(()) };
        if Defect::SkipSync.is_there() {
            return Ok(());
        }
        // A second attempt would succeed, without what the first has lost.
        let synced = active.sync();
        if Defect::IgnoreSyncError.is_there() { Ok(()) } else { synced }
    }

    /// Reports at the end of the log that the last commit is on the disk, to detect later that it is damaged. The next
    /// frame replaces this, so it costs no further write to the disk while commits follow each other.
    fn mark(&mut self) -> Result<(), StorageError> {
        let Some(active) = &self.active else { return Ok(()) };
        let header = Header {
            spot: Spot { store: self.shared.store, segment: active.number, offset: active.end },
            epoch: self.epoch,
            commit: self.commit,
            synced: self.synced,
            length: None,
            checksum: 0,
        };
        let mut page = active.tail.clone();
        page.extend_from_slice(&header.encode());
        page.resize(PAGE as usize, 0);
        match active.file.write(active.page().into(), &page) {
            Ok(()) => Ok(()),
            Err(error) => match failed("writing", &files::segment(active.number), error) {
                full if full.kind() == StorageErrorKind::Full => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Does something again, with the space of the reserve, if the disk is full.
    pub(super) fn retried<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        match work(self) {
            Err(error) if error.kind() == StorageErrorKind::Full && self.shared.place.release() => {
                self.is_full = true;
                work(self)
            }
            outcome => outcome,
        }
    }
}

/// Returns the most bytes that a frame with a batch takes up. 0 if the batch is empty.
fn needed(batch: &Batch) -> Result<u32, StorageError> {
    if batch.is_empty() {
        return Ok(0);
    }
    let entries = batch.iter().map(|(_, key, value)| HEAD + key.len() + value.map_or(SPAN, <[u8]>::len));
    let needed = u32::try_from(entries.sum::<usize>()).ok().and_then(padded);
    needed.filter(|needed| *needed <= MOST).ok_or_else(|| too_large(batch))
}

/// The largest frame.
const MOST: u32 = 1 << 31;

/// Returns the bytes that an entry takes up in a frame of its own.
pub(super) fn frame_of_one(length: u32) -> u32 {
    padded(length).unwrap_or(HEADER)
}

fn too_large(batch: &Batch) -> StorageError {
    let key = batch.iter().map(|(_, key, _)| key.len()).fold(0, usize::max);
    let detail = format!("a batch of {} bytes with a key of {key} bytes is too large", batch.size());
    StorageError::new(StorageErrorKind::Failed, detail)
}
