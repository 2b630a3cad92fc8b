use super::{
    super::journal::Table,
    entry::{self, Change},
    frame::{HEADER, Header, LEN, PAGE, SECTOR, Spot},
};

/// The frame that is being written, with what precedes it in its first page.
#[derive(Debug, Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    /// Where the frame begins in the bytes, and in its segment.
    start: usize,
    segment: u32,
    offset: u32,
    /// Where the records end in the bytes, once the frame is finished.
    end: usize,
}

/// The numbers of a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) store: u64,
    pub(super) epoch: u32,
    pub(super) commit: u64,
    pub(super) synced: u64,
}

impl Builder {
    /// How much memory is kept for the next frame.
    const KEPT: usize = 4 << 20;

    /// Begins a frame at this place, after the bytes of `tail` in the same page.
    pub(super) fn begin(&mut self, tail: &[u8], segment: u32, offset: u32) {
        self.bytes.clear();
        self.bytes.shrink_to(Self::KEPT);
        self.bytes.extend_from_slice(tail);
        (self.start, self.segment, self.offset) = (tail.len(), segment, offset);
        self.bytes.extend_from_slice(&[0; LEN]);
    }

    /// Adds an entry. `None` if its key or its value is too long.
    pub(super) fn add(&mut self, table: Table, key: &[u8], change: Change<'_>) -> Option<()> {
        let offset = self.offset.checked_add(self.size()?)?;
        entry::append(&mut self.bytes, self.segment, offset, table, key, change)
    }

    /// The bytes of the header and the records so far.
    pub(super) fn size(&self) -> Option<u32> {
        u32::try_from(self.bytes.len() - self.start).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == self.start + LEN
    }

    /// Writes the header, fills the last sector, and with `pages` the last page. Returns the length of the frame.
    pub(super) fn finish(&mut self, numbers: Numbers, pages: bool) -> Option<u32> {
        self.end = self.bytes.len();
        let records = &self.bytes[self.start + LEN..];
        let Numbers { store, epoch, commit, synced } = numbers;
        let header = Header {
            spot: Spot { store, segment: self.segment, offset: self.offset },
            epoch,
            commit,
            synced,
            length: Some(u32::try_from(records.len()).ok()?),
            checksum: crc32fast::hash(records),
        };
        let length = self.size()?.checked_next_multiple_of(SECTOR)?;
        self.bytes[self.start..self.start + LEN].copy_from_slice(&header.encode());
        let end = self.start + usize::try_from(length).ok()?;
        self.bytes.resize(if pages { end.next_multiple_of(PAGE as usize) } else { end }, 0);
        Some(length)
    }

    /// All that is to be written, from the start of the first page on.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records of the finished frame, and their offset in the segment.
    pub(super) fn records(&self) -> (&[u8], u32) {
        (&self.bytes[self.start + LEN..self.end], self.offset.saturating_add(HEADER))
    }
}
