//! Adds segments, and frees those that are not needed.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    super::{StorageError, StorageErrorKind, disk::Storage},
    active::{Active, Spare},
    ahead::AHEAD,
    damage::damaged,
    frame::{PAGE, SECTOR},
    head::{Extent, Head},
    journal::LogJournal,
    shared::extents,
    state::Segment,
};

impl LogJournal {
    /// Begins another segment if a frame of this length does not fit.
    pub(super) fn ensure_space(&mut self, length: u32) -> Result<(), StorageError> {
        if self.active.as_ref().is_some_and(|active| active.fits(length)) { Ok(()) } else { self.roll(length) }
    }

    /// Begins another segment, for a frame of this length, and frees those that are not needed.
    pub(super) fn roll(&mut self, length: u32) -> Result<(), StorageError> {
        // What the head counts has to be on the disk.
        self.sync()?;
        self.take_ahead()?;
        let last = self.active.as_ref().map_or(0, |active| active.number);
        let number = last
            .checked_add(1)
            .filter(|number| *number < AHEAD)
            .ok_or_else(|| damaged("head, offset 36: the last segment is used up"))?;
        let length = length.saturating_add(SECTOR);
        let (file, size) = self.retried(|journal| journal.new_segment(number, length))?;
        let extent = Extent { number, size, end: 0, first: self.commit, next: self.commit };
        let freed = self.shared.state.read().freeable(number);
        if let Err(error) = self.retried(|journal| journal.replace_head(&freed, Some(extent))) {
            if error.kind() == StorageErrorKind::Full {
                self.shared.place.remove_segment(number);
            }
            return Err(error);
        }
        self.shared.state.write().add(number, Segment::new(Arc::clone(&file), extent));
        self.active = Some(Active { number, file, size, end: 0, tail: Vec::new() });
        self.next_size = self.next_size.saturating_mul(4).min(self.options.largest);
        self.is_ahead_decided = false;
        self.dispose(&freed);
        Ok(())
    }

    /// Creates the file of a segment, or uses a freed one again.
    fn new_segment(&mut self, number: u32, length: u32) -> Result<(Arc<dyn Storage>, u32), StorageError> {
        if let Some(Spare { number: spare, file, size }) = self.spare.take_if(|spare| spare.size >= length) {
            self.shared.place.rename_segment(spare, number)?;
            return Ok((file, size));
        }
        let size = if self.is_full { self.options.smallest } else { self.next_size };
        let size = size.max(length).checked_next_multiple_of(PAGE).ok_or_else(|| damaged("a segment is too long"))?;
        let created = self.shared.place.create_segment(number, size);
        let file = created.inspect_err(|_| self.shared.place.remove_segment(number))?;
        Ok((file, size))
    }

    /// Replaces the head by one without freed segments, and with a new one.
    fn replace_head(&self, freed: &BTreeSet<u32>, new: Option<Extent>) -> Result<(), StorageError> {
        let mut segments = extents(&self.shared.state.read());
        segments.retain(|extent| !freed.contains(&extent.number));
        segments.extend(new);
        self.shared.place.write_head(&Head::of(self.shared.store, self.epoch, segments))
    }

    /// How many commits come before it is checked again whether segments should be freed.
    const CHECKED: u64 = 16;

    /// Frees segments that are not needed, where they take up much more than what is needed.
    pub(super) fn free_unused(&mut self) -> Result<(), StorageError> {
        let Some(active) = &self.active else { return Ok(()) };
        let spare = self.spare.as_ref().map_or(0, |spare| spare.size.into());
        let (largest, is_checked) = (self.options.largest.into(), self.commit.is_multiple_of(Self::CHECKED));
        let is_worthwhile = {
            let state = self.shared.state.read();
            state.has_drained(spare, largest) || is_checked && state.has_unused(active.number, largest)
        };
        self.limit_spare()?;
        match if is_worthwhile { self.reclaim() } else { Ok(()) } {
            // The batch is committed. The next segment frees them.
            Err(error) if error.kind() == StorageErrorKind::Full => Ok(()),
            freed => freed,
        }
    }

    /// Frees all segments that are not needed.
    pub(super) fn reclaim(&mut self) -> Result<(), StorageError> {
        let Some(active) = &self.active else { return Ok(()) };
        let freed = self.shared.state.read().freeable(active.number);
        if freed.is_empty() || !self.is_prepared {
            return Ok(());
        }
        self.sync()?;
        self.retried(|journal| journal.replace_head(&freed, None))?;
        self.dispose(&freed);
        self.limit_spare()
    }

    /// Removes the files of segments that the head no longer has, or keeps one.
    fn dispose(&mut self, freed: &BTreeSet<u32>) {
        self.rest = None;
        for &number in freed {
            let Some(segment) = self.shared.state.write().free(number) else { continue };
            self.cursor.take_if(|cursor| cursor.segment() == number);
            // A reader has the file.
            let is_read = Arc::strong_count(&segment.file) > 1;
            let is_kept = self.spare.is_none() && self.ahead.is_none() && !self.is_full && !is_read;
            if is_kept && segment.size == self.options.largest {
                self.spare = Some(Spare { number, file: segment.file, size: segment.size });
            } else {
                self.shared.place.remove_segment(number);
            }
        }
    }
}
