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
    frame::{HEADER, Header},
    frames::Frames,
    head::{Extent, Head},
    place::ReadOnly,
    shared::{ReadAhead, verified},
    state::{Segment, State},
    unreadable::Unreadable,
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

    fn add(&mut self, damages: Vec<String>) {
        for damage in damages {
            self.damaged(damage);
        }
    }
}

/// Passes every good record to `visit`, table after table, and writes nothing. It skips what is damaged or cannot be read.
///
/// Where a record is damaged, an earlier one of the same key may appear, also one that was removed.
pub(crate) fn salvage(folder: &Path, visit: &mut Visit<'_>) -> Result<Salvaged, StorageError> {
    salvage_from(&RealFolder::new(folder), visit)
}

pub(super) fn salvage_from(folder: &dyn Folder, visit: &mut Visit<'_>) -> Result<Salvaged, StorageError> {
    let place = ReadOnly::open(folder)?;
    let mut salvage = Salvage { has_head: true, ..Salvage::default() };
    let head = match place.head() {
        Ok(head) => head,
        Err(error) if error.kind() == StorageErrorKind::NewerFormat => return Err(error),
        Err(error) => {
            salvage.has_head = false;
            salvage.found.damaged(error.detail());
            let Some(head) = salvage.without_head(&place)? else {
                salvage.found.damaged("no segment has a frame");
                salvage.found.add(salvage.unreadable.damages());
                return Ok(salvage.found);
            };
            head
        }
    };
    salvage.found.expected = head.records;
    for extent in &head.segments {
        match opened(&place, extent.number, &salvage.unreadable) {
            Ok((file, length)) => {
                let size = length.min(extent.size);
                salvage.state.add(extent.number, Segment::new(file, Extent { size, ..*extent }));
            }
            Err(error) => salvage.found.damaged(error.detail()),
        }
    }
    let last = head.segments.last().map(|last| last.number).filter(|_| head.records.is_none());
    for extent in &head.segments {
        salvage.segment(&head, *extent, last == Some(extent.number))?;
    }
    salvage.visit(head.store, visit)?;
    salvage.found.add(salvage.unreadable.damages());
    Ok(salvage.found)
}

/// Opens a segment so that every place of it reads. Returns its length too.
fn opened(place: &ReadOnly<'_>, number: u32, unreadable: &Unreadable) -> Result<(Arc<dyn Storage>, u32), StorageError> {
    let file = place.segment(number)?;
    let length = file.len().map_err(|error| failed("reading", &files::segment(number), error))?;
    Ok((unreadable.file(number, file), u32::try_from(length).unwrap_or(u32::MAX)))
}

#[derive(Default)]
struct Salvage {
    state: State,
    found: Salvaged,
    /// Whether it is known where the segments end.
    has_head: bool,
    unreadable: Unreadable,
}

impl Salvage {
    /// Returns what a head would have whose file is gone or damaged. Nothing is certain of the ends of the segments.
    /// `None` if no segment has a frame.
    fn without_head(&mut self, place: &ReadOnly<'_>) -> Result<Option<Head>, StorageError> {
        let mut files = Vec::new();
        for number in place.segments()? {
            match opened(place, number, &self.unreadable) {
                Ok((file, length)) => files.push((number, length, file)),
                Err(error) => self.found.damaged(error.detail()),
            }
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

    /// Reads a segment frame by frame. Where one is damaged, it reads the records up to the next one.
    fn segment(&mut self, head: &Head, extent: Extent, is_last: bool) -> Result<(), StorageError> {
        let number = extent.number;
        let Some(segment) = self.state.segments.get(&number) else { return Ok(()) };
        let (file, size) = (Arc::clone(&segment.file), segment.size);
        if size < extent.size {
            self.found.damaged(at(number, size, "it is cut off"));
        }
        let frames = Frames { file, store: head.store, segment: number, size };
        // The next commit that the head does not count.
        let (mut offset, mut next, mut records) = (0, extent.next, Vec::new());
        while offset < size {
            let is_counted = offset < extent.end;
            if !(is_counted || is_last || !self.has_head) {
                return Ok(());
            }
            let is_open = !is_counted && self.has_head;
            records.clear();
            let what = match frames.read(offset, &mut records)? {
                Ok(found) if !is_open || (found.header.epoch, found.header.commit) == (head.epoch, next) => {
                    self.records(number, found.records, &records);
                    offset = found.end;
                    next = next.saturating_add(is_open.into());
                    continue;
                }
                Ok(_) => "a frame is of an earlier use",
                Err(what) => what,
            };
            let is_later = |header: &Header| !self.has_head || header.epoch == head.epoch;
            // Beyond what the head counts, the log ends here unless this was on the disk, as when a store is opened. What
            // reports that may be unreadable.
            let is_reported = |header: &Header| is_later(header) && header.synced >= next;
            if is_open && frames.find(offset, is_reported)?.is_none() && !self.unreadable.is_from(number, offset) {
                return Ok(());
            }
            let after = offset.saturating_add(1);
            let is_frame = |header: &Header| header.length.is_some() && (is_counted || is_later(header));
            let found = match frames.find(after, is_frame)? {
                None if !is_counted => frames
                    .find(offset, |header| is_later(header) && header.length.is_none())?
                    .filter(|(mark, _)| *mark > offset),
                found => found,
            };
            let end = match found {
                Some((end, header)) if !is_counted || end < extent.end => {
                    if is_open {
                        next = header.commit;
                    }
                    end
                }
                _ if is_counted => extent.end.min(size),
                _ if is_open => size,
                _ => return Ok(()),
            };
            self.found.damaged(at(number, offset, what));
            let start = offset.saturating_add(HEADER).min(end);
            records.resize((end - start) as usize, 0);
            frames.bytes(start, &mut records)?;
            self.records(number, start, &records);
            offset = end;
        }
        Ok(())
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

    fn visit(&mut self, store: u64, visit: &mut Visit<'_>) -> Result<(), StorageError> {
        let mut ahead = ReadAhead::default();
        for table in Table::ALL {
            for (key, place) in self.state.index.iter(table) {
                let Some(segment) = self.state.segments.get(&place.segment) else { continue };
                let file = Arc::clone(&segment.file);
                let frames = Frames { file, store, segment: place.segment, size: segment.size };
                // What was good when its segment was read may be damaged by now.
                match verified(table, key.bytes(), place, ahead.read(&frames, place)?) {
                    Ok(value) => {
                        self.found.records += 1;
                        visit(table, key.bytes(), value)?;
                    }
                    Err(error) => self.found.damaged(error.detail()),
                }
            }
        }
        Ok(())
    }
}

fn described(segment: u32, offset: u32, entry: Option<Entry<'_>>) -> String {
    let damage = at(segment, offset, "its checksum is wrong");
    match entry {
        Some(entry) if matches!(entry.change, Change::Put(_)) => record(entry.table.name(), entry.key, &damage),
        _ => at(segment, offset, "a record is damaged"),
    }
}
