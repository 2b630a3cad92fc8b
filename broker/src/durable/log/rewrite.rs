//! Writes frames again that only the page cache may have.
//!
//! A sync that fails may leave pages in the cache that are not on the disk, and that no later sync writes. When the store
//! is opened again, they read as if they were on the disk. Only another write makes them so.

use super::{
    super::StorageError,
    damage::{at, damaged, failed},
    files,
    frame::LEN,
    frames::Frames,
    journal::LogJournal,
};
use crate::sabotage::Defect;

impl LogJournal {
    /// Puts the frames on the disk that the last head did not count, before a head counts them.
    pub(super) fn rewrite_uncounted(&self) -> Result<(), StorageError> {
        let (Some(mut offset), Some(active)) = (self.uncounted, &self.active) else { return Ok(()) };
        if offset == active.end || Defect::TrustCache.is_there() {
            return Ok(());
        }
        let number = active.number;
        let file = active.file.clone();
        let frames = Frames { file, store: self.shared.store, segment: number, size: active.size };
        let mut bytes = Vec::new();
        while offset < active.end {
            bytes.clear();
            bytes.resize(LEN, 0);
            // The cache may have dropped a page since the store was opened.
            let found = frames.read(offset, &mut bytes)?.map_err(|what| damaged(at(number, offset, what)))?;
            bytes[..LEN].copy_from_slice(&found.header.encode());
            bytes.resize((found.end - offset) as usize, 0);
            let written = active.file.write(offset.into(), &bytes);
            written.map_err(|error| failed("writing", &files::segment(number), error))?;
            offset = found.end;
        }
        active.sync()
    }
}
