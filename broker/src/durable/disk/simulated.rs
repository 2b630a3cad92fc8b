//! A disk in memory that loses power, forgets, fills up and fails, all by one seed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsString,
    fmt, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fastrand::Rng;
use parking_lot::Mutex;

use super::{Folder, Storage};

const BLOCK: u64 = 4_096;

/// The disk. Clones are the same one. It has one folder, which does not exist at first, for one store.
#[derive(Clone)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

/// The faults of a disk. Calls are counted from when they were set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// The power is lost at this call, from 1 on: the call fails, as does every later one.
    pub(crate) power_loss: Option<u64>,
    /// This sync fails, from 1 on. Its data may be lost, also where a later sync reports success.
    pub(crate) sync: Option<u64>,
    /// This read fails, from 1 on.
    pub(crate) read: Option<u64>,
    /// Syncs do nothing and report success.
    pub(crate) ignores_syncs: bool,
    /// Bytes that it can hold, the reserve among them.
    pub(crate) capacity: u64,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { power_loss: None, sync: None, read: None, ignores_syncs: false, capacity: u64::MAX };
}

struct State {
    faults: Faults,
    /// The contents when the power came.
    base: Image,
    /// The events since, unless they are not recorded.
    history: Vec<Event>,
    keeps_history: bool,
    /// What is read.
    now: Image,
    counts: Counts,
    is_off: bool,
    /// Files that are locked.
    locked: HashSet<usize>,
    /// The size of the reserve that an opening takes.
    reserve: u64,
    /// Blocks of files that have a name.
    allocated: HashMap<usize, HashSet<u64>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) syncs: u64,
    pub(crate) reads: u64,
}

/// The contents that a new process finds.
#[derive(Clone, Default)]
struct Image {
    has_folder: bool,
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
}

enum Event {
    Write(usize, usize, Vec<u8>),
    SetLen(usize, usize),
    /// A file of this name and number. With `true` the name is as lasting as the folder.
    Create(String, usize, bool),
    Rename(String, String, usize),
    Remove(String),
    /// Whether the folder is there from now on.
    Folder(bool),
    Sync(Synced),
    /// What was not synced by then never will be.
    FailedSync(Synced),
}

/// What a sync makes lasting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Synced {
    File(usize),
    Names,
    Parent,
}

impl Event {
    /// What makes it lasting.
    fn by(&self) -> Option<Synced> {
        match self {
            Self::Write(file, ..) | Self::SetLen(file, _) => Some(Synced::File(*file)),
            Self::Create(_, _, false) | Self::Rename(..) | Self::Remove(_) => Some(Synced::Names),
            Self::Folder(_) => Some(Synced::Parent),
            Self::Create(_, _, true) | Self::Sync(_) | Self::FailedSync(_) => None,
        }
    }
}

impl Image {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Write(file, offset, data) => self.write(*file, *offset, data),
            Event::SetLen(file, length) => self.file(*file).resize(*length, 0),
            Event::Create(name, file, _) => {
                self.file(*file);
                self.names.insert(name.clone(), *file);
            }
            Event::Rename(from, to, file) => {
                self.names.remove(from);
                self.names.insert(to.clone(), *file);
            }
            Event::Remove(name) => drop(self.names.remove(name)),
            Event::Folder(has_folder) => self.has_folder = *has_folder,
            Event::Sync(_) | Event::FailedSync(_) => {}
        }
    }

    fn file(&mut self, number: usize) -> &mut Vec<u8> {
        if self.files.len() <= number {
            self.files.resize(number + 1, Vec::new());
        }
        &mut self.files[number]
    }

    fn write(&mut self, file: usize, offset: usize, data: &[u8]) {
        let (bytes, end) = (self.file(file), offset + data.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset..end].copy_from_slice(data);
    }

    /// Writes what is within the length.
    fn write_within(&mut self, file: usize, offset: usize, data: &[u8]) {
        let end = self.file(file).len().min(offset + data.len());
        if offset < end {
            self.write(file, offset, &data[..end - offset]);
        }
    }

    /// Applies what survives of an event that was not synced.
    fn survive(&mut self, event: &Event, rng: &mut Rng, share: f64) {
        match event {
            Event::Write(file, offset, data) if rng.f64() >= share => {
                if rng.u8(..3) > 0 {
                    return;
                }
                let sector = if rng.bool() { 512 } else { 4_096 };
                let mut start = 0;
                while start < data.len() {
                    let end = data.len().min((offset + start) / sector * sector + sector - offset);
                    if rng.bool() {
                        self.write_within(*file, offset + start, &data[start..end]);
                    }
                    start = end;
                }
            }
            Event::Write(file, offset, data) => self.write_within(*file, *offset, data),
            event if rng.f64() < share => self.apply(event),
            _ => {}
        }
    }
}

impl State {
    /// Returns the contents when the power is lost after so many events.
    fn image(&self, events: usize, rng: &mut Rng) -> Image {
        let (mut image, mut pending) = (self.base.clone(), Vec::new());
        let share = [0.0, 0.1, 0.5, 0.9, 1.0][rng.usize(..5)];
        for event in &self.history[..events] {
            match event {
                Event::Sync(synced) => {
                    pending
                        .extract_if(.., |event: &mut &Event| event.by() == Some(*synced))
                        .for_each(|event| image.apply(event));
                }
                Event::FailedSync(synced) => {
                    let failed = pending.extract_if(.., |event: &mut &Event| event.by() == Some(*synced));
                    failed.for_each(|event| image.survive(event, rng, share));
                }
                Event::Create(_, _, true) => image.apply(event),
                event => pending.push(event),
            }
        }
        for event in pending {
            image.survive(event, rng, share);
        }
        if !image.has_folder {
            image.names.clear();
        }
        image
    }

    /// Counts a call, which may be the last.
    fn call(&mut self) -> io::Result<bool> {
        self.check_power()?;
        self.counts.calls += 1;
        self.is_off = self.faults.power_loss == Some(self.counts.calls);
        Ok(self.is_off)
    }

    fn check_power(&self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("there is no power")) } else { Ok(()) }
    }

    fn add(&mut self, event: Event, is_last: bool) -> io::Result<()> {
        self.now.apply(&event);
        if self.keeps_history {
            self.history.push(event);
        }
        if is_last { Err(io::Error::other("the power went")) } else { Ok(()) }
    }

    fn sync(&mut self, synced: Synced) -> io::Result<()> {
        if self.call()? {
            return Err(io::Error::other("the power went"));
        }
        self.counts.syncs += 1;
        if self.faults.sync == Some(self.counts.syncs) {
            self.history.push(Event::FailedSync(synced));
            return Err(io::Error::other("the sync failed"));
        }
        if self.faults.ignores_syncs { Ok(()) } else { self.add(Event::Sync(synced), false) }
    }

    /// The number of the file of this name.
    fn named(&self, name: &str) -> io::Result<usize> {
        self.check_power()?;
        self.now.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn blocks(&mut self, file: usize) -> &mut HashSet<u64> {
        self.allocated.entry(file).or_default()
    }

    /// Bytes that files take up.
    fn used(&self) -> u64 {
        self.allocated.values().map(|blocks| blocks.len() as u64).sum::<u64>() * BLOCK
    }
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        Self::with(Image::default())
    }

    fn with(image: Image) -> Self {
        let blocks = |bytes: &Vec<u8>| (0..(bytes.len() as u64).div_ceil(BLOCK)).collect();
        let allocated = image.names.values().map(|&file| (file, blocks(&image.files[file]))).collect();
        Self(Arc::new(Mutex::new(State {
            faults: Faults::NONE,
            base: image.clone(),
            history: Vec::new(),
            keeps_history: true,
            now: image,
            counts: Counts::default(),
            is_off: false,
            locked: HashSet::new(),
            reserve: 0,
            allocated,
        })))
    }

    /// Another disk with what is on this one now.
    pub(crate) fn copy(&self) -> Self {
        Self::with(self.0.lock().now.clone())
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.0.lock();
        state.now.files[state.now.names[name]].clone()
    }

    /// The names in the folder, if there is one.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        let state = self.0.lock();
        state.now.has_folder.then(|| state.now.names.keys().cloned().collect())
    }

    /// Changes the names in the folder, as they are and as they are on the disk.
    pub(crate) fn change_names(&self, change: impl Fn(&mut BTreeMap<String, usize>)) {
        let mut state = self.0.lock();
        change(&mut state.now.names);
        change(&mut state.base.names);
    }

    /// Changes the bytes of a file, as they are and as they are on the disk.
    pub(crate) fn change(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        let file = state.now.names[name];
        change(&mut state.now.files[file]);
        change(&mut state.base.files[file]);
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        let mut state = self.0.lock();
        (state.faults, state.counts) = (faults, Counts::default());
    }

    /// Records no events, so that the power cannot be lost.
    pub(crate) fn forget_history(&self) {
        self.0.lock().keeps_history = false;
    }

    /// How large the reserve is. None at first.
    pub(crate) fn set_reserve(&self, bytes: u64) {
        self.0.lock().reserve = bytes;
    }

    /// Since the faults were set.
    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().counts
    }

    /// Events so far, which [`at`](Self::at) takes.
    pub(crate) fn events(&self) -> usize {
        self.0.lock().history.len()
    }

    /// Whether anything was written to it, beside syncs.
    pub(crate) fn has_changed(&self) -> bool {
        self.0.lock().history.iter().any(|event| event.by().is_some())
    }

    /// Returns the disk as a process finds it after a power loss, with each unsynced write lost, torn or there. It
    /// has no faults.
    pub(crate) fn power_loss(&self, rng: &mut Rng) -> Self {
        self.at(self.events(), rng)
    }

    /// Does the same for a power loss after so many events.
    pub(crate) fn at(&self, events: usize, rng: &mut Rng) -> Self {
        Self::with(self.0.lock().image(events, rng))
    }

    /// Simulates a process crash only: the next process finds everything, and unsynced data may still be lost.
    pub(crate) fn restart(&self) {
        self.set_faults(Faults::NONE);
        let mut state = self.0.lock();
        state.is_off = false;
        state.locked.clear();
    }

    pub(crate) fn reserve(&self) -> u64 {
        self.0.lock().reserve
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk").finish_non_exhaustive()
    }
}

impl Folder for SimulatedDisk {
    fn path(&self) -> &Path {
        Path::new("simulated")
    }

    fn create(&self) -> io::Result<bool> {
        let mut state = self.0.lock();
        if state.now.has_folder {
            return Ok(false);
        }
        let is_last = state.call()?;
        state.add(Event::Folder(true), is_last).map(|()| true)
    }

    fn create_with(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.now.has_folder {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let is_last = state.call()?;
        let file = state.now.files.len();
        state.add(Event::Create(name.into(), file, true), false)?;
        state.add(Event::Folder(true), is_last)
    }

    fn remove_folder(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        let is_last = state.call()?;
        if !state.now.names.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.add(Event::Folder(false), is_last)
    }

    fn entries(&self) -> io::Result<Vec<(OsString, bool)>> {
        let state = self.0.lock();
        state.check_power()?;
        if !state.now.has_folder {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state.now.names.keys().map(|name| (name.into(), true)).collect())
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn Storage>> {
        let mut state = self.0.lock();
        let file = match state.named(name) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound && state.now.has_folder => {
                let (is_last, file) = (state.call()?, state.now.files.len());
                state.add(Event::Create(name.into(), file, false), is_last)?;
                file
            }
            named => named?,
        };
        Ok(Box::new(SimulatedFile::new(self, file)))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Box<dyn Storage>> {
        Folder::open(self, name, false)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        let (file, is_last) = (state.named(from)?, state.call()?);
        if let Ok(replaced) = state.named(to) {
            state.allocated.remove(&replaced);
        }
        state.add(Event::Rename(from.into(), to.into(), file), is_last)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        let (file, is_last) = (state.named(name)?, state.call()?);
        state.allocated.remove(&file);
        state.add(Event::Remove(name.into()), is_last)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.lock().sync(Synced::Names)
    }

    fn sync_parent(&self) -> io::Result<()> {
        self.0.lock().sync(Synced::Parent)
    }
}

/// A file that is open.
#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
    has_lock: AtomicBool,
}

impl SimulatedFile {
    fn new(disk: &SimulatedDisk, file: usize) -> Self {
        Self { disk: disk.clone(), file, has_lock: AtomicBool::new(false) }
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Storage for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().now.files[self.file].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.check_power()?;
        state.counts.reads += 1;
        if state.faults.read == Some(state.counts.reads) {
            return Err(io::Error::other("the sector cannot be read"));
        }
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let read = start.checked_add(out.len()).and_then(|end| state.now.files[self.file].get(start..end));
        out.copy_from_slice(read.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let is_last = state.call()?;
        let blocks = offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK);
        let allocated = state.blocks(self.file);
        let new = blocks.clone().filter(|block| !allocated.contains(block)).count() as u64;
        if new > 0 && state.used() + new * BLOCK > state.faults.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.blocks(self.file).extend(blocks);
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        state.add(Event::Write(self.file, start, data.to_vec()), is_last)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let is_last = state.call()?;
        state.blocks(self.file).retain(|block| block * BLOCK < len);
        let length = usize::try_from(len).map_err(io::Error::other)?;
        state.add(Event::SetLen(self.file, length), is_last)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.0.lock().sync(Synced::File(self.file))
    }

    fn try_lock(&self) -> io::Result<bool> {
        let is_first = self.disk.0.lock().locked.insert(self.file);
        self.has_lock.fetch_or(is_first, Ordering::Relaxed);
        Ok(is_first)
    }

    fn unlock(&self) {
        if self.has_lock.swap(false, Ordering::Relaxed) {
            self.disk.0.lock().locked.remove(&self.file);
        }
    }
}
