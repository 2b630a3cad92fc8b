//! Backups, and what is read of a store that is damaged.

use std::fs;

use fastrand::Rng;

use super::{
    super::{RedbJournal, RedbOptions, Salvaged, salvage, salvage::salvage_from, simulated::SimulatedDisk},
    damage::{store, used},
    model::{Model, random_batch},
};
use crate::durable::{StorageErrorKind, journal::Journal};

const OPTIONS: RedbOptions = RedbOptions { cache: 1 << 20, reserve: 4_096 };

#[test]
fn a_backup_is_what_was_committed_when_it_began() {
    let mut rng = Rng::with_seed(3);
    let folder = tempfile::tempdir().unwrap();
    let mut journal = RedbJournal::open(&folder.path().join("store"), OPTIONS).unwrap();
    let mut model = Model::default();
    for _ in 0..30 {
        let batch = random_batch(&mut rng, 20, 100_000);
        journal.commit(&batch, rng.bool()).unwrap();
        model.apply(&batch);
    }
    let copy = folder.path().join("copy");
    journal.reader().backup(&copy).unwrap();
    journal.commit(&random_batch(&mut rng, 20, 100), true).unwrap();
    assert_eq!(Model::of(&mut RedbJournal::open(&copy, OPTIONS).unwrap()).unwrap(), model);

    let error = journal.reader().backup(&copy).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NotAStore);
    let reader = journal.reader();
    Box::new(journal).close().unwrap();
    let error = reader.backup(&folder.path().join("late")).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Closed);
    assert!(!folder.path().join("late").exists());
}

#[test]
fn room_comes_back_when_it_is_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = RedbJournal::open(folder.path(), OPTIONS).unwrap();
    let mut rng = Rng::with_seed(4);
    let mut model = Model::default();
    for _ in 0..40 {
        let batch = random_batch(&mut rng, 20, 100_000);
        journal.commit(&batch, true).unwrap();
        model.apply(&batch);
    }
    let mut remove = crate::durable::journal::Batch::default();
    for (table, key) in model.0.keys() {
        remove.remove(*table, key);
    }
    journal.commit(&remove, true).unwrap();
    let size = || fs::metadata(folder.path().join("store.redb")).unwrap().len();
    let before = size();
    journal.compact().unwrap();
    assert!(size() < before / 4, "{before} bytes became {}", size());
    assert_eq!(Model::of(&mut journal).unwrap(), Model::default());
}

fn salvaged(disk: &SimulatedDisk) -> (Salvaged, Model) {
    let mut found = Model::default();
    let salvaged = salvage_from(&*disk.storage(), &mut |table, key, value| {
        found.0.insert((table, key.to_vec()), value.to_vec());
        Ok(())
    });
    (salvaged.unwrap(), found)
}

#[test]
fn a_salvage_reads_what_is_good() {
    const FLIPS: usize = 2_000;
    let mut rng = Rng::with_seed(5);
    let (bytes, model) = store(&mut rng, true);
    let disk = SimulatedDisk::of(bytes);
    let records = model.0.len() as u64;
    assert_eq!(salvaged(&disk), (Salvaged { records, expected: Some(records), damages: Vec::new() }, model.clone()));

    let places = used(&disk);
    let mut missing = 0;
    for _ in 0..FLIPS {
        let (place, mask) = (places[rng.usize(..places.len())], rng.u8(1..));
        disk.flip(place, mask);
        let (salvaged, found) = salvaged(&disk);
        disk.flip(place, mask);
        let is_right = found.0.iter().all(|(key, value)| model.0.get(key) == Some(value));
        assert!(is_right, "byte {place} with {mask:#04x}: a record is wrong");
        assert!(found == model || !salvaged.damages.is_empty(), "byte {place} with {mask:#04x}: it says nothing");
        missing += model.0.len() - found.0.len();
    }
    assert!(missing < FLIPS * 3, "{missing} of {FLIPS} times {records} records are missing");
    assert_eq!(disk.events(), 0);
}

#[test]
fn a_salvage_leaves_a_store_that_is_open_alone() {
    let folder = tempfile::tempdir().unwrap();
    let journal = RedbJournal::open(folder.path(), OPTIONS).unwrap();
    let read = || salvage(folder.path(), &mut |_, _, _| Ok(()));
    assert_eq!(read().unwrap_err().kind(), StorageErrorKind::InUse);
    drop(journal);
    assert_eq!(read().unwrap(), Salvaged { records: 0, expected: Some(0), damages: Vec::new() });
}
