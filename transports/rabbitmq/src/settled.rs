//! Which deliveries of a channel are settled, so that one frame can acknowledge several.

use std::collections::BTreeMap;

/// The settled delivery tags of a channel, which the broker counts from 1 on.
///
/// `basic.ack` with `multiple` settles every delivery up to its tag, also one that is still handled, and one that has not been
/// read from the connection. So it is used only if each tag before is known to be settled.
#[derive(Debug, Default)]
pub(crate) struct SettledTags {
    /// First and last tags, without gaps in between. There is at most one range more than there are unsettled deliveries.
    ranges: BTreeMap<u64, u64>,
}

impl SettledTags {
    /// Records tags whose settlement is written.
    pub(crate) fn insert(&mut self, tags: impl IntoIterator<Item = u64>) {
        for tag in tags {
            let mut range = (tag, tag);
            if let Some((&first, &last)) = self.ranges.range(..=tag).next_back() {
                if last >= tag {
                    continue;
                }
                if last + 1 == tag {
                    range.0 = first;
                }
            }
            if let Some(last) = self.ranges.remove(&(tag + 1)) {
                range.1 = last;
            }
            self.ranges.insert(range.0, range.1);
        }
    }

    /// Returns how many of these tags, which ascend, can be settled by one frame: those up to which no other is unsettled.
    pub(crate) fn prefix(&self, tags: &[u64]) -> usize {
        let mut next = self.after(1);
        let mut count = 0;
        for &tag in tags {
            if tag != next {
                break;
            }
            count += 1;
            next = self.after(tag + 1);
        }
        count
    }

    /// Returns the first unsettled tag from this one on.
    fn after(&self, tag: u64) -> u64 {
        match self.ranges.range(..=tag).next_back() {
            Some((_, &last)) if last >= tag => last + 1,
            _ => tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_unsettled_delivery() {
        let mut settled = SettledTags::default();
        assert_eq!(settled.prefix(&[1, 2, 3]), 3);
        assert_eq!(settled.prefix(&[1, 3]), 1);
        assert_eq!(settled.prefix(&[2, 3]), 0, "the first is unsettled");
        settled.insert([1, 2, 4]);
        assert_eq!(settled.prefix(&[3, 5, 6, 8]), 3);
        assert_eq!(settled.prefix(&[5, 6]), 0);
        settled.insert([3]);
        assert_eq!(settled.prefix(&[5, 6]), 2);
        assert_eq!(settled.prefix(&[4, 5]), 0, "a settled one is not settled again");
    }

    #[test]
    fn settled_tags_take_no_more_room_than_unsettled_ones() {
        let mut settled = SettledTags::default();
        let mut tags: Vec<u64> = (1..=10_000).filter(|tag| *tag != 5_000).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut tags);
        settled.insert(tags.clone());
        settled.insert(tags);
        assert_eq!(settled.ranges, BTreeMap::from([(1, 4_999), (5_001, 10_000)]));
    }
}
