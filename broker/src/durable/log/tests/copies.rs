//! Backups, and what is read of a store that is damaged.

use std::{collections::BTreeMap, fs, ops::Range};

use fastrand::Rng;

use super::{
    super::{LogJournal, LogOptions, Salvaged, files, head::Head, salvage, salvage::salvage_from},
    damage::{store_with_history, used},
    model::{Model, random_batch},
    open,
};
use crate::durable::{
    StorageError, StorageErrorKind,
    disk::{Faults, SimulatedDisk},
    journal::{Batch, Journal, Table, key},
};

const OPTIONS: LogOptions = LogOptions::small(4_096);

#[test]
fn a_backup_is_what_was_committed_when_it_began() {
    let mut rng = Rng::with_seed(3);
    let folder = tempfile::tempdir().unwrap();
    let mut journal = LogJournal::open(&folder.path().join("store"), OPTIONS).unwrap();
    let mut model = Model::default();
    for _ in 0..30 {
        let batch = random_batch(&mut rng, 20, 100_000);
        journal.commit(&batch, rng.bool()).unwrap();
        model.apply(&batch);
    }
    let copy = folder.path().join("copy");
    journal.reader().backup(&copy).unwrap();
    journal.commit(&random_batch(&mut rng, 20, 100), true).unwrap();
    assert_eq!(Model::of(&mut LogJournal::open(&copy, OPTIONS).unwrap()).unwrap(), model);

    let error = journal.reader().backup(&copy).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NotAStore);
    let reader = journal.reader();
    Box::new(journal).close().unwrap();
    let error = reader.backup(&folder.path().join("late")).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Closed);
    assert!(!folder.path().join("late").exists());
}

#[test]
fn compaction_returns_space() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = LogJournal::open(folder.path(), OPTIONS).unwrap();
    let mut rng = Rng::with_seed(4);
    let mut model = Model::default();
    for _ in 0..40 {
        let batch = random_batch(&mut rng, 20, 100_000);
        journal.commit(&batch, true).unwrap();
        model.apply(&batch);
    }
    let mut remove = Batch::default();
    for (table, key) in model.0.keys() {
        remove.remove(*table, key);
    }
    journal.commit(&remove, true).unwrap();
    let size = || fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum::<u64>();
    let before = size();
    while !journal.compact().unwrap() {}
    assert!(size() < before / 4, "{before} bytes became {}", size());
    assert_eq!(Model::of(&mut journal).unwrap(), Model::default());
}

pub(super) fn try_salvage(disk: &SimulatedDisk) -> Result<(Salvaged, Model), StorageError> {
    let mut found = Model::default();
    let salvaged = salvage_from(disk, &mut |table, key, value| {
        found.0.insert((table, key.to_vec()), value.to_vec());
        Ok(())
    })?;
    Ok((salvaged, found))
}

fn salvaged(disk: &SimulatedDisk) -> (Salvaged, Model) {
    try_salvage(disk).unwrap()
}

#[test]
fn a_salvage_reads_what_is_good() {
    const FLIPS: usize = 2_000;
    let mut rng = Rng::with_seed(5);
    let (disk, model, earlier) = store_with_history(&mut rng, true);
    let records = model.0.len() as u64;
    assert_eq!(salvaged(&disk), (Salvaged { records, expected: Some(records), damages: Vec::new() }, model.clone()));

    let places = used(&disk);
    let mut missing = 0;
    for _ in 0..FLIPS {
        let ((name, place), mask) = (&places[rng.usize(..places.len())], rng.u8(1..));
        let what = format!("byte {place} of {name} with {mask:#04x}");
        disk.change(name, |bytes| bytes[*place] ^= mask);
        let (salvaged, found) = salvaged(&disk);
        disk.change(name, |bytes| bytes[*place] ^= mask);
        let is_right = found.0.iter().all(|(key, value)| earlier.contains(&(key.clone(), value.clone())));
        assert!(is_right, "{what}: a record is wrong");
        assert!(found == model || !salvaged.damages.is_empty(), "{what}: it says nothing");
        let is_there = |(key, value): (&(Table, Vec<u8>), &Vec<u8>)| found.0.get(key) == Some(value);
        let others = model.0.iter().filter(|it| !is_there(*it)).count();
        assert!(others <= 1, "{what}: {others} records are missing, or not the latest");
        missing += others;
    }
    assert!(missing > 0 && missing <= FLIPS, "{missing} records are missing");
    assert_eq!(disk.events(), 0);
}

#[test]
fn a_salvage_tries_again_what_could_not_be_read() {
    let (disk, model, _) = store_with_history(&mut Rng::with_seed(7), true);
    for read in 1.. {
        let disk = disk.copy();
        disk.set_faults(Faults { read: Some(read), ..Faults::NONE });
        let (salvaged, found) = salvaged(&disk);
        assert!(found == model, "read {read}: a record is missing");
        // The first one is of the head, which is not in pages.
        assert_eq!(salvaged.damages.len(), usize::from(read == 1), "read {read}: {:?}", salvaged.damages);
        if disk.counts().reads < read {
            break;
        }
    }
}

/// Rules: I-08.
#[test]
fn a_salvage_passes_what_cannot_be_read() {
    const RANGES: usize = 100;
    const SECTOR: usize = 512;
    const PAGE: usize = 4_096;
    let mut rng = Rng::with_seed(8);
    let (mut missing, mut later) = (0, 0);
    for is_closed in [true, false] {
        let (intact, model, earlier) = store_with_history(&mut rng, is_closed);
        let places = places_of(&intact, &model);
        let used = used(&intact);
        let extents = Head::decode(&intact.bytes("head")).unwrap().segments.into_iter();
        let ends: BTreeMap<_, _> = extents.map(|it| (files::segment(it.number), it.end as usize)).collect();
        for _ in 0..RANGES {
            let (disk, (name, place)) = (intact.copy(), &used[rng.usize(..used.len())]);
            let start = place / SECTOR * SECTOR;
            let range = start..start + SECTOR * [1, 2, 20][rng.usize(..3)];
            // Where it begins later, what was read before is read again for the value.
            let from_read = if rng.bool() { 0 } else { rng.u64(..80) };
            disk.set_unreadable(name, range.clone(), from_read);
            let what = format!("{range:?} of {name}, from read {from_read}, closed: {is_closed}");
            let (salvaged, found) = salvaged(&disk);
            let is_right = found.0.iter().all(|(key, value)| earlier.contains(&(key.clone(), value.clone())));
            assert!(is_right, "{what}: a record is wrong");
            let pages = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE);
            for (key, value) in &model.0 {
                let (segment, bytes) = &places[key];
                let is_there = bytes.start < pages.end && pages.start < bytes.end && segment == name;
                let is_found = found.0.get(key) == Some(value);
                assert!(is_found || is_there, "{what}: {bytes:?} of {segment} is missing");
                missing += usize::from(!is_found);
            }
            assert!(found == model || !salvaged.damages.is_empty(), "{what}: it says nothing");
            if from_read == 0 && ends.get(name).is_some_and(|end| *place < *end) {
                let named = format!("{name}, offset {}: it cannot be read", pages.start);
                assert!(salvaged.damages.contains(&named), "{what}: {:?}", salvaged.damages);
            }
            later += usize::from(salvaged.damages.iter().any(|damage| damage.starts_with("record ")));
        }
    }
    assert!(missing > RANGES && later > 0, "{missing} records are missing, {later} that had been read");
}

/// Rules: I-08.
/// The page has the end of the last frame, and what reports that it was on the disk.
#[test]
fn a_salvage_reads_the_last_frame_up_to_a_page_that_cannot_be_read() {
    const PAGE: usize = 4_096;
    for records in 10..20 {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk).unwrap();
        let (mut batch, mut model) = (Batch::default(), Model::default());
        for number in 0..records {
            batch.put(Table::Messages, &key(1, number), |bytes| bytes.resize(bytes.len() + 1_000, 7));
        }
        model.apply(&batch);
        journal.commit(&batch, true).unwrap();

        let disk = disk.copy();
        let places = places_of(&disk, &model);
        let (name, last) = places.values().max_by_key(|(_, bytes)| bytes.end).unwrap();
        disk.set_unreadable(name, last.end - 1..last.end, 0);
        let page = (last.end - 1) / PAGE * PAGE;
        model.0.retain(|key, _| places[key].1.end <= page);
        let (salvaged, found) = salvaged(&disk);
        assert_eq!(found, model, "of {records} records");
        assert!(!salvaged.damages.is_empty());
    }
}

/// The segment and the bytes of each value.
fn places_of(disk: &SimulatedDisk, model: &Model) -> BTreeMap<(Table, Vec<u8>), (String, Range<usize>)> {
    let journal = open(&disk.copy()).unwrap();
    let state = journal.shared.state.read();
    let place = |key: &(Table, Vec<u8>)| {
        let at = state.index.get(key.0, &key.1).unwrap();
        let start = usize::try_from(at.offset).unwrap();
        (files::segment(at.segment), start..start + usize::try_from(at.length).unwrap())
    };
    model.0.keys().map(|key| (key.clone(), place(key))).collect()
}

#[test]
fn a_salvage_reads_segments_without_a_head() {
    let (disk, model, _) = store_with_history(&mut Rng::with_seed(6), true);
    for change in [|bytes: &mut Vec<u8>| bytes[20] ^= 1, |bytes: &mut Vec<u8>| bytes.clear()] {
        let disk = disk.copy();
        disk.change("head", change);
        let (salvaged, found) = salvaged(&disk);
        assert_eq!((found, salvaged.expected, salvaged.damages.len()), (model.clone(), None, 1));
    }
    let disk = disk.copy();
    disk.change_names(|names| _ = names.remove("head"));
    assert_eq!(salvaged(&disk).1, model);

    for name in disk.names().unwrap().iter().filter(|name| files::number(name).is_some()) {
        disk.change(name, |bytes| bytes.fill(0));
    }
    disk.change_names(|names| _ = names.insert("head".into(), names["lock"]));
    let (salvaged, found) = salvaged(&disk);
    assert_eq!((found, salvaged.records, salvaged.damages.len()), (Model::default(), 0, 2));
}

#[test]
fn a_salvage_leaves_a_store_that_is_open_alone() {
    let folder = tempfile::tempdir().unwrap();
    let journal = LogJournal::open(folder.path(), OPTIONS).unwrap();
    let read = || salvage(folder.path(), &mut |_, _, _| Ok(()));
    assert_eq!(read().unwrap_err().kind(), StorageErrorKind::InUse);
    drop(journal);
    assert_eq!(read().unwrap(), Salvaged { records: 0, expected: Some(0), damages: Vec::new() });
}
