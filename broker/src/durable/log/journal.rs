use std::{path::Path, sync::Arc};

use super::{
    super::{
        StorageError, StorageErrorKind,
        disk::{Folder, RealFolder, Storage},
        journal::{Batch, Journal, Reader, Table, Visit},
    },
    active::{Active, Spare},
    ahead::Ahead,
    blocks::{Blocks, read_and_apply},
    builder::Builder,
    cursor::Cursor,
    damage::{at, damaged, failed},
    files,
    frames::Frames,
    head::Head,
    place::Place,
    scan::scan,
    shared::{ReadAhead, Shared, extents, verified},
    state::{Segment, State},
};
use crate::sabotage::Defect;

/// The options to open a journal, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// The size of the first segment. Each further one is larger, up to the largest. One that holds a larger commit has
    /// the size of that.
    pub(crate) smallest: u32,
    pub(crate) largest: u32,
    /// Reserved on the disk for when it is full.
    pub(crate) reserve: u64,
    /// Whether the next segment is filled by a thread of its own, and a thread reads while the store is opened. Otherwise a commit
    /// fills it, and waits for it.
    pub(crate) has_thread: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { smallest: 1 << 20, largest: 16 << 20, reserve: 16 << 20, has_thread: true }
    }
}

/// Records in a log.
#[derive(Debug)]
pub(crate) struct LogJournal {
    pub(super) shared: Arc<Shared>,
    pub(super) options: LogOptions,
    /// The number of this opening, once it has written.
    pub(super) epoch: u32,
    /// `None` until the first commit of a new store.
    pub(super) active: Option<Active>,
    /// The number of the next commit, and of the last one that is on the disk.
    pub(super) commit: u64,
    pub(super) synced: u64,
    /// Whether this opening has written its head.
    pub(super) is_prepared: bool,
    /// Where the frames begin that the last head does not count, if the store was not closed.
    pub(super) uncounted: Option<u32>,
    pub(super) frame: Builder,
    /// A segment that is kept to be used next: a freed one, or one that was filled ahead.
    pub(super) spare: Option<Spare>,
    /// The segment that is being filled, while there is no spare one.
    pub(super) ahead: Option<Ahead>,
    /// Whether it was decided whether to fill one while this segment is written to.
    pub(super) is_ahead_decided: bool,
    /// The size of the next segment.
    pub(super) next_size: u32,
    /// The segment that is being emptied.
    pub(super) cursor: Option<Cursor>,
    /// Bytes that the next entry to be copied needs in a segment.
    pub(super) wanted: u32,
    /// While the store is compacted: the segments before this one are emptied.
    pub(super) compacts_below: Option<u32>,
    /// Where there was no segment to be emptied: bytes in use, below which one is looked for again.
    pub(super) rest: Option<u64>,
    /// Whether the reserve was given up since it was last taken.
    pub(super) is_full: bool,
}

impl LogJournal {
    /// Opens a store, or creates it where the folder is missing or empty.
    pub(crate) fn open(folder: &Path, options: LogOptions) -> Result<Self, StorageError> {
        Self::at(Box::new(RealFolder::new(folder)), options)
    }

    /// Opens a store without writing to it, except for its reserve. What it finds is on the disk then, unless a sync of
    /// an earlier opening failed: [`prepare`](Self::prepare) puts that there.
    pub(crate) fn at(folder: Box<dyn Folder>, options: LogOptions) -> Result<Self, StorageError> {
        let (place, head) = Place::open(folder, options.reserve)?;
        let mut state = State::default();
        for &extent in &head.segments {
            let file = place.segment(extent.number)?;
            let length = file.len().map_err(|error| failed("reading", &files::segment(extent.number), error))?;
            if length < extent.size.into() {
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                return Err(damaged(at(extent.number, length, "it is cut off")));
            }
            state.add(extent.number, Segment::new(file, extent));
        }
        scan(&mut state, &head, options.has_thread)?;
        let active = Active::last(&state, head.store)?;
        if head.records.is_none() && !Defect::SkipRecoverySync.is_there() {
            // The process that wrote the last frames may have been killed before they were on the disk.
            active.as_ref().map_or(Ok(()), Active::sync)?;
        }
        let is_full = !place.reserve();
        let commit = state.segments.last_key_value().map_or(1, |(_, last)| last.next);
        let grown = active.as_ref().map_or(0, |active| active.size.saturating_mul(4));
        Ok(Self {
            shared: Arc::new(Shared::new(place, head.store, state)),
            options,
            epoch: head.epoch,
            active,
            commit,
            synced: commit - 1,
            is_prepared: false,
            uncounted: head.segments.last().filter(|_| head.records.is_none()).map(|last| last.end),
            frame: Builder::default(),
            spare: None,
            ahead: None,
            is_ahead_decided: false,
            next_size: grown.clamp(options.smallest, options.largest),
            cursor: None,
            wanted: 0,
            compacts_below: None,
            rest: None,
            is_full,
        })
    }

    /// Makes the first writes of this opening: what the last head did not count, and a head with a new epoch, which what is
    /// left of an interrupted commit does not have.
    pub(super) fn prepare(&mut self) -> Result<(), StorageError> {
        if self.is_prepared {
            return Ok(());
        }
        let epoch = self.epoch.checked_add(1).ok_or_else(|| damaged("head, offset 12: the last epoch is used up"))?;
        self.retried(|journal| journal.rewrite_uncounted())?;
        let (store, segments) = (self.shared.store, self.shared.extents());
        let head = Head::of(store, epoch, segments);
        self.retried(|journal| journal.shared.place.write_head(&head))?;
        self.epoch = epoch;
        self.is_prepared = true;
        self.take_unused()
    }

    /// Keeps or removes files of segments that the head does not have.
    fn take_unused(&mut self) -> Result<(), StorageError> {
        let unused = self.shared.place.segments()?;
        let last = self.active.as_ref().map_or(0, |active| active.number);
        for number in unused {
            if self.shared.state.read().segments.contains_key(&number) {
                continue;
            }
            let file = self.shared.place.segment(number).ok();
            let is_whole = |file: &Arc<dyn Storage>| file.len().is_ok_and(|len| len == u64::from(self.options.largest));
            match file.filter(|file| number < last && self.spare.is_none() && is_whole(file)) {
                Some(file) => self.spare = Some(Spare { number, file, size: self.options.largest }),
                None => self.shared.place.remove_segment(number),
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StorageError> {
        self.shared.check()?;
        if !self.is_prepared {
            return Ok(());
        }
        self.sync()?;
        self.remove_spare()?;
        let state = self.shared.state.read();
        let (records, segments) = (Some(state.index.records()), extents(&state));
        let head = Head { records, ..Head::of(self.shared.store, self.epoch, segments) };
        match self.shared.place.write_head(&head) {
            // Then the next opening looks for the end of the log.
            Err(error) if error.kind() == StorageErrorKind::Full => Ok(()),
            written => written,
        }
    }

    fn close_once(&mut self) -> Result<(), StorageError> {
        let closed = self.finish();
        self.end_ahead();
        self.shared.close();
        self.active = None;
        self.cursor = None;
        closed
    }
}

#[cfg(test)]
impl LogOptions {
    /// Segments so small that tests have many.
    pub(crate) const fn small(reserve: u64) -> Self {
        Self { smallest: 8 << 10, largest: 64 << 10, reserve, has_thread: false }
    }
}

#[cfg(test)]
impl LogJournal {
    pub(super) fn place(&self) -> &Place {
        &self.shared.place
    }

    pub(super) fn backup_to(&self, to: Box<dyn Folder>) -> Result<(), StorageError> {
        self.shared.backup_to(to)
    }
}

impl Journal for LogJournal {
    fn load(&mut self, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        self.shared.check()?;
        let state = self.shared.state.read();
        let read = |blocks: &mut Blocks<'_, _>| {
            let mut ahead = ReadAhead::default();
            for table in Table::ALL {
                for (key, at) in state.index.iter(table) {
                    let Some(segment) = state.segments.get(&at.segment) else { continue };
                    let file = Arc::clone(&segment.file);
                    let frames = Frames { file, store: self.shared.store, segment: at.segment, size: segment.size };
                    let bytes = ahead.read(&frames, at)?;
                    blocks.bytes().extend_from_slice(verified(table, key.bytes(), at, bytes)?);
                    if !blocks.end_piece((table, key)) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        let loaded =
            read_and_apply(self.options.has_thread, read, |(table, key), value| visit(table, key.bytes(), value));
        // Nothing is written over what could not be read.
        loaded.inspect_err(|error| self.shared.fail(error))
    }

    fn commit(&mut self, batch: &Batch, sync: bool) -> Result<(), StorageError> {
        self.shared.check()?;
        if batch.is_empty() && !sync {
            return Ok(());
        }
        let budget = self.budget(batch);
        let appended =
            self.append(batch, budget, sync).and_then(|()| self.free_unused()).and_then(|()| self.fill_ahead());
        appended.inspect_err(|error| self.shared.fail(error))
    }

    fn has_space(&mut self) -> bool {
        if self.shared.check().is_err() {
            return false;
        }
        if !self.is_full {
            return true;
        }
        if let Err(error) = self.remove_spare().and_then(|()| self.reclaim()) {
            self.shared.fail(&error);
            return false;
        }
        self.is_full = !self.shared.place.reserve();
        !self.is_full
    }

    /// Half of the free space: the segment of the changes may be the third one that is created. Where little is free, the
    /// reserve is the space, and where that is used too, the rest of the segment: another one needs space itself.
    fn space(&self) -> u64 {
        let Some(free) = self.shared.place.free() else { return u64::MAX };
        if !self.is_full {
            return free.max(self.options.reserve) / 2;
        }
        let rest = self.active.as_ref().map_or(0, |active| active.size.saturating_sub(active.end));
        free.saturating_sub(4 * u64::from(self.options.smallest)).max(rest.into()) / 2
    }

    fn close(mut self: Box<Self>) -> Result<(), StorageError> {
        let closed = self.close_once();
        // Its drop has nothing left to do.
        drop(self);
        closed
    }

    /// Moves records; readers continue meanwhile. On a full disk it may fail as [`Full`](StorageErrorKind::Full), which
    /// is not final.
    fn compact(&mut self) -> Result<bool, StorageError> {
        self.shared.check()?;
        self.compact_on().inspect_err(|error| {
            self.compacts_below = None;
            self.shared.fail(error);
        })
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.shared) as _
    }
}

impl Drop for LogJournal {
    fn drop(&mut self) {
        // A caller that needs the error closes it.
        if self.shared.check().is_ok() {
            let _ = self.finish();
        }
        self.end_ahead();
        self.shared.close();
    }
}
