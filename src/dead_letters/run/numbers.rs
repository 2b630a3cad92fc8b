use std::collections::BTreeSet;

use crate::message::SequenceNumber;

/// Sequence numbers: the highest of those that were put in. One that is of interest again was met lately.
#[derive(Default)]
pub(super) struct Numbers(BTreeSet<SequenceNumber>);

impl Numbers {
    const MOST: usize = 16_384;

    pub(super) fn insert(&mut self, number: SequenceNumber) {
        self.0.insert(number);
        if self.0.len() > Self::MOST {
            self.0.pop_first();
        }
    }

    pub(super) fn remove(&mut self, number: SequenceNumber) {
        self.0.remove(&number);
    }

    pub(super) fn contains(&self, number: SequenceNumber) -> bool {
        self.0.contains(&number)
    }
}
