//! Stores as each version has written them, which open for ever.
//!
//! A folder has the files of a store, packed, and what is in it, as text. `closed` was closed, and `killed` is what was on
//! the disk of a broker that went on. No folder is taken away or changed.

mod contents;
mod later;
mod newer;
mod packed;
mod shown;

use std::{env, fs, path::Path, sync::Arc};

use consign::{
    broker::{Broker, OpenOptions, StorageErrorKind},
    time::{ManualClock, Timestamp},
};

use self::{
    contents::fill,
    later::goes_on,
    packed::{Files, pack_files, unpack_files},
    shown::shown,
};
use crate::support::{Disk, START};

/// When the stores were written.
const END: Timestamp = Timestamp::from_millis(START.as_millis() + 2_000);

/// Between what a table shows and what it becomes.
const LATER: &str = "\nLater\n";

/// The texts of dead letters in the stores that a broker writes with another text now, and the sizes of their entities.
const SINCE: [(&str, &str); 6] = [
    (
        r#"{"DeadLetterReason":"MaxTransferHopCountExceeded"}"#,
        r#"{"DeadLetterErrorDescription":"The message was forwarded 4 times, the maximum, and is not forwarded to sink.","DeadLetterReason":"MaxTransferHopCountExceeded"}"#,
    ),
    ("1 dead, 0 not transferred, 313 bytes", "1 dead, 0 not transferred, 416 bytes"),
    (
        r#"n":"send: the entity is disabled (closed to senders)""#,
        r#"n":"The message could not be forwarded to closed to senders: send: the entity is disabled (closed to senders)""#,
    ),
    ("1 dead, 0 not transferred, 380 bytes", "1 dead, 0 not transferred, 437 bytes"),
    (
        r#"n":"The entity is disabled.""#,
        r#"n":"The message could not be forwarded to closed to senders: send: the entity is disabled""#,
    ),
    ("0 dead, 1 not transferred, 364 bytes", "0 dead, 1 not transferred, 426 bytes"),
];

struct Golden {
    name: &'static str,
    store: &'static [u8],
    table: &'static str,
}

macro_rules! golden {
    ($format:literal, $name:literal) => {
        Golden {
            name: concat!($format, "/", $name),
            store: include_bytes!(concat!($format, "/", $name, ".packed")),
            table: include_str!(concat!($format, "/table.txt")),
        }
    };
}

const EVERY: [Golden; 2] = [golden!("format-1", "closed"), golden!("format-1", "killed")];

impl Golden {
    /// A copy in a folder of its own.
    fn disk(&self) -> Disk {
        let mut disk = Disk::new();
        write(&disk, &unpack_files(self.store));
        disk.set_utc(END);
        disk
    }
}

fn write(disk: &Disk, files: &Files) {
    for (name, bytes) in files {
        fs::write(disk.path().join(name), bytes).unwrap();
    }
}

/// The head and the segments.
fn read(disk: &Disk) -> Files {
    let paths = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.ends_with("head") || path.extension().is_some_and(|it| it == "log"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut files: Files = paths.map(|path| (name(&path), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

fn holding() -> OpenOptions {
    Broker::options().hold_locks(true)
}

async fn table(broker: &Broker, clock: &ManualClock) -> String {
    let shown = shown(broker);
    format!("{shown}{LATER}{}", goes_on(broker, clock).await)
}

#[track_caller]
fn assert_same(name: &str, found: &str, expected: &str) {
    for (nth, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{name}, line {}", nth + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name}: lines");
}

/// Rules: I-11, D-02.
#[tokio::test]
async fn a_store_of_every_format_is_what_it_was() {
    for golden in EVERY {
        let disk = golden.disk();
        for _ in 0..2 {
            // To open it changes nothing that is seen.
            let (broker, _) = disk.open_with(holding());
            let shown = shown(&broker);
            assert_same(golden.name, &shown, golden.table.split_once(LATER).unwrap().0);
            broker.close().await.unwrap();
        }
        let (broker, clock) = disk.open_with(holding());
        assert_same(golden.name, &table(&broker, &clock).await, golden.table);
    }
}

/// The tables are no news to a broker that never saw a disk, but for the texts that have changed since.
#[tokio::test]
async fn a_broker_in_memory_shows_the_same() {
    let clock = Arc::new(ManualClock::new(START));
    let broker = Broker::with_clock(Arc::clone(&clock));
    let _held = fill(&broker, &clock).await;
    let mut expected = include_str!("format-1/table.txt").to_owned();
    for (then, now) in SINCE {
        assert_eq!(expected.matches(then).count(), 1, "{then}");
        expected = expected.replace(then, now);
    }
    assert_same("in memory", &table(&broker, &clock).await, &expected);
}

/// Rules: D-03.
#[tokio::test]
async fn locked_messages_in_stores_of_every_format_are_free() {
    for golden in EVERY {
        let (broker, _) = golden.disk().open();
        let orders = broker.queue("shop/orders").unwrap();
        for (queue, active) in [(&orders, 3), (&orders.dead_letter(), 4)] {
            let counts = queue.counts();
            assert_eq!((counts.active, counts.locked), (active, 0), "{}: {}", golden.name, queue.path());
        }
    }
}

/// Attacks: 96.
/// What a later version might write: another format of the store, and another version of a record.
#[tokio::test]
async fn a_store_of_a_later_format_is_refused_and_left_alone() {
    type Change = fn(&mut Files);
    let later: [(Change, &str); 2] = [(newer::format, "format 2"), (newer::record, "version 99")];
    for (change, named) in later {
        let (disk, mut files) = (Disk::new(), unpack_files(EVERY[0].store));
        change(&mut files);
        write(&disk, &files);
        for _ in 0..2 {
            let refused = Broker::open(disk.path()).unwrap_err();
            assert_eq!(refused.kind(), StorageErrorKind::NewerFormat, "{refused}");
            assert!(refused.to_string().contains(named), "{refused}");
        }
        assert!(read(&disk) == files, "{named}: it was written to");
    }
}

/// For a new format, as `docs/store-format.md` says.
#[tokio::test]
#[ignore = "writes files into the repository"]
async fn write_the_stores_of_this_format() {
    let to = env::var("GOLDEN").expect("GOLDEN is the folder to write to");
    let to = Path::new(&to);
    fs::create_dir_all(to).unwrap();
    for name in ["closed", "killed"] {
        let disk = Disk::new();
        let (broker, clock) = disk.open_with(holding());
        let held = fill(&broker, &clock).await;
        broker.flush().await.unwrap();
        let mut files = read(&disk);
        let table = if name == "closed" {
            broker.compact().await.unwrap();
            broker.close().await.unwrap();
            files = read(&disk);
            let mut disk = disk;
            disk.set_utc(END);
            let (broker, clock) = disk.open_with(holding());
            table(&broker, &clock).await
        } else {
            fs::read_to_string(to.join("table.txt")).unwrap()
        };
        drop(held);
        fs::write(to.join("table.txt"), table).unwrap();
        fs::write(to.join(name).with_extension("packed"), pack_files(&files)).unwrap();
    }
}
