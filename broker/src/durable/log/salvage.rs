use std::{path::Path, sync::Arc};

use super::{
    super::{
        StorageError, StorageErrorKind,
        disk::{Folder, RealFolder, Storage},
        journal::{Table, Visit},
    },
    damage::{at, failed, record},
    entry::{self, Change, Entry},
    files,
    frame::HEADER,
    frames::Frames,
    head::{Extent, Head},
    place::ReadOnly,
    shared::{ReadAhead, verified},
    state::{Segment, State},
};

/// The result of reading a damaged store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvaged {
    /// Records that are good.
    pub(crate) records: u64,
    /// How many there should be, if the store was closed and that can still be read.
    pub(crate) expected: Option<u64>,
    /// The damages, and where they are: the first [`MOST`](Self::MOST).
    pub(crate) damages: Vec<String>,
}

impl Salvaged {
    pub(crate) const MOST: usize = 10_000;

    fn damaged(&mut self, what: impl Into<String>) {
        if self.damages.len() < Self::MOST {
            self.damages.push(what.into());
        }
    }
}

/// Passes every good record to `visit`, table after table, and writes nothing. It skips what is damaged.
///
/// Where a record is damaged, an earlier one of the same key may appear, also one that was removed.
pub(crate) fn salvage(folder: &Path, visit: &mut Visit<'_>) -> Result<Salvaged, StorageError> {
    salvage_from(&RealFolder::new(folder), visit)
}

pub(super) fn salvage_from(folder: &dyn Folder, visit: &mut Visit<'_>) -> Result<Salvaged, StorageError> {
    let place = ReadOnly::open(folder)?;
    let mut salvage = Salvage::default();
    let head = match place.head() {
        Ok(head) => head,
        Err(error) if error.kind() == StorageErrorKind::NewerFormat => return Err(error),
        Err(error) => {
            salvage.found.damaged(error.detail());
            let Some(head) = without_head(&place)? else {
                salvage.found.damaged("no segment has a frame");
                return Ok(salvage.found);
            };
            head
        }
    };
    salvage.found.expected = head.records;
    for extent in &head.segments {
        match place.segment(extent.number) {
            Ok(file) => {
                let size = length(&*file, extent.number)?.min(extent.size);
                salvage.state.add(extent.number, Segment::new(file, Extent { size, ..*extent }));
            }
            Err(error) => salvage.found.damaged(error.detail()),
        }
    }
    let last = head.segments.last().map(|last| last.number).filter(|_| head.records.is_none());
    for extent in &head.segments {
        salvage.segment(&head, *extent, last == Some(extent.number))?;
    }
    salvage.visit(head.store, visit)
}

/// Returns what a head would have whose file is gone or damaged. Nothing is certain of the ends of the segments. `None`
/// if no segment has a frame.
fn without_head(place: &ReadOnly<'_>) -> Result<Option<Head>, StorageError> {
    let mut files = Vec::new();
    for number in place.segments()? {
        let file = place.segment(number)?;
        files.push((number, length(&*file, number)?, file));
    }
    // The first frame of any segment has the number of the store.
    let mut store = None;
    for (number, size, file) in &files {
        if let Some(found) = Frames::any_store(&**file, *number, *size)? {
            store = Some(found);
            break;
        }
    }
    let Some(store) = store else { return Ok(None) };
    let (mut epoch, mut segments) = (0, Vec::new());
    for (number, size, file) in files {
        let frames = Frames { file, store, segment: number, size };
        let mut from = 0;
        while let Some((offset, header)) = frames.find(from, |_| true)? {
            epoch = epoch.max(header.epoch);
            from = offset + HEADER;
        }
        segments.push(Extent { number, size, end: 0, first: 0, next: 0 });
    }
    Ok(Some(Head { store, epoch, records: None, segments }))
}

#[derive(Default)]
struct Salvage {
    state: State,
    found: Salvaged,
}

impl Salvage {
    /// Reads a segment frame by frame. Where one is damaged, it reads the records up to the next one.
    fn segment(&mut self, head: &Head, extent: Extent, is_last: bool) -> Result<(), StorageError> {
        let number = extent.number;
        let Some(segment) = self.state.segments.get(&number) else { return Ok(()) };
        let (file, size) = (Arc::clone(&segment.file), segment.size);
        if size < extent.size {
            self.found.damaged(at(number, size, "it is cut off"));
        }
        let frames = Frames { file, store: head.store, segment: number, size };
        let (mut offset, mut records) = (0, Vec::new());
        loop {
            let is_counted = offset < extent.end;
            if !(is_counted || is_last || extent.end == 0) {
                return Ok(());
            }
            records.clear();
            let what = match frames.read(offset, &mut records)? {
                Ok(found) if is_counted || extent.end == 0 || found.header.epoch == head.epoch => {
                    self.records(number, found.records, &records);
                    offset = found.end;
                    continue;
                }
                Ok(_) => "a frame is of an earlier use",
                Err(what) => what,
            };
            // Beyond what the head counts, the log may just end here.
            let is_later = |epoch: u32| extent.end == 0 || epoch == head.epoch;
            let next = frames.find(offset.saturating_add(1), |header| {
                header.length.is_some() && (is_counted || is_later(header.epoch))
            })?;
            let next = next.map(|(next, _)| next).filter(|next| !is_counted || *next < extent.end);
            let end = match next {
                Some(next) => next,
                None if is_counted => extent.end.min(size),
                None => {
                    let reported = frames.find(offset, |header| is_later(header.epoch) && header.length.is_none())?;
                    match reported.filter(|(mark, _)| *mark > offset) {
                        Some((mark, _)) => mark,
                        None => return Ok(()),
                    }
                }
            };
            if offset >= size {
                return Ok(());
            }
            self.found.damaged(at(number, offset, what));
            let start = offset.saturating_add(HEADER).min(end);
            records.resize((end - start) as usize, 0);
            frames.bytes(start, &mut records)?;
            self.records(number, start, &records);
            offset = end;
        }
    }

    /// Applies the good records among these bytes of a segment.
    fn records(&mut self, segment: u32, start: u32, bytes: &[u8]) {
        let (mut done, mut is_reported) = (0, false);
        while done < bytes.len() {
            let offset = start.saturating_add(u32::try_from(done).unwrap_or(u32::MAX));
            let rest = &bytes[done..];
            let found = entry::read(rest, offset);
            match found.filter(|entry| entry.is_intact(segment)) {
                Some(entry) => {
                    self.apply(segment, entry, rest);
                    done += entry.length as usize;
                    is_reported = false;
                }
                // All that is left is what fills the last sector.
                None if !is_reported && rest.iter().all(|byte| *byte == 0) => return,
                None => {
                    if !is_reported {
                        self.found.damaged(described(segment, offset, found));
                    }
                    is_reported = true;
                    done += 1;
                }
            }
        }
    }

    fn apply(&mut self, segment: u32, entry: Entry<'_>, bytes: &[u8]) {
        let bytes = &bytes[..entry.length as usize];
        // It is one whole entry.
        let _ = self.state.apply(segment, entry.offset, bytes);
    }

    fn visit(mut self, store: u64, visit: &mut Visit<'_>) -> Result<Salvaged, StorageError> {
        let mut ahead = ReadAhead::default();
        for table in Table::ALL {
            for (key, place) in self.state.index.iter(table) {
                let Some(segment) = self.state.segments.get(&place.segment) else { continue };
                let file = Arc::clone(&segment.file);
                let frames = Frames { file, store, segment: place.segment, size: segment.size };
                let value = verified(table, key.bytes(), place, ahead.read(&frames, place)?)?;
                self.found.records += 1;
                visit(table, key.bytes(), value)?;
            }
        }
        Ok(self.found)
    }
}

fn length(file: &dyn Storage, number: u32) -> Result<u32, StorageError> {
    let length = file.len().map_err(|error| failed("reading", &files::segment(number), error))?;
    Ok(u32::try_from(length).unwrap_or(u32::MAX))
}

fn described(segment: u32, offset: u32, entry: Option<Entry<'_>>) -> String {
    let damage = at(segment, offset, "its checksum is wrong");
    match entry {
        Some(entry) if matches!(entry.change, Change::Put(_)) => record(entry.table.name(), entry.key, &damage),
        _ => at(segment, offset, "a record is damaged"),
    }
}
