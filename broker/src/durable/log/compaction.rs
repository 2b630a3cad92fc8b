//! Copies what is needed out of segments that have little of it, so that they can be freed.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    super::{
        StorageError,
        journal::{Batch, Table},
    },
    cursor::Cursor,
    damage::{at, damaged},
    entry::{self, Change},
    frame::SECTOR,
    frames::Frames,
    journal::LogJournal,
    writer::frame_of_one,
};

impl LogJournal {
    /// Bytes that are copied with each commit, beside twice the size of its batch.
    const COPIED: u32 = 16 << 10;
    /// Bytes that are copied with a commit at most for the reason that segments take up too much.
    const MOST_COPIED: u64 = 4 << 20;
    /// Bytes that are copied at once where nothing else is committed.
    const TOGETHER: u32 = 1 << 20;

    /// Returns how much a commit copies. Chooses a segment to be emptied, if there should be one.
    pub(super) fn budget(&mut self, batch: &Batch) -> u32 {
        if self.cursor.is_none() {
            let Some(active) = &self.active else { return 0 };
            let chosen = {
                let state = self.shared.state.read();
                let is_wanted = self.is_full || state.excess(self.options.largest.into()) > 0;
                if !is_wanted || self.rest.is_some_and(|rest| state.live() >= rest) {
                    return 0;
                }
                let chosen = state.emptiest(active.number);
                let rest = state.live().saturating_sub(u64::from(self.options.largest / 16));
                self.rest = chosen.is_none().then_some(rest);
                chosen
            };
            match chosen {
                None => return 0,
                Some(chosen) => self.empty(chosen),
            }
        }
        // Removals are small, and what they remove is not. So the more segments take up, the more is copied.
        let excess = self.shared.state.read().excess(self.options.largest.into()).min(Self::MOST_COPIED);
        let budget = 2 * batch.size() as u64 + excess + u64::from(Self::COPIED);
        u32::try_from(budget).unwrap_or(u32::MAX)
    }

    /// Begins to empty a segment.
    fn empty(&mut self, number: u32) {
        self.wanted = 0;
        self.cursor = self.shared.state.read().segments.get(&number).map(|segment| Cursor {
            frames: Frames {
                file: Arc::clone(&segment.file),
                store: self.shared.store,
                segment: number,
                size: segment.size,
            },
            end: segment.end,
            next: 0,
            records: Vec::new(),
            start: 0,
            done: 0,
            is_over: false,
        });
    }

    /// Adds entries from the segment that is being emptied to the frame, which may have up to `space` bytes.
    pub(super) fn copy_some(&mut self, batch: &Batch, budget: u32, space: u32) -> Result<(), StorageError> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let touched: BTreeSet<(Table, &[u8])> = batch.iter().map(|(table, key, _)| (table, key)).collect();
        let (mut left, mut has_copied) = (budget, false);
        loop {
            if cursor.done >= cursor.records.len() {
                if !cursor.read_on()? {
                    return Ok(());
                }
                // To read takes time too.
                left = left.saturating_sub(u32::try_from(cursor.records.len() / 8).unwrap_or(u32::MAX));
                continue;
            }
            let segment = cursor.frames.segment;
            let offset = cursor.start.saturating_add(u32::try_from(cursor.done).unwrap_or(u32::MAX));
            let entry = entry::read(&cursor.records[cursor.done..], offset);
            let entry = entry.ok_or_else(|| damaged(at(segment, offset, "a record is malformed")))?;
            let state = self.shared.state.read();
            let place = state.index.get(entry.table, entry.key);
            let is_touched = touched.contains(&(entry.table, entry.key));
            let (is_needed, oldest) = match entry.change {
                // The batch, which comes first in the frame, replaces or removes the value.
                Change::Put(_) if is_touched => (false, None),
                Change::Put(_) => (place.is_some_and(|it| (it.segment, it.offset) == (segment, offset)), None),
                // A removal that follows the value would remove it.
                Change::Removed(span) if place.is_some() => (false, Some(span.oldest)),
                Change::Removed(span) => (state.is_needed(span, segment), None),
            };
            drop(state);
            // The next commit copies what is needed then.
            if (is_needed || oldest.is_some()) && is_touched {
                return Ok(());
            }
            if is_needed {
                let size = self.frame.size().unwrap_or(u32::MAX);
                if size.saturating_add(entry.length).next_multiple_of(SECTOR) > space {
                    self.wanted = frame_of_one(entry.length);
                    return Ok(());
                }
                if has_copied && entry.length > left {
                    return Ok(());
                }
                has_copied = true;
                let added = self.frame.add(entry.table, entry.key, entry.change);
                added.ok_or_else(|| damaged(at(segment, offset, "a record is too long")))?;
                left = left.saturating_sub(entry.length);
            }
            if let Some(oldest) = oldest {
                self.shared.state.write().widen(entry.table, entry.key, oldest);
            }
            cursor.done += entry.length as usize;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Records that a segment was emptied, if the frame with the last of its entries was written.
    pub(super) fn end_copying(&mut self) {
        if let Some(cursor) = self.cursor.take_if(|cursor| cursor.is_over) {
            self.shared.state.write().set_drained(cursor.segment());
        }
    }

    /// Does a part of a compaction, which empties all segments that have space to return, and frees them. `true` at the
    /// end.
    pub(super) fn compact_on(&mut self) -> Result<bool, StorageError> {
        let Some(below) = self.compacts_below else { return self.begin_compaction() };
        if self.cursor.is_none() {
            let chosen = self.shared.state.read().emptiest(below);
            let Some(chosen) = chosen else { return self.end_compaction() };
            self.empty(chosen);
        }
        self.append(&Batch::default(), Self::TOGETHER, false)?;
        if self.cursor.is_none() {
            self.reclaim()?;
        }
        Ok(false)
    }

    /// Has what is copied go into new segments.
    fn begin_compaction(&mut self) -> Result<bool, StorageError> {
        self.prepare()?;
        let Some(is_begun) = self.active.as_ref().map(|active| active.end > 0) else { return Ok(true) };
        self.remove_spare()?;
        self.cursor = None;
        self.next_size = self.options.smallest;
        if is_begun {
            self.roll(0)?;
        }
        self.compacts_below = self.active.as_ref().map(|active| active.number);
        Ok(self.compacts_below.is_none())
    }

    fn end_compaction(&mut self) -> Result<bool, StorageError> {
        self.reclaim()?;
        self.remove_spare()?;
        self.sync()?;
        self.compacts_below = None;
        Ok(true)
    }
}
