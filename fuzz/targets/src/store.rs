use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use consign::broker::{Broker, StorageErrorKind};

use crate::source::Source;

/// The random number of the store, the epoch, and the size of its one segment.
const STORE: u64 = 0x0102_0304_0506_0708;
const EPOCH: u32 = 1;
const SEGMENT: u32 = 64 << 10;
const SECTOR: usize = 512;
const HEADER: usize = 64;

/// Records as somebody else would have written them, in the files of a store by `docs/store-format.md`, with the right checksums
/// unless the fuzzer chooses otherwise. The store is salvaged, opened, read, closed and opened again.
///
/// # Panics
/// A store that was opened and closed cannot be opened again.
pub fn store(data: &[u8]) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("consign-fuzz-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder is created");
    write(&folder, &mut Source::new(data));
    read(&folder);
    fs::remove_dir_all(&folder).expect("the folder is removed");
}

fn read(folder: &Path) {
    if let Ok(salvage) = Broker::salvage(folder, &mut Vec::new()) {
        assert!(salvage.messages <= salvage.records);
    }
    let broker = match Broker::open(folder) {
        Ok(broker) => broker,
        Err(refused) => {
            assert!(!refused.to_string().is_empty());
            assert_ne!(refused.kind(), StorageErrorKind::Closed);
            return;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime is built");
    let closed = runtime.block_on(async {
        for entity in broker.entities() {
            if let Ok(queue) = broker.queue(entity.path.as_str()) {
                drop(queue.export(&mut Vec::new()));
            }
        }
        broker.close().await
    });
    drop(broker);
    if closed.is_ok() {
        drop(Broker::open(folder).expect("what was closed is opened"));
    }
}

fn write(folder: &Path, source: &mut Source<'_>) {
    let mut segment = vec![0; SEGMENT as usize];
    let (mut end, mut commit) = (0_u32, 1_u64);
    let damage = source.byte();
    for _ in 0..source.below(6) {
        let records = records(source, end);
        let whole = (HEADER + records.len()).next_multiple_of(SECTOR);
        if end as usize + whole + SECTOR > segment.len() {
            break;
        }
        let at = end as usize;
        segment[at..at + HEADER].copy_from_slice(&header(end, commit, &records));
        segment[at + HEADER..at + HEADER + records.len()].copy_from_slice(&records);
        end += u32::try_from(whole).expect("a few records");
        commit += 1;
    }
    let is_closed = source.flag();
    let mut head = head(end, commit, is_closed.then_some(u64::from(source.byte())));
    if damage >= 0xc0 {
        let (place, byte) = (source.below(usize::from(u16::MAX)), source.byte());
        let file = if damage & 1 == 0 { &mut segment } else { &mut head };
        let place = place % file.len();
        file[place] ^= byte;
    }
    for (name, bytes) in [("00000001.log", &segment), ("head", &head)] {
        fs::write(folder.join(name), bytes).expect("a file is written");
    }
}

/// Entries at the place of a frame: a table, a key, and a value or a removal each.
fn records(source: &mut Source<'_>, frame: u32) -> Vec<u8> {
    let mut records = Vec::new();
    for _ in 0..=source.below(8) {
        let choice = source.byte();
        let (table, is_removal) = (choice % 6, choice >= 0xe0);
        let mut key = match table {
            0 => Vec::new(),
            1 | 2 => u64::from(source.byte()).to_be_bytes().to_vec(),
            3 => [&u64::from(source.byte()).to_be_bytes()[..], b"s"].concat(),
            _ => [u64::from(source.byte()).to_be_bytes(), u64::from(source.byte()).to_be_bytes()].concat(),
        };
        if choice & 0x18 == 0x18 {
            let length = source.below(20);
            key.extend(source.bytes(length));
        }
        let value = if is_removal {
            vec![1, 0, 0, 0, 1, 0, 0, 0]
        } else {
            let length = source.below(300);
            source.bytes(length).to_vec()
        };
        let offset = frame + u32::try_from(HEADER + records.len()).expect("a few records");
        let mut head = vec![table | if is_removal { 0x80 } else { 0 }];
        head.extend(u16::try_from(key.len()).expect("a short key").to_le_bytes());
        head.extend(u32::try_from(value.len()).expect("a short value").to_le_bytes());
        let place = [1_u32.to_le_bytes(), offset.to_le_bytes()].concat();
        let checksum = crc32fast::hash(&[&place[..], &head, &key, &value].concat());
        records.extend([&head[..], &checksum.to_le_bytes(), &key, &value].concat());
    }
    records
}

fn header(offset: u32, commit: u64, records: &[u8]) -> Vec<u8> {
    let mut header = b"csgf".to_vec();
    header.extend(EPOCH.to_le_bytes());
    header.extend(STORE.to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    header.extend(offset.to_le_bytes());
    header.extend(commit.to_le_bytes());
    header.extend((commit - 1).to_le_bytes());
    header.extend(u32::try_from(records.len()).expect("a few records").to_le_bytes());
    header.extend(crc32fast::hash(records).to_le_bytes());
    header.extend([0; 12]);
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header
}

fn head(end: u32, commit: u64, records: Option<u64>) -> Vec<u8> {
    let mut head = b"csgnhead".to_vec();
    head.extend(1_u32.to_le_bytes());
    head.extend(EPOCH.to_le_bytes());
    head.extend(STORE.to_le_bytes());
    head.extend(records.unwrap_or(u64::MAX).to_le_bytes());
    head.extend(1_u32.to_le_bytes());
    for number in [1, SEGMENT, end] {
        head.extend(number.to_le_bytes());
    }
    head.extend(1_u64.to_le_bytes());
    head.extend(commit.to_le_bytes());
    head.extend(crc32fast::hash(&head).to_le_bytes());
    head
}
