//! Reads a segment also where its disk fails.

use std::{collections::BTreeSet, io, sync::Arc};

use parking_lot::Mutex;

use super::{super::disk::Storage, damage::at, frame::PAGE};

/// The pages that cannot be read: their segments and offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct Unreadable(Arc<Mutex<BTreeSet<(u32, u64)>>>);

impl Unreadable {
    const PAGE: u64 = PAGE as u64;

    /// Returns a file that reads as zeros where this one cannot be read. It is only read.
    pub(super) fn file(&self, segment: u32, file: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(Readable { file, segment, unreadable: self.clone() })
    }

    /// Whether there is one in this segment, with or behind this offset.
    pub(super) fn is_from(&self, segment: u32, offset: u32) -> bool {
        let first = u64::from(offset - offset % PAGE);
        self.0.lock().range((segment, first)..=(segment, u64::MAX)).next().is_some()
    }

    /// Describes each range of these pages.
    pub(super) fn damages(&self) -> Vec<String> {
        let pages = self.0.lock();
        let follows = |segment, offset: u64| offset.checked_sub(Self::PAGE).map(|before| (segment, before));
        let first = pages
            .iter()
            .filter(|(segment, offset)| follows(*segment, *offset).is_none_or(|before| !pages.contains(&before)));
        let described = |&(segment, offset): &(u32, u64)| {
            at(segment, u32::try_from(offset).unwrap_or(u32::MAX), "it cannot be read")
        };
        first.map(described).collect()
    }
}

#[derive(Debug)]
struct Readable {
    file: Arc<dyn Storage>,
    segment: u32,
    unreadable: Unreadable,
}

impl Storage for Readable {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        let first = offset - offset % Unreadable::PAGE;
        // A disk may take long to fail, so that a page is tried once.
        let has_failed = self.unreadable.0.lock().range((self.segment, first)..(self.segment, end)).next().is_some();
        if !has_failed && self.file.read(offset, out).is_ok() {
            return Ok(());
        }
        let (mut start, mut rest) = (offset, out);
        while !rest.is_empty() {
            let page = start - start % Unreadable::PAGE;
            let length = usize::try_from(page + Unreadable::PAGE - start).unwrap_or(usize::MAX).min(rest.len());
            let (piece, after) = rest.split_at_mut(length);
            let is_known = self.unreadable.0.lock().contains(&(self.segment, page));
            if is_known || self.file.read(start, piece).is_err() {
                piece.fill(0);
                self.unreadable.0.lock().insert((self.segment, page));
            }
            (start, rest) = (start + length as u64, after);
        }
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn unlock(&self) {
        self.file.unlock();
    }
}
