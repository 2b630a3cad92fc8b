//! What a disk may hold at each moment of a recording.

use fastrand::Rng;

use super::{
    disk::Image,
    recording::{Event, Recording, What},
    told::Promise,
};

/// A moment at which the process or the machine may end.
pub(super) struct Moment<'a> {
    /// The event that has just begun.
    pub(super) event: usize,
    /// What was synced.
    lasting: Image,
    /// What was not, by its start.
    pending: Vec<&'a Event>,
    now: usize,
    pub(super) promise: Promise,
}

/// Each moment at which an event has just begun. The promise is that of the time before.
pub(super) fn moments(recording: &Recording, mut promise: Promise) -> impl Iterator<Item = Moment<'_>> {
    let (mut lasting, mut pending, mut syncs) = (recording.base.clone(), Vec::new(), Vec::new());
    recording.events.iter().enumerate().map(move |(number, event)| {
        // Those that have returned by now.
        let (ended, open) = std::mem::take(&mut syncs).into_iter().partition(|sync: &&Event| sync.end < event.start);
        syncs = open;
        for sync in ended {
            let What::Sync(node) = sync.what else { continue };
            let is_covered = |pending: &Event| match &pending.what {
                What::Change(change) => change.of() == node && pending.end < sync.start,
                _ => false,
            };
            pending.extract_if(.., |event: &mut &Event| is_covered(event)).for_each(|event| {
                let What::Change(change) = &event.what else { return };
                lasting.apply(change);
            });
        }
        match &event.what {
            What::Change(_) => pending.push(event),
            What::Sync(_) => syncs.push(event),
            What::Told(told) => promise.take(*told),
        }
        let (lasting, pending) = (lasting.clone(), pending.clone());
        Moment { event: number, lasting, pending, now: event.start, promise: promise.clone() }
    })
}

impl Moment<'_> {
    /// What is there when the machine loses power.
    pub(super) fn power_loss(&self, rng: &mut Rng) -> Image {
        let share = [0.0, 0.1, 0.5, 0.9, 1.0][rng.usize(..5)];
        let mut image = self.lasting.clone();
        for event in &self.pending {
            let What::Change(change) = &event.what else { continue };
            image.survive(change, rng, share);
        }
        image
    }

    /// What is there when the process is killed.
    pub(super) fn kill(&self, rng: &mut Rng) -> Image {
        let mut image = self.lasting.clone();
        for event in &self.pending {
            let What::Change(change) = &event.what else { continue };
            if event.end < self.now {
                image.apply(change);
            } else {
                image.survive(change, rng, 0.5);
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        super::disk::{Change, Node},
        *,
    };

    const FILE: Node = Node { number: 1, is_folder: false };

    /// What there may be in the end, when the last of these has begun.
    fn possible(events: &[What]) -> BTreeSet<Vec<(String, u64)>> {
        let events = events.iter().enumerate();
        let events = events.map(|(moment, what)| Event { start: moment, end: moment, what: what.clone() }).collect();
        let recording = Recording { events, ..Recording::default() };
        let last = moments(&recording, Promise::default()).last().unwrap();
        (0..500).map(|seed| last.power_loss(&mut Rng::with_seed(seed)).listing()).collect()
    }

    fn changes() -> [What; 3] {
        let (from, to) = ("a".to_owned(), "b".to_owned());
        [
            What::Change(Change::Create { folder: Node::ROOT, name: from.clone(), node: FILE }),
            What::Change(Change::Length { file: FILE, length: 7 }),
            What::Change(Change::Rename { folder: Node::ROOT, from, to, node: FILE }),
        ]
    }

    #[test]
    fn unsynced_writes_are_there_or_not() {
        let [create, length, rename] = changes();
        let expected = [vec![], vec![("a", 0)], vec![("a", 7)], vec![("b", 0)], vec![("b", 7)]];
        let named =
            |listing: Vec<(&str, u64)>| listing.iter().map(|(name, length)| (format!("/{name}"), *length)).collect();
        assert_eq!(possible(&[create, length, rename]), expected.map(named).into());
    }

    #[test]
    fn a_sync_makes_its_own_lasting_and_only_once_it_has_returned() {
        let [create, length, rename] = changes();
        let (names, file) = (What::Sync(Node::ROOT), What::Sync(FILE));
        let lengths = |possible: BTreeSet<Vec<(String, u64)>>| {
            possible.into_iter().flatten().map(|(_, length)| length).collect::<Vec<_>>()
        };
        let all =
            possible(&[create.clone(), length.clone(), rename.clone(), names.clone(), file.clone(), file.clone()]);
        assert_eq!(all, [vec![("/b".to_owned(), 7)]].into());
        // The one that is under way may have done nothing.
        let names_only = possible(&[create.clone(), length.clone(), rename.clone(), names.clone(), file.clone()]);
        assert_eq!(lengths(names_only), [0, 7]);
        let file_only = possible(&[create, length, rename, file.clone(), file]);
        assert!(file_only.contains(&vec![]) && lengths(file_only) == [7, 7]);
    }
}
