use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{
    super::{
        StorageError, StorageErrorKind,
        disk::RealFolder,
        journal::{Reader, Table},
    },
    damage::{self, corrupted},
    entry::{self, Change, HEAD},
    frames::Frames,
    head::{Extent, Head},
    index::Place as At,
    place::Place,
    state::State,
};

/// The journal as its readers see it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) place: Place,
    pub(super) store: u64,
    pub(super) state: RwLock<State>,
    /// The first failure, which is final.
    failure: Mutex<Option<(StorageErrorKind, String)>>,
    is_closed: AtomicBool,
}

impl Shared {
    pub(super) fn new(place: Place, store: u64, state: State) -> Self {
        let (state, is_closed) = (RwLock::new(state), AtomicBool::new(false));
        Self { place, store, state, failure: Mutex::default(), is_closed }
    }

    /// Whether everything has worked so far.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StorageError::new(StorageErrorKind::Closed, ""));
        }
        match &*self.failure.lock() {
            None => Ok(()),
            Some((_, detail)) => Err(StorageError::new(StorageErrorKind::Failed, format!("earlier: {detail}"))),
        }
    }

    /// Makes an error final, unless the disk is only full.
    pub(super) fn fail(&self, error: &StorageError) {
        if !matches!(error.kind(), StorageErrorKind::Full | StorageErrorKind::Closed) {
            self.failure.lock().get_or_insert_with(|| (error.kind(), error.detail().to_owned()));
        }
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        *self.state.write() = State::default();
        self.place.unlock();
    }

    /// The segments as the last commit left them.
    pub(super) fn extents(&self) -> Vec<Extent> {
        extents(&self.state.read())
    }
}

pub(super) fn extents(state: &State) -> Vec<Extent> {
    let segments = state.segments.iter();
    let extent = |(&number, it): (&u32, &super::state::Segment)| Extent {
        number,
        size: it.size,
        end: it.end,
        first: it.first,
        next: it.next,
    };
    segments.map(extent).collect()
}

impl Reader for Shared {
    fn read(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.check()?;
        let (at, frames) = {
            let state = self.state.read();
            let Some(at) = state.index.get(table, key) else {
                drop(state);
                return self.check().map(|()| None);
            };
            let Some(segment) = state.segments.get(&at.segment) else {
                return Err(corrupted(table.name(), key, "its segment is gone"));
            };
            // The file is not used for another segment while this reads it.
            let file = Arc::clone(&segment.file);
            (at, Frames { file, store: self.store, segment: at.segment, size: segment.size })
        };
        let mut bytes = vec![0; at.length as usize];
        frames.bytes(at.offset, &mut bytes)?;
        verified(table, key, at, &bytes)?;
        bytes.drain(..HEAD + key.len());
        Ok(Some(bytes))
    }

    fn backup(&self, to: &Path) -> Result<(), StorageError> {
        self.backup_to(Box::new(RealFolder::new(to)))
    }
}

/// Returns the value of the entry that was read from the place of a key.
pub(super) fn verified<'b>(table: Table, key: &[u8], at: At, bytes: &'b [u8]) -> Result<&'b [u8], StorageError> {
    let entry =
        entry::read(bytes, at.offset).filter(|it| it.table == table && it.key == key && it.is_intact(at.segment));
    if let Some(Change::Put(value)) = entry.map(|it| it.change) {
        return Ok(value);
    }
    Err(corrupted(table.name(), key, &damage::at(at.segment, at.offset, "its checksum is wrong")))
}

/// Reads entries ahead where they follow each other in a segment.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    segment: u32,
    start: u32,
    bytes: Vec<u8>,
}

impl ReadAhead {
    /// Bytes that are read at once.
    const AHEAD: u32 = 256 << 10;
    /// Bytes between two entries that follow each other.
    const GAP: u32 = 64 << 10;

    /// Returns the bytes of an entry.
    pub(super) fn read(&mut self, frames: &Frames, at: At) -> Result<&[u8], StorageError> {
        let end = self.start.saturating_add(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        let is_there = self.segment == at.segment && (self.start..=end).contains(&at.offset);
        if !is_there || at.offset.saturating_add(at.length) > end {
            let follows = self.segment == at.segment && (end..=end.saturating_add(Self::GAP)).contains(&at.offset);
            let ahead = if follows || is_there { Self::AHEAD } else { 0 };
            let length = at.length.max(ahead).min(frames.size.saturating_sub(at.offset)).max(at.length);
            (self.segment, self.start) = (at.segment, at.offset);
            self.bytes.resize(length as usize, 0);
            frames.bytes(at.offset, &mut self.bytes)?;
        }
        let from = (at.offset - self.start) as usize;
        Ok(&self.bytes[from..from + at.length as usize])
    }
}

impl Head {
    /// The head of these segments, for a store that is open.
    pub(super) fn of(store: u64, epoch: u32, segments: Vec<Extent>) -> Self {
        Self { store, epoch, records: None, segments }
    }
}
