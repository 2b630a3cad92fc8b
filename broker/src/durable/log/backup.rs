use std::{fs, path::Path, sync::Arc};

use super::{
    super::{
        StorageError,
        disk::{Folder, RealFolder, Storage},
        journal::Table,
    },
    builder::{Builder, Numbers},
    damage::{damaged, failed, unknown},
    entry::Change,
    files,
    frame::{HEADER, PAGE},
    frames::Frames,
    head::{Extent, Head},
    place::{Place, not_a_store},
    scan::scan,
    shared::{ReadAhead, Shared, extents, verified},
    state::{Segment, State},
};

/// Bytes of records in one frame.
const FRAME: u32 = 1 << 20;
/// Bytes of one segment, unless one frame is larger.
const SEGMENT: u32 = 64 << 20;

impl Shared {
    /// Refuses a folder inside of that of the store, which would not open with another folder in it.
    pub(super) fn check_target(&self, to: &Path) -> Result<(), StorageError> {
        let folder = RealFolder::new(to);
        // The creation reports a parent that does not exist.
        match (fs::canonicalize(self.place.path()), fs::canonicalize(folder.parent())) {
            (Ok(store), Ok(parent)) if parent.starts_with(&store) => {
                Err(not_a_store(&folder.path().display().to_string(), "is inside of the store"))
            }
            _ => Ok(()),
        }
    }

    /// Writes the commits before its start to a new store, beside further commits. On an error it leaves nothing. A
    /// folder of a process that was killed does not open.
    ///
    /// It reads the log as it was at the start, so that commits do not wait for it. Segments keep their files until it
    /// has ended.
    pub(super) fn backup_to(&self, to: Box<dyn Folder>) -> Result<(), StorageError> {
        self.check()?;
        let (mut source, segments) = (State::default(), {
            let state = self.state.read();
            let files: Vec<Arc<dyn Storage>> = state.segments.values().map(|it| Arc::clone(&it.file)).collect();
            extents(&state).into_iter().zip(files).collect::<Vec<_>>()
        });
        self.check()?;
        let place = Place::backup(to)?;
        let head = Head { records: Some(0), ..Head::of(self.store, 0, segments.iter().map(|(it, _)| *it).collect()) };
        for (extent, file) in segments {
            source.add(extent.number, Segment::new(file, extent));
        }
        scan(&mut source, &head, false)?;
        let mut copy = Copy::new(&place, self.store);
        let mut ahead = ReadAhead::default();
        for table in Table::ALL {
            for (key, at) in source.index.iter(table) {
                let Some(segment) = source.segments.get(&at.segment) else { continue };
                let file = Arc::clone(&segment.file);
                let frames = Frames { file, store: self.store, segment: at.segment, size: segment.size };
                let value = verified(table, key.bytes(), at, ahead.read(&frames, at)?)?;
                copy.put(table, key.bytes(), value)?;
            }
        }
        let segments = copy.finish()?;
        let records = Some(source.index.records());
        place.publish_backup(&Head { records, ..Head::of(self.store, 0, segments) })
    }
}

/// The segments of a copy, which are written once.
struct Copy<'p> {
    place: &'p Place,
    store: u64,
    frame: Builder,
    file: Option<Box<dyn Storage>>,
    segments: Vec<Extent>,
    current: Extent,
}

impl<'p> Copy<'p> {
    fn new(place: &'p Place, store: u64) -> Self {
        let current = Extent { number: 1, size: 0, end: 0, first: 1, next: 1 };
        let mut frame = Builder::default();
        frame.begin(&[], current.number, current.end);
        Self { place, store, frame, file: None, segments: Vec::new(), current }
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        let is_full = |frame: &Builder| frame.size().is_none_or(|size| size >= FRAME + HEADER);
        if is_full(&self.frame) {
            self.write()?;
        }
        // Else the offset of an entry might not be a number of 32 bits.
        if self.current.end >= SEGMENT {
            self.seal()?;
        }
        self.frame.add(table, key, Change::Put(value)).ok_or_else(|| damaged("a record is too long"))
    }

    /// Writes the frame.
    fn write(&mut self) -> Result<(), StorageError> {
        let Extent { number, end, next, .. } = self.current;
        let name = files::segment(number);
        let numbers = Numbers { store: self.store, epoch: 0, commit: next, synced: 0 };
        let (start, length) = (end, self.frame.finish(numbers, false));
        let end = length.and_then(|length| start.checked_add(length));
        let end = end.ok_or_else(|| damaged("a frame is too long"))?;
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.place.create_file(number)?),
        };
        file.write(start.into(), self.frame.bytes()).map_err(|error| failed("writing", &name, error))?;
        (self.current.end, self.current.next) = (end, next + 1);
        self.frame.begin(&[], number, end);
        Ok(())
    }

    /// Completes the segment, and begins the next one. The frame is empty.
    fn seal(&mut self) -> Result<(), StorageError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let Extent { number, end, next, .. } = self.current;
        let name = files::segment(number);
        let size = end.checked_next_multiple_of(PAGE).ok_or_else(|| damaged("a segment is too long"))?;
        file.set_len(size.into()).map_err(|error| failed("writing", &name, error))?;
        file.sync().map_err(|error| unknown("syncing", &name, error))?;
        self.segments.push(Extent { size, ..self.current });
        self.current = Extent { number: number + 1, size: 0, end: 0, first: next, next };
        self.frame.begin(&[], number + 1, 0);
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Extent>, StorageError> {
        if !self.frame.is_empty() {
            self.write()?;
        }
        self.seal()?;
        Ok(self.segments)
    }
}
