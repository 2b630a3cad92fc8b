//! A disk that is full.

use std::fs;

use fastrand::Rng;

use super::{
    super::{LogJournal, LogOptions},
    every,
    model::Model,
    open, replay, say, seeds,
};
use crate::durable::{
    StorageErrorKind,
    disk::{Faults, SimulatedDisk},
    journal::{Batch, Journal, Table, key},
};

const RESERVE: u64 = 1 << 20;

/// The reserve is sixteen times what a batch writes.
const BATCH: usize = 64 << 10;

/// Rules: I-07.
#[test]
fn a_full_disk_accepts_what_frees_space() {
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let replay = replay("a_full_disk_accepts_what_frees_space", seed);
    let disk = SimulatedDisk::new();
    disk.forget_history();
    disk.set_faults(Faults { capacity: 6 << 20, ..Faults::NONE });
    disk.set_reserve(RESERVE);
    let mut journal = open(&disk).unwrap();
    let mut model = Model::default();
    let (mut number, cycles) = (0, 50_u64.div_ceil(every()).max(2));
    for cycle in 0..cycles {
        assert!(journal.has_space(), "cycle {cycle}: it is empty and has no space; {replay}");
        let value = [600, 2_000, 6_000, 50_000][rng.usize(..4)];
        while journal.has_space() {
            let mut batch = Batch::default();
            for _ in 0..rng.usize(1..=BATCH / value) {
                number += 1;
                batch.put(Table::Messages, &key(1, number), |bytes| bytes.resize(bytes.len() + value, 7));
            }
            journal.commit(&batch, true).unwrap_or_else(|error| panic!("cycle {cycle}, filling: {error}; {replay}"));
            model.apply(&batch);
        }
        let bytes: usize = model.0.values().map(Vec::len).sum();
        assert!(bytes > 1 << 20, "cycle {cycle}: {bytes} bytes fill it; {replay}");
        let mut keys: Vec<_> = model.0.keys().map(|(_, key)| key.clone()).collect();
        rng.shuffle(&mut keys);
        for keys in keys.chunks(8) {
            let mut batch = Batch::default();
            // Something is always written beside, such as a count.
            batch.put(Table::Counters, b"count", |bytes| bytes.extend_from_slice(&[1; 100]));
            for key in keys {
                batch.remove(Table::Messages, key);
            }
            journal.commit(&batch, true).unwrap_or_else(|error| panic!("cycle {cycle}, draining: {error}; {replay}"));
            model.apply(&batch);
            journal.has_space();
        }
        if cycle % 10 == 0 {
            Box::new(journal).close().unwrap();
            journal = open(&disk).unwrap();
            assert_eq!(Model::of(&mut journal).unwrap(), model, "{replay}");
        }
    }
    say("fillings of a disk", usize::try_from(cycles).unwrap());
}

fn put(key: &[u8], length: usize) -> Batch {
    let mut batch = Batch::default();
    batch.put(Table::Messages, key, |bytes| bytes.resize(bytes.len() + length, 7));
    batch
}

/// Rules: I-07.
///
/// A commit before it is kept, whether that was synced or not.
#[test]
fn a_batch_that_is_too_large_for_the_disk_is_not_the_end() {
    for is_synced in [true, false] {
        let disk = SimulatedDisk::new();
        disk.set_faults(Faults { capacity: 4 << 20, ..Faults::NONE });
        disk.set_reserve(RESERVE);
        let mut journal = open(&disk).unwrap();
        journal.commit(&put(b"small", 1_000), is_synced).unwrap();
        let error = journal.commit(&put(b"large", 20 << 20), true).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Full);
        journal.commit(&put(b"small too", 1_000), true).unwrap();
        let found = Model::of(&mut journal).unwrap().0.into_keys();
        let keys: Vec<_> = found.map(|(_, key)| key).collect();
        assert_eq!(keys, [&b"small"[..], &b"small too"[..]], "synced: {is_synced}");
    }
}

/// Rules: I-07.
///
/// Also when the reserve is used up, and only the rest of a segment is left.
#[test]
fn what_a_journal_has_space_for_is_committed() {
    let disk = SimulatedDisk::new();
    disk.set_faults(Faults { capacity: 4 << 20, ..Faults::NONE });
    disk.set_reserve(RESERVE);
    let mut journal = open(&disk).unwrap();
    let mut least = u64::MAX;
    for number in 0..1_000_u32 {
        least = least.min(journal.space());
        if journal.space() < 8 << 10 {
            break;
        }
        let length = usize::try_from(journal.space()).unwrap().min(BATCH) - (4 << 10);
        journal.commit(&put(&number.to_be_bytes(), length), true).unwrap();
    }
    assert!(least < 8 << 10, "{least} bytes are left");
}

/// Rules: I-07.
#[test]
fn the_reserve_is_real() {
    let folder = tempfile::tempdir().unwrap();
    let journal = LogJournal::open(folder.path(), LogOptions { reserve: RESERVE, ..LogOptions::default() }).unwrap();
    let reserve = folder.path().join("reserve");
    let metadata = fs::metadata(&reserve).unwrap();
    assert_eq!(metadata.len(), RESERVE);
    #[cfg(unix)]
    assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) * 512 >= RESERVE);
    let storage = journal.place();
    assert!(storage.reserve());
    assert!(storage.release());
    assert!(!reserve.exists());
    assert!(!storage.release());
    assert!(storage.reserve());
    assert_eq!(fs::metadata(&reserve).unwrap().len(), RESERVE);
}

#[test]
fn a_store_that_is_gone_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let open = || LogJournal::open(folder.path(), LogOptions { reserve: 4_096, ..LogOptions::default() });
    open().unwrap();
    fs::remove_file(folder.path().join("head")).unwrap();
    let error = open().unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Corrupted, "{error}");
}
