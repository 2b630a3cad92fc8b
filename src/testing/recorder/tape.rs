use std::collections::VecDeque;

/// The latest records of one kind, and how many there were before them.
pub(super) struct Tape<T> {
    records: VecDeque<T>,
    forgotten: usize,
    most: usize,
}

impl<T: Clone> Tape<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { records: VecDeque::new(), forgotten: 0, most }
    }

    /// Adds a record, and answers its place on the whole tape.
    pub(super) fn push(&mut self, record: T) -> usize {
        if self.records.len() == self.most {
            self.records.pop_front();
            self.forgotten += 1;
        }
        self.records.push_back(record);
        self.forgotten + self.records.len() - 1
    }

    /// The record at a place, unless it is forgotten.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut T> {
        self.records.get_mut(place.checked_sub(self.forgotten)?)
    }

    pub(super) fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// Panics if a record is forgotten: the records cannot be counted then.
    #[track_caller]
    pub(super) fn assert_whole(&self) {
        assert!(
            self.forgotten == 0,
            "{} were recorded, which is more than are kept",
            self.forgotten + self.records.len()
        );
    }

    pub(super) fn copy(&self) -> Vec<T> {
        self.records.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_and_places_stay() {
        let mut tape = Tape::new(2);
        let places: Vec<_> = ["a", "b", "c"].into_iter().map(|record| tape.push(record)).collect();
        assert_eq!((places, tape.forgotten(), tape.copy()), (vec![0, 1, 2], 1, vec!["b", "c"]));
        assert_eq!([0, 1, 2, 3].map(|place| tape.at(place).copied()), [None, Some("b"), Some("c"), None]);
    }
}
