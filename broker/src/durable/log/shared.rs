use std::{
    collections::HashMap,
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
    entry::{self, Change},
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
    fn read(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, StorageError> {
        self.check()?;
        let (mut places, files) = self.places(table, keys)?;
        // A journal that was closed meanwhile has no records.
        self.check()?;
        places.sort_unstable_by_key(|(_, at)| (at.segment, at.offset));
        let mut values = vec![None; keys.len()];
        let mut bytes = Vec::new();
        for run in places.chunk_by(|(_, one), (_, next)| is_near(*one, *next)) {
            let (Some((_, first)), Some((_, last))) = (run.first(), run.last()) else { continue };
            let Some(frames) = files.get(&first.segment) else { continue };
            let end = last.offset.saturating_add(last.length);
            bytes.resize((end - first.offset) as usize, 0);
            frames.bytes(first.offset, &mut bytes)?;
            for &(nth, at) in run {
                let start = (at.offset - first.offset) as usize;
                let entry = &bytes[start..start + at.length as usize];
                values[nth] = Some(verified(table, keys[nth], at, entry)?.to_vec());
            }
        }
        Ok(values)
    }

    fn backup(&self, to: &Path) -> Result<(), StorageError> {
        self.check_target(to)?;
        self.backup_to(Box::new(RealFolder::new(to)))
    }
}

impl Shared {
    /// Returns the places of those of the keys that have a value, and the segments of these. Their files are not used
    /// again while they are read.
    fn places(&self, table: Table, keys: &[&[u8]]) -> Result<(Places, HashMap<u32, Frames>), StorageError> {
        let (mut places, mut files) = (Vec::with_capacity(keys.len()), HashMap::new());
        let state = self.state.read();
        for (nth, key) in keys.iter().enumerate() {
            let Some(at) = state.index.get(table, key) else { continue };
            let gone = || corrupted(table.name(), key, "its segment is gone");
            let segment = state.segments.get(&at.segment).ok_or_else(gone)?;
            files.entry(at.segment).or_insert_with(|| Frames {
                file: Arc::clone(&segment.file),
                store: self.store,
                segment: at.segment,
                size: segment.size,
            });
            places.push((nth, at));
        }
        Ok((places, files))
    }
}

/// The place of a key, by its number among the requested ones.
type Places = Vec<(usize, At)>;

/// Whether two entries are read together, of which the second one is later in the log.
fn is_near(one: At, next: At) -> bool {
    /// Bytes between them.
    const GAP: u32 = 4 << 10;
    one.segment == next.segment && next.offset - one.offset.saturating_add(one.length).min(next.offset) <= GAP
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
