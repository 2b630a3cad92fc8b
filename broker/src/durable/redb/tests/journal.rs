//! The journal on a file.

use std::fs;

use redb::ReadableTable;

use super::{
    super::{RedbJournal, RedbOptions},
    model::{Model, random_batch},
};
use crate::durable::{
    StorageErrorKind,
    journal::{Batch, Journal, Table},
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
        let mut journal = RedbJournal::open(folder.path(), RedbOptions::default()).unwrap();
        assert_eq!(Model::of(&mut journal).unwrap(), model);
        for _ in 0..20 {
            let batch = random_batch(&mut rng, 20, 3_000);
            journal.commit(&batch, rng.bool()).unwrap();
            model.apply(&batch);
        }
        let reader = journal.reader();
        for ((table, key), value) in &model.0 {
            assert_eq!(reader.read(*table, key).unwrap().as_ref(), Some(value));
        }
        assert_eq!(reader.read(Table::Messages, b"no key").unwrap(), None);
        Box::new(journal).close().unwrap();
        assert_eq!(reader.read(Table::Broker, b"").unwrap_err().kind(), StorageErrorKind::Closed);
    }
}

#[test]
fn a_store_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let journal = RedbJournal::open(folder.path(), RedbOptions::default()).unwrap();
    let again = || RedbJournal::open(folder.path(), RedbOptions::default());
    assert_eq!(again().unwrap_err().kind(), StorageErrorKind::InUse);
    drop(journal);
    again().unwrap();
}

#[test]
fn a_file_that_is_not_a_store_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str| {
        let error = RedbJournal::open(&folder.path().join(name), RedbOptions::default()).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::NotAStore, "{name}: {error}");
    };
    fs::write(folder.path().join("file"), "mine").unwrap();
    refused("file");
    fs::create_dir(folder.path().join("other")).unwrap();
    fs::write(folder.path().join("other/notes"), "mine").unwrap();
    refused("other");
    assert_eq!(fs::read_dir(folder.path().join("other")).unwrap().count(), 1);
    fs::create_dir_all(folder.path().join("within/store.redb")).unwrap();
    refused("within");
    #[cfg(unix)]
    {
        RedbJournal::open(&folder.path().join("good"), RedbOptions::default()).unwrap();
        std::os::unix::fs::symlink("good", folder.path().join("link")).unwrap();
        for name in ["link", "link/", "link/."] {
            refused(name);
        }
        fs::create_dir(folder.path().join("links")).unwrap();
        std::os::unix::fs::symlink("../good/store.redb", folder.path().join("links/store.redb")).unwrap();
        refused("links");
    }
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let _journal = RedbJournal::open(&path, RedbOptions::default()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn an_opening_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let error = RedbJournal::open(&folder.path().join("no/store"), RedbOptions::default()).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Failed);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_format_that_is_later_or_never_was_is_refused() {
    for (version, kind) in [
        (2, StorageErrorKind::NewerFormat),
        (u32::MAX, StorageErrorKind::NewerFormat),
        (0, StorageErrorKind::Corrupted),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let journal = RedbJournal::open(folder.path(), RedbOptions::default()).unwrap();
        journal.write_format(version).unwrap();
        drop(journal);
        for _ in 0..2 {
            let error = RedbJournal::open(folder.path(), RedbOptions::default()).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}

type Damage = fn(&mut redb::Table<'_, &[u8], &[u8]>);

#[test]
fn a_record_that_is_gone_or_old_or_somewhere_else_is_noticed() {
    let damages: [Damage; 4] = [
        |table| drop(table.remove(&b"one"[..]).unwrap()),
        |table| {
            let other = table.get(&b"two"[..]).unwrap().unwrap().value().to_vec();
            table.insert(&b"one"[..], &*other).unwrap();
        },
        |table| {
            let mut value = table.get(&b"one"[..]).unwrap().unwrap().value().to_vec();
            value[0] ^= 1;
            table.insert(&b"one"[..], &*value).unwrap();
        },
        // Good by itself, and not the latest.
        |table| drop(table.insert(&b"one"[..], &*super::super::checksum::sealed("ids", b"one", b"first")).unwrap()),
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = RedbJournal::open(folder.path(), RedbOptions::default()).unwrap();
        for value in ["first", "later"] {
            journal.commit(&put(Table::Ids, b"one", value.as_bytes()), true).unwrap();
            journal.commit(&put(Table::Ids, b"two", value.as_bytes()), true).unwrap();
        }
        journal.change(Table::Ids, damage);
        drop(journal);
        let mut journal = RedbJournal::open(folder.path(), RedbOptions::default()).unwrap();
        let error = Model::of(&mut journal).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Corrupted, "{error}");
        assert!(error.detail().contains("ids"), "{error}");
        let after = journal.commit(&put(Table::Ids, b"three", b""), true).unwrap_err();
        assert_eq!(after.kind(), StorageErrorKind::Failed);
    }
}
