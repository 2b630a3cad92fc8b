//! The journal on a file.

use std::fs;

use super::{
    super::{LogJournal, LogOptions},
    model::{Model, random_batch},
    open,
};
use crate::durable::{
    StorageErrorKind,
    disk::{Faults, SimulatedDisk},
    journal::{Batch, Journal, Table, key},
};

fn put(table: Table, key: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::default();
    batch.put(table, key, |bytes| bytes.extend_from_slice(value));
    batch
}

#[test]
fn committed_records_are_there_when_the_journal_is_opened_again() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEED={seed} cargo test -p consign-broker --features durable what_was_committed_is_there");
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    for _ in 0..4 {
        let mut journal = LogJournal::open(folder.path(), LogOptions::default()).unwrap();
        assert_eq!(Model::of(&mut journal).unwrap(), model);
        for _ in 0..20 {
            let batch = random_batch(&mut rng, 20, 3_000);
            journal.commit(&batch, rng.bool()).unwrap();
            model.apply(&batch);
        }
        let reader = journal.reader();
        for table in Table::ALL {
            let mut records: Vec<(&[u8], Option<Vec<u8>>)> = vec![(b"no key", None)];
            let of_table = model.0.iter().filter(|((of, _), _)| *of == table);
            records.extend(of_table.map(|((_, key), value)| (&**key, Some(value.clone()))));
            rng.shuffle(&mut records);
            let (keys, values): (Vec<_>, Vec<_>) = records.into_iter().unzip();
            assert_eq!(reader.read(table, &keys).unwrap(), values);
        }
        Box::new(journal).close().unwrap();
        assert_eq!(reader.read(Table::Broker, &[b""]).unwrap_err().kind(), StorageErrorKind::Closed);
    }
}

#[test]
fn neighbours_are_read_together() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    let mut batch = Batch::default();
    for number in 0..40 {
        batch.put(Table::Messages, &key(1, number), |bytes| bytes.resize(bytes.len() + 1_000, 7));
    }
    journal.commit(&batch, true).unwrap();
    let reads = |numbers: &[u64]| {
        disk.set_faults(Faults::NONE);
        let keys: Vec<_> = numbers.iter().map(|number| key(1, *number)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
        let values = journal.reader().read(Table::Messages, &keys).unwrap();
        assert!(values.into_iter().all(|value| value == Some(vec![7; 1_000])));
        disk.counts().reads
    };
    let all: Vec<u64> = (0..40).collect();
    assert_eq!((reads(&all), reads(&[3, 1, 2]), reads(&[0, 39, 20])), (1, 1, 3));
}

/// Attacks: 96.
#[test]
fn a_store_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let journal = LogJournal::open(folder.path(), LogOptions::default()).unwrap();
    let again = || LogJournal::open(folder.path(), LogOptions::default());
    assert_eq!(again().unwrap_err().kind(), StorageErrorKind::InUse);
    drop(journal);
    again().unwrap();
}

/// Attacks: 96.
#[test]
fn a_file_that_is_not_a_store_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str| {
        let error = LogJournal::open(&folder.path().join(name), LogOptions::default()).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::NotAStore, "{name}: {error}");
    };
    fs::write(folder.path().join("file"), "mine").unwrap();
    refused("file");
    fs::create_dir(folder.path().join("other")).unwrap();
    fs::write(folder.path().join("other/notes"), "mine").unwrap();
    refused("other");
    assert_eq!(fs::read_dir(folder.path().join("other")).unwrap().count(), 1);
    fs::create_dir_all(folder.path().join("within/head")).unwrap();
    refused("within");
    #[cfg(unix)]
    {
        LogJournal::open(&folder.path().join("good"), LogOptions::default()).unwrap();
        std::os::unix::fs::symlink("good", folder.path().join("link")).unwrap();
        for name in ["link", "link/", "link/."] {
            refused(name);
        }
        fs::create_dir(folder.path().join("links")).unwrap();
        std::os::unix::fs::symlink("../good/head", folder.path().join("links/head")).unwrap();
        refused("links");
    }
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let _journal = LogJournal::open(&path, LogOptions::default()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn an_opening_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let error = LogJournal::open(&folder.path().join("no/store"), LogOptions::default()).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NotAStore);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Attacks: 96.
#[test]
fn a_format_that_is_later_or_never_was_is_refused() {
    for (version, kind) in [
        (2, StorageErrorKind::NewerFormat),
        (u32::MAX, StorageErrorKind::NewerFormat),
        (0, StorageErrorKind::Corrupted),
    ] {
        let folder = tempfile::tempdir().unwrap();
        drop(LogJournal::open(folder.path(), LogOptions::small(0)).unwrap());
        let path = folder.path().join("head");
        let mut head = fs::read(&path).unwrap();
        // As a later version would, whatever else it has.
        head.truncate(head.len() - 4);
        head[8..12].copy_from_slice(&version.to_le_bytes());
        head.extend_from_slice(b"more");
        let checksum = crc32fast::hash(&head);
        head.extend_from_slice(&checksum.to_le_bytes());
        fs::write(&path, &head).unwrap();
        for _ in 0..2 {
            let error = LogJournal::open(folder.path(), LogOptions::small(0)).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
        assert_eq!(fs::read(path).unwrap(), head);
    }
}

type Damage = fn(&SimulatedDisk);

/// Where the second of several frames is, each of one page.
const SECOND: usize = 4_096;

/// Attacks: 95.
#[test]
fn a_frame_that_is_gone_or_old_or_somewhere_else_is_noticed() {
    const NAME: &str = "00000002.log";
    let damages: [(&str, Damage); 6] = [
        ("a frame is gone", |disk| disk.change(NAME, |bytes| bytes[SECOND..2 * SECOND].fill(0))),
        ("a frame is another one", |disk| disk.change(NAME, |bytes| bytes.copy_within(..SECOND, SECOND))),
        ("two frames are exchanged", |disk| {
            disk.change(NAME, |bytes| {
                let (first, second) = bytes[..2 * SECOND].split_at_mut(SECOND);
                first.swap_with_slice(second);
            });
        }),
        ("a segment is gone", |disk| disk.change_names(|names| _ = names.remove(NAME))),
        ("a segment is another one", |disk| {
            disk.change_names(|names| _ = names.insert(NAME.into(), names["00000001.log"]));
        }),
        ("a segment is cut off", |disk| disk.change(NAME, |bytes| bytes.truncate(bytes.len() - 1))),
    ];
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    for number in 0..6_u8 {
        journal.commit(&put(Table::Ids, &[number], &[number; SECOND - 100]), true).unwrap();
    }
    let open_disk = disk.copy();
    Box::new(journal).close().unwrap();
    for disk in [open_disk, disk.copy()] {
        for (what, damage) in &damages {
            let disk = disk.copy();
            damage(&disk);
            let error = open(&disk).unwrap_err();
            assert_eq!(error.kind(), StorageErrorKind::Corrupted, "{what}: {error}");
            assert!(!disk.has_changed(), "{what}");
        }
    }
}

/// Attacks: 95.
#[test]
fn an_earlier_file_of_a_segment_is_noticed() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    journal.commit(&put(Table::Ids, b"one", b"first"), true).unwrap();
    let earlier = disk.bytes("00000001.log");
    journal.commit(&put(Table::Ids, b"one", b"later"), true).unwrap();
    Box::new(journal).close().unwrap();
    let disk = disk.copy();
    disk.change("00000001.log", |bytes| bytes.clone_from(&earlier));
    assert_eq!(open(&disk).unwrap_err().kind(), StorageErrorKind::Corrupted);
}

/// Attacks: 92.
/// What is left of an interrupted commit is not read after others, whatever it is.
#[test]
fn frames_of_an_earlier_opening_are_not_read() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    let value = [7; 300];
    for key in [b"a", b"b", b"c"] {
        journal.commit(&put(Table::Ids, key, &value), false).unwrap();
    }
    let disk = disk.copy();
    // The first of the three has not reached the disk.
    disk.change("00000001.log", |bytes| bytes[..512].fill(0));
    let mut journal = open(&disk).unwrap();
    assert_eq!(Model::of(&mut journal).unwrap(), Model::default());
    journal.commit(&put(Table::Ids, b"d", &value), true).unwrap();
    let found = Model::of(&mut open(&disk.copy()).unwrap()).unwrap();
    assert_eq!(found.0.into_keys().map(|(_, key)| key).collect::<Vec<_>>(), [b"d"]);
}
