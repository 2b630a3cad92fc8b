use std::collections::BTreeMap;

use crate::message::SequenceNumber;

/// What has become of a dead letter that the run did something with, for it may be met again: its lock was lost, its
/// settlement too, or a transport delivers twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is being handled.
    InHand,
    /// It is gone.
    Removed,
    /// It stays.
    Stays,
    /// Its removal failed, or that is not known.
    InDoubt {
        /// A copy of it was accepted, so that it is only to be removed.
        copied: bool,
    },
}

/// The fates of those with the highest numbers, for what is met again was met lately.
#[derive(Default)]
pub(super) struct Fates(BTreeMap<SequenceNumber, Fate>);

impl Fates {
    const MOST: usize = 16_384;

    pub(super) fn of(&self, number: SequenceNumber) -> Option<Fate> {
        self.0.get(&number).copied()
    }

    pub(super) fn set(&mut self, number: SequenceNumber, fate: Fate) {
        self.0.insert(number, fate);
        if self.0.len() > Self::MOST {
            self.0.pop_first();
        }
    }
}
