use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use crate::contestant::{Contestant, Entered, Place, Step, Unexpected, body};

/// What a log of our own might be in the place of redb, as a prototype: segments that are appended to, with a checksum of
/// each record, and in memory where each message is. The oldest segments go when nothing in them is left. It cannot be
/// opened again.
struct Segments {
    folder: PathBuf,
    body: Vec<u8>,
    group: Vec<u8>,
    segments: VecDeque<Segment>,
    /// The number of the oldest segment.
    oldest: u64,
    /// Where each message is: segment and offset.
    index: BTreeMap<u64, (u64, u64)>,
    next: u64,
}

struct Segment {
    file: File,
    length: u64,
    messages: u64,
}

const LARGEST: u64 = 64 << 20;
/// Checksum, length, kind and number.
const HEAD: usize = 4 + 4 + 1 + 8;
const MESSAGE: u8 = 1;
const COMPLETED: u8 = 2;

pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        std::fs::create_dir_all(place.folder)?;
        let mut segments = Segments {
            folder: place.folder.into(),
            body: body(),
            group: Vec::new(),
            segments: VecDeque::new(),
            oldest: 0,
            index: BTreeMap::new(),
            next: 0,
        };
        segments.begin()?;
        Ok(Entered { contestant: Box::new(segments), settings: "prototype, segments of 64 MiB".into() })
    })
}

/// Adds a record with its checksum.
fn push(group: &mut Vec<u8>, kind: u8, number: u64, body: &[u8]) {
    let start = group.len();
    group.extend_from_slice(&[0; 4]);
    group.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    group.push(kind);
    group.extend_from_slice(&number.to_le_bytes());
    group.extend_from_slice(body);
    let checksum = crc32fast::hash(&group[start + 4..]).to_le_bytes();
    group[start..start + 4].copy_from_slice(&checksum);
}

impl Segments {
    fn path(&self, segment: u64) -> PathBuf {
        self.folder.join(format!("{segment:010}.log"))
    }

    fn newest(&self) -> u64 {
        self.oldest + self.segments.len() as u64 - 1
    }

    fn begin(&mut self) -> io::Result<()> {
        let path = self.path(self.oldest + self.segments.len() as u64);
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        self.segments.push_back(Segment { file, length: 0, messages: 0 });
        File::open(&self.folder)?.sync_all()
    }

    /// Writes the group at the end, and where it began.
    fn append(&mut self) -> io::Result<u64> {
        if self.segments.back().is_some_and(|last| last.length >= LARGEST) {
            self.begin()?;
        }
        let Some(last) = self.segments.back_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let start = last.length;
        last.file.write_all(&self.group)?;
        last.file.sync_data()?;
        last.length += self.group.len() as u64;
        Ok(start)
    }

    fn send_all(&mut self, window: usize) -> io::Result<()> {
        self.group.clear();
        let first = self.next;
        for _ in 0..window {
            push(&mut self.group, MESSAGE, self.next, &self.body);
            self.next += 1;
        }
        let start = self.append()?;
        let (segment, each) = (self.newest(), (HEAD + self.body.len()) as u64);
        self.index.extend((first..self.next).map(|number| (number, (segment, start + (number - first) * each))));
        if let Some(last) = self.segments.back_mut() {
            last.messages += window as u64;
        }
        Ok(())
    }

    fn read(&self, segment: u64, offset: u64) -> io::Result<Vec<u8>> {
        let place = usize::try_from(segment - self.oldest).map_err(io::Error::other)?;
        let mut record = vec![0; HEAD + self.body.len()];
        self.segments[place].file.read_exact_at(&mut record, offset)?;
        if crc32fast::hash(&record[4..]).to_le_bytes() != record[..4] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(record)
    }

    fn take_all(&mut self, window: usize) -> io::Result<()> {
        let taken: Vec<_> = self.index.iter().take(window).map(|(number, place)| (*number, *place)).collect();
        if taken.len() != window {
            return Err(io::Error::other(Unexpected("a message is missing")));
        }
        self.group.clear();
        for &(number, (segment, offset)) in &taken {
            std::hint::black_box(self.read(segment, offset)?);
            push(&mut self.group, COMPLETED, number, &[]);
        }
        self.append()?;
        for (number, (segment, _)) in taken {
            self.index.remove(&number);
            let place = usize::try_from(segment - self.oldest).map_err(io::Error::other)?;
            self.segments[place].messages -= 1;
        }
        while self.segments.len() > 1 && self.segments.front().is_some_and(|oldest| oldest.messages == 0) {
            std::fs::remove_file(self.path(self.oldest))?;
            self.segments.pop_front();
            self.oldest += 1;
        }
        Ok(())
    }
}

impl Contestant for Segments {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move { Ok(self.send_all(window)?) })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move { Ok(self.take_all(window)?) })
    }
}
