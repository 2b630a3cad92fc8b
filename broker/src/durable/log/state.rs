use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    super::{disk::Storage, journal::Table},
    entry::{Change, Malformed, Span, entries},
    head::Extent,
    index::{Index, Place},
};

/// What the records of a log amount to: where each value is, and which segments are needed.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) index: Index,
    pub(super) segments: BTreeMap<u32, Segment>,
    /// Bytes of entries that are needed, in all segments.
    live: u64,
    /// Bytes of all segments, and of those of them that only wait to be freed.
    total: u64,
    drained: u64,
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: Arc<dyn Storage>,
    pub(super) size: u32,
    /// Where the next frame begins.
    pub(super) end: u32,
    /// The numbers of the first commit in it, and of the first one after it.
    pub(super) first: u64,
    pub(super) next: u64,
    /// Bytes of entries whose values are the latest.
    pub(super) live: u64,
    /// Bytes of removals. A removal is needed while another of its segments exists, since a value there would count
    /// otherwise.
    removals: BTreeMap<Span, u64>,
    /// Whether all that is needed was copied out of it.
    is_drained: bool,
}

impl Segment {
    pub(super) fn new(file: Arc<dyn Storage>, extent: Extent) -> Self {
        let Extent { size, end, first, next, .. } = extent;
        Self { file, size, end, first, next, live: 0, removals: BTreeMap::new(), is_drained: false }
    }
}

impl State {
    pub(super) fn add(&mut self, number: u32, segment: Segment) {
        self.total += u64::from(segment.size);
        self.segments.insert(number, segment);
    }

    /// Removes a segment that is not needed.
    pub(super) fn free(&mut self, number: u32) -> Option<Segment> {
        let segment = self.segments.remove(&number)?;
        self.total -= u64::from(segment.size);
        if segment.is_drained {
            self.drained -= u64::from(segment.size);
        } else {
            self.live -= segment.removals.values().sum::<u64>();
        }
        Some(segment)
    }

    /// Applies the records of a frame, which begin at this offset of a segment.
    pub(super) fn apply(&mut self, segment: u32, offset: u32, records: &[u8]) -> Result<(), Malformed> {
        for entry in entries(records, offset) {
            let entry = entry?;
            let before = match entry.change {
                Change::Put(_) => {
                    let segments = &self.segments;
                    let before = self.index.set(entry.table, entry.key, |before| {
                        let oldest = before.map_or(segment, |before| oldest(segments, before));
                        Place { segment, offset: entry.offset, length: entry.length, oldest }
                    });
                    if let Some(segment) = self.segments.get_mut(&segment) {
                        segment.live += u64::from(entry.length);
                    }
                    before
                }
                Change::Removed(span) => {
                    if let Some(segment) = self.segments.get_mut(&segment) {
                        *segment.removals.entry(span).or_default() += u64::from(entry.length);
                    }
                    self.index.remove(entry.table, entry.key)
                }
            };
            self.live += u64::from(entry.length);
            if let Some(before) = before {
                self.live -= u64::from(before.length);
                if let Some(segment) = self.segments.get_mut(&before.segment) {
                    segment.live -= u64::from(before.length);
                }
            }
        }
        Ok(())
    }

    /// Returns the bytes of entries that are needed.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Returns the segments that may have values of the key with this place.
    pub(super) fn span(&self, place: Place) -> Span {
        Span { oldest: oldest(&self.segments, place), newest: place.segment }
    }

    /// Whether a removal is needed when this segment is gone.
    pub(super) fn is_needed(&self, span: Span, without: u32) -> bool {
        self.segments.range(span.oldest..=span.newest).any(|(number, _)| *number != without)
    }

    /// Records that a value of a key in an older segment is no longer covered by a removal of its own.
    pub(super) fn widen(&mut self, table: Table, key: &[u8], oldest: u32) {
        if let Some(place) = self.index.get(table, key) {
            self.index.set(table, key, |_| Place { oldest: place.oldest.min(oldest), ..place });
        }
    }

    /// Records that all that is needed was copied out of a segment.
    pub(super) fn set_drained(&mut self, number: u32) {
        if let Some(segment) = self.segments.get_mut(&number)
            && !segment.is_drained
        {
            segment.is_drained = true;
            self.drained += u64::from(segment.size);
            // Those that are needed were copied.
            self.live -= segment.removals.values().sum::<u64>();
        }
    }

    /// Returns the segments that can be freed together, except for the one that is written to.
    pub(super) fn freeable(&self, active: u32) -> BTreeSet<u32> {
        let mut freed = BTreeSet::new();
        // Removals depend on older segments only.
        for (&number, segment) in &self.segments {
            let is_needed = |span: &Span| {
                let mut others = self.segments.range(span.oldest..=span.newest);
                others.any(|(other, _)| *other != number && !freed.contains(other))
            };
            let is_free = segment.live == 0 && (segment.is_drained || !segment.removals.keys().any(is_needed));
            if number != active && is_free {
                freed.insert(number);
            }
        }
        freed
    }

    /// Returns the segment before this one from which the least has to be copied for the space that it returns, if that
    /// is at least a sixteenth of its size.
    pub(super) fn emptiest(&self, before: u32) -> Option<u32> {
        let needed = |number: u32, segment: &Segment| {
            let removals = segment.removals.iter().filter(|(span, _)| self.is_needed(**span, number));
            segment.live + removals.map(|(_, bytes)| bytes).sum::<u64>()
        };
        let candidates = self.segments.range(..before).filter(|(_, it)| !it.is_drained);
        let rated = candidates.map(|(number, it)| (needed(*number, it) * 1_024 / u64::from(it.size).max(1), *number));
        rated.filter(|(share, _)| *share <= 960).min().map(|(_, number)| number)
    }

    /// Returns by how many bytes segments take up more than they should: some are emptied then. With the spare one and
    /// half a segment that is filled meanwhile, the store then does not [exceed](Self::exceeds) its size.
    pub(super) fn excess(&self, largest: u64) -> u64 {
        (self.total - self.drained).saturating_sub(2 * self.live + largest / 2)
    }

    /// Whether the segments, and a spare one of this size, take up more than the store should have at most: twice what is
    /// needed and two segments.
    pub(super) fn exceeds(&self, spare: u64, largest: u64) -> bool {
        self.total + spare > 2 * self.live + 2 * largest
    }

    /// Whether emptied segments should be freed without waiting for the next segment.
    pub(super) fn has_drained(&self, spare: u64, largest: u64) -> bool {
        self.drained > 0 && self.exceeds(spare + largest / 2, largest)
    }

    /// Whether segments that are not needed take up so much that they should be freed at once.
    pub(super) fn has_unused(&self, active: u32, largest: u64) -> bool {
        // Those that only wait to be freed count here.
        let segments = self.segments.iter().filter(|(number, it)| **number != active && it.live == 0);
        let unused: u64 = segments.map(|(_, it)| u64::from(it.size)).sum();
        unused > largest && !self.freeable(active).is_empty()
    }
}

/// Returns the first segment that may have an earlier value of the key with this place.
fn oldest(segments: &BTreeMap<u32, Segment>, place: Place) -> u32 {
    let mut existing = segments.range(place.oldest..=place.segment);
    existing.next().map_or(place.segment, |(number, _)| *number)
}
