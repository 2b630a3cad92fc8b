use std::sync::Arc;

use super::{
    super::{StorageError, disk::Storage},
    damage::failed,
    files,
    frame::{HEADER, Header, LEN, SECTOR, Spot, padded},
};

/// Reads the frames of one segment.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    pub(super) file: Arc<dyn Storage>,
    pub(super) store: u64,
    pub(super) segment: u32,
    /// The length of the file.
    pub(super) size: u32,
}

/// A frame that is as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) header: Header,
    /// Where its records begin.
    pub(super) records: u32,
    /// Where it ends.
    pub(super) end: u32,
}

impl Frames {
    /// How much is read at once where headers are searched.
    const CHUNK: u32 = 1 << 20;

    /// Reads the frame at an offset, and appends its records. If it is damaged, or if there is none, returns what is wrong.
    pub(super) fn read(&self, offset: u32, records: &mut Vec<u8>) -> Result<Result<Found, &'static str>, StorageError> {
        let Some(header) = self.header(offset)? else { return Ok(Err("the header of a frame is damaged")) };
        let Some(length) = header.length else { return Ok(Err("a frame is missing")) };
        let Some(start) = offset.checked_add(HEADER) else { return Ok(Err("a frame is too long")) };
        // Before the length is used.
        let end = padded(length).and_then(|length| offset.checked_add(length)).filter(|end| *end <= self.size);
        let Some(end) = end else { return Ok(Err("a frame is too long")) };
        let before = records.len();
        records.resize(before + length as usize, 0);
        let records = &mut records[before..];
        self.bytes(start, records)?;
        if crc32fast::hash(records) != header.checksum {
            return Ok(Err("the records of a frame are damaged"));
        }
        Ok(Ok(Found { header, records: start, end }))
    }

    /// Returns the header at an offset, if it is one of this segment, as it was written there.
    pub(super) fn header(&self, offset: u32) -> Result<Option<Header>, StorageError> {
        if offset.checked_add(HEADER).is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        let mut bytes = [0; LEN];
        self.bytes(offset, &mut bytes)?;
        Ok(self.decode(offset, &bytes))
    }

    fn decode(&self, offset: u32, bytes: &[u8; LEN]) -> Option<Header> {
        let spot = Spot { store: self.store, segment: self.segment, offset };
        Header::decode(bytes).filter(|header| header.spot == spot)
    }

    /// Returns the first header from an offset on that meets a condition, and where it is.
    pub(super) fn find(
        &self,
        from: u32,
        mut is_it: impl FnMut(&Header) -> bool,
    ) -> Result<Option<(u32, Header)>, StorageError> {
        let mut bytes = Vec::new();
        let mut start = from.next_multiple_of(SECTOR);
        while start < self.size {
            let end = self.size.min(start.saturating_add(Self::CHUNK));
            bytes.resize((end - start) as usize, 0);
            self.bytes(start, &mut bytes)?;
            for (offset, sector) in (start..end).step_by(SECTOR as usize).zip(bytes.chunks(SECTOR as usize)) {
                let header = sector.first_chunk().and_then(|bytes| self.decode(offset, bytes));
                if let Some(header) = header.filter(&mut is_it) {
                    return Ok(Some((offset, header)));
                }
            }
            start = end;
        }
        Ok(None)
    }

    /// Returns the number of the store that the first header of a segment names, whichever store it is.
    pub(super) fn any_store(file: &dyn Storage, segment: u32, size: u32) -> Result<Option<u64>, StorageError> {
        for offset in (0..size.saturating_sub(HEADER)).step_by(SECTOR as usize) {
            let mut bytes = [0; LEN];
            read(file, segment, offset, &mut bytes)?;
            let header = Header::decode(&bytes).filter(|it| (it.spot.segment, it.spot.offset) == (segment, offset));
            if let Some(header) = header {
                return Ok(Some(header.spot.store));
            }
        }
        Ok(None)
    }

    pub(super) fn bytes(&self, offset: u32, out: &mut [u8]) -> Result<(), StorageError> {
        read(&*self.file, self.segment, offset, out)
    }
}

fn read(file: &dyn Storage, segment: u32, offset: u32, out: &mut [u8]) -> Result<(), StorageError> {
    let read = file.read(offset.into(), out);
    read.map_err(|error| failed("reading", &format!("{}, offset {offset}", files::segment(segment)), error))
}
