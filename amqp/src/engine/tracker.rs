use std::collections::VecDeque;

use super::{DeliveryId, LinkId};

/// The unsettled deliveries of a session in one direction, by ascending id.
///
/// A settled delivery leaves a gap, which goes when it reaches an end or when the gaps are more than the deliveries. All operations on
/// a range take time by the tracked deliveries in it, whatever the range of the peer.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    entries: VecDeque<(DeliveryId, Option<LinkId>)>,
    live: usize,
}

impl Tracker {
    /// The number of deliveries.
    pub(super) const fn len(&self) -> usize {
        self.live
    }

    /// Tracks a delivery. A number that is tracked already gives another id.
    pub(super) fn insert(&mut self, sequence: u64, link: LinkId) -> DeliveryId {
        self.live += 1;
        let index = match self.entries.back() {
            Some((last, _)) if last.sequence >= sequence => {
                self.entries.partition_point(|(id, _)| id.sequence <= sequence)
            }
            _ => self.entries.len(),
        };
        let before = index.checked_sub(1).and_then(|before| self.entries.get(before));
        let copy = match before {
            Some((before, _)) if before.sequence == sequence => before.copy.wrapping_add(1),
            _ => 0,
        };
        let id = DeliveryId { sequence, copy };
        self.entries.insert(index, (id, Some(link)));
        id
    }

    /// Whether a delivery of the link is tracked.
    pub(super) fn contains(&self, link: LinkId, id: DeliveryId) -> bool {
        let found = self.entries.binary_search_by_key(&id, |(id, _)| *id);
        found.is_ok_and(|index| self.entries.get(index).is_some_and(|(_, of)| *of == Some(link)))
    }

    pub(super) fn remove(&mut self, id: DeliveryId) {
        if let Ok(index) = self.entries.binary_search_by_key(&id, |(id, _)| *id)
            && let Some((_, link)) = self.entries.get_mut(index)
            && link.take().is_some()
        {
            self.live -= 1;
        }
        self.trim();
    }

    /// Calls `found` with the deliveries whose sequences are in a range, and removes them if `remove`.
    pub(super) fn range(&mut self, first: u64, last: u64, remove: bool, mut found: impl FnMut(LinkId, DeliveryId)) {
        let start = self.entries.partition_point(|(id, _)| id.sequence < first);
        for (id, link) in self.entries.iter_mut().skip(start).take_while(|(id, _)| id.sequence <= last) {
            if let Some(of) = *link {
                found(of, *id);
                if remove {
                    *link = None;
                    self.live -= 1;
                }
            }
        }
        self.trim();
    }

    /// Forgets the deliveries of a link.
    pub(super) fn remove_link(&mut self, link: LinkId) {
        self.entries.retain(|(_, of)| of.is_some_and(|of| of != link));
        self.live = self.entries.len();
    }

    fn trim(&mut self) {
        while matches!(self.entries.front(), Some((_, None))) {
            self.entries.pop_front();
        }
        while matches!(self.entries.back(), Some((_, None))) {
            self.entries.pop_back();
        }
        if self.entries.len() > 2 * self.live + 32 {
            self.entries.retain(|(_, link)| link.is_some());
        }
    }
}

/// A number of 32 bits that wraps around, as the 64 bits that are next to a reference.
pub(super) const fn extend(reference: u64, number: u32) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "the lower half is the number")]
    let distance = number.wrapping_sub(reference as u32).cast_signed();
    reference.wrapping_add_signed(distance as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SessionId;

    const LINK: LinkId = LinkId { session: SessionId { channel: 0, serial: 0 }, handle: 0, serial: 0 };

    fn ids(tracker: &mut Tracker, first: u64, last: u64) -> Vec<(u64, u32)> {
        let mut ids = Vec::new();
        tracker.range(first, last, false, |_, id| ids.push((id.sequence, id.copy)));
        ids
    }

    #[test]
    fn duplicate_and_out_of_order_sequences_get_ids_of_their_own() {
        let mut tracker = Tracker::default();
        for sequence in [5, 7, 6, 5, 7] {
            tracker.insert(sequence, LINK);
        }
        assert_eq!(ids(&mut tracker, 0, u64::MAX), [(5, 0), (5, 1), (6, 0), (7, 0), (7, 1)]);
        tracker.remove(DeliveryId { sequence: 5, copy: 1 });
        assert_eq!(ids(&mut tracker, 5, 6), [(5, 0), (6, 0)]);
        assert_eq!(tracker.len(), 4);
    }

    #[test]
    fn memory_follows_the_deliveries_and_not_the_distance_of_their_numbers() {
        let mut tracker = Tracker::default();
        tracker.insert(0, LINK);
        for sequence in 1..100_000 {
            let id = tracker.insert(sequence, LINK);
            let other = tracker.insert(sequence + 1_000_000, LINK);
            tracker.remove(id);
            tracker.remove(other);
        }
        assert_eq!(tracker.len(), 1);
        assert!(tracker.entries.len() < 64, "{}", tracker.entries.len());
    }

    #[test]
    fn numbers_wrap_around() {
        let reference = (1 << 32) + 1;
        assert_eq!(extend(reference, 0), 1 << 32);
        assert_eq!(extend(reference, u32::MAX), (1 << 32) - 1);
        assert_eq!(extend(reference, 8), (1 << 32) + 8);
    }
}
