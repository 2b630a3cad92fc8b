//! How much of the disk a journal takes.

use fastrand::Rng;

use super::{
    super::{
        LogJournal, LogOptions,
        ahead::AHEAD,
        entry::{HEAD, SPAN},
        files,
    },
    model::Model,
    open, replay, seeds,
};
use crate::durable::{
    disk::SimulatedDisk,
    journal::{Batch, Journal, Table, key},
};

/// The largest segment.
const LARGEST: u32 = 1 << 20;
const SEGMENT: usize = LARGEST as usize;

/// Bytes of all segments, also those that the head does not name.
fn taken(disk: &SimulatedDisk) -> usize {
    let lengths = disk.lengths().into_iter().filter(|(name, _)| files::number(name).is_some());
    lengths.map(|(_, length)| length).sum()
}

/// Rules: I-07.
///
/// A queue is filled and completed in random order, with batches of every size.
#[test]
fn a_store_takes_at_most_twice_what_it_has_and_two_segments() {
    const CYCLES: usize = 24;
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let replay = replay("a_store_takes_at_most_twice_what_it_has_and_two_segments", seed);
    let disk = SimulatedDisk::new();
    disk.forget_history();
    let options = LogOptions { largest: LARGEST, ..LogOptions::small(0) };
    let mut journal = LogJournal::at(Box::new(disk.clone()), options).unwrap();
    let (mut model, mut live, mut number) = (Model::default(), 0, 0);
    for cycle in 0..CYCLES {
        let (most, value) = (if rng.bool() { 4 } else { 64 }, rng.usize(1_000..1_500));
        while live < 6 * SEGMENT {
            let mut batch = Batch::default();
            for _ in 0..rng.usize(1..=most) {
                number += 1;
                batch.put(Table::Messages, &key(1, number), |bytes| bytes.resize(bytes.len() + value, 7));
            }
            live += commit(&mut journal, &mut model, &batch, value);
            let taken = taken(&disk);
            assert!(taken <= 2 * live + 2 * SEGMENT, "cycle {cycle}, filling: {taken} for {live}; {replay}");
        }
        let (mut removals, removal) = (0, HEAD + key(0, 0).len() + SPAN);
        let mut keys: Vec<_> = model.0.keys().map(|(_, key)| key.clone()).collect();
        rng.shuffle(&mut keys);
        while !keys.is_empty() {
            let mut batch = Batch::default();
            let rest = keys.len().saturating_sub(rng.usize(1..=most));
            let removed = keys.split_off(rest);
            for key in &removed {
                batch.remove(Table::Messages, key);
            }
            live -= commit(&mut journal, &mut model, &batch, value);
            // A removal is in use while a segment has the value.
            removals += removed.len() * removal;
            let taken = taken(&disk);
            assert!(
                taken <= 2 * (live + removals) + 2 * SEGMENT,
                "cycle {cycle}, draining: {taken} for {live} and {removals} of removals; {replay}"
            );
        }
    }
    Box::new(journal).close().unwrap();
    assert_eq!(Model::of(&mut open(&disk).unwrap()).unwrap(), model, "{replay}");
}

/// Commits a batch of values of this length, or of their removals, and returns the bytes of their entries.
fn commit(journal: &mut LogJournal, model: &mut Model, batch: &Batch, value: usize) -> usize {
    journal.commit(batch, true).unwrap();
    model.apply(batch);
    batch.iter().map(|(_, key, _)| HEAD + key.len() + value).sum()
}

/// Otherwise the commit that needs the next segment waits until it is filled.
#[test]
fn the_next_segment_is_filled_ahead() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    let mut number = 0;
    let mut put = |journal: &mut LogJournal, length: usize| {
        let mut batch = Batch::default();
        number += 1;
        batch.put(Table::Messages, &key(1, number), |bytes| bytes.resize(bytes.len() + length, 7));
        journal.commit(&batch, true).unwrap();
    };
    let ahead = files::segment(AHEAD);
    let has_ahead = || disk.names().unwrap().contains(&ahead);
    // The first segment has 8 KiB.
    put(&mut journal, 1_000);
    assert!(!has_ahead(), "little is written");
    put(&mut journal, 3_000);
    assert!(has_ahead());
    assert_eq!(disk.bytes(&ahead).len(), 32 << 10);
    put(&mut journal, 4_000);
    assert!(!has_ahead(), "it is in use");
    assert_eq!(disk.bytes(&files::segment(2)).len(), 32 << 10);
    Box::new(journal).close().unwrap();
    assert_eq!(disk.names().unwrap().iter().filter(|name| files::number(name).is_some()).count(), 2);
}

/// The thread ends before the store is closed, and leaves nothing.
#[test]
fn a_store_is_closed_while_a_segment_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let options = LogOptions { has_thread: true, ..LogOptions::small(0) };
    for is_closed in [true, false, true] {
        let mut journal = LogJournal::open(folder.path(), options).unwrap();
        for number in 0..5 {
            let mut batch = Batch::default();
            batch.put(Table::Messages, &key(1, number), |bytes| bytes.resize(bytes.len() + 40_000, 7));
            journal.commit(&batch, true).unwrap();
        }
        if is_closed {
            Box::new(journal).close().unwrap();
        } else {
            drop(journal);
        }
        assert!(!folder.path().join(files::segment(AHEAD)).exists());
    }
}
