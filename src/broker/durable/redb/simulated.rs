//! A disk in memory that loses power, forgets, fills up and fails, all by one seed.

use std::{
    collections::HashSet,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fastrand::Rng;
use parking_lot::Mutex;

use super::storage::Storage;

const BLOCK: u64 = 4_096;

/// The disk. Clones are the same one. It has one store.
#[derive(Clone)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

/// What goes wrong. Calls are counted from when it was set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// The power goes at this call, from 1 on: the call fails, as does every later one.
    pub(crate) power_loss: Option<u64>,
    /// This sync fails, from 1 on. What it was to write may be lost, also where a later one says otherwise.
    pub(crate) sync: Option<u64>,
    /// This read fails, from 1 on.
    pub(crate) read: Option<u64>,
    /// Syncs do nothing and say that they did.
    pub(crate) ignores_syncs: bool,
    /// Bytes that it can hold, the reserve among them.
    pub(crate) capacity: u64,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { power_loss: None, sync: None, read: None, ignores_syncs: false, capacity: u64::MAX };
}

#[expect(clippy::struct_excessive_bools, reason = "they have nothing to do with each other")]
struct State {
    faults: Faults,
    /// What there was when the power came.
    base: Image,
    /// What has happened since, unless nobody wants to know.
    history: Vec<Event>,
    keeps_history: bool,
    /// What is read.
    now: Image,
    counts: Counts,
    is_off: bool,
    /// Whether a store is open.
    is_open: bool,
    reserve: u64,
    holds_reserve: bool,
    allocated: HashSet<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) syncs: u64,
    pub(crate) reads: u64,
}

/// What a new process finds.
#[derive(Clone, Default)]
struct Image {
    bytes: Vec<u8>,
    is_published: bool,
}

enum Event {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Publish,
    Sync,
    /// What was not synced by then never will be.
    FailedSync,
}

impl Image {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Write(offset, data) => self.write(*offset, data),
            Event::SetLen(length) => self.bytes.resize(*length, 0),
            Event::Publish => self.is_published = true,
            Event::Sync | Event::FailedSync => {}
        }
    }

    /// Writes what is within the length.
    fn write(&mut self, offset: usize, data: &[u8]) {
        let end = self.bytes.len().min(offset + data.len());
        if offset < end {
            self.bytes[offset..end].copy_from_slice(&data[..end - offset]);
        }
    }

    /// What stays of an event that was not synced.
    fn survive(&mut self, event: &Event, rng: &mut Rng, share: f64) {
        match event {
            Event::Write(offset, data) if rng.f64() >= share => {
                if rng.u8(..3) > 0 {
                    return;
                }
                let sector = if rng.bool() { 512 } else { 4_096 };
                let mut start = 0;
                while start < data.len() {
                    let end = data.len().min((offset + start) / sector * sector + sector - offset);
                    if rng.bool() {
                        self.write(offset + start, &data[start..end]);
                    }
                    start = end;
                }
            }
            Event::Write(..) => self.apply(event),
            Event::SetLen(_) | Event::Publish if rng.f64() < share => self.apply(event),
            _ => {}
        }
    }
}

impl State {
    /// What is left when the power goes after so many events.
    fn image(&self, events: usize, rng: &mut Rng) -> Image {
        let (mut image, mut pending) = (self.base.clone(), Vec::new());
        let share = [0.0, 0.1, 0.5, 0.9, 1.0][rng.usize(..5)];
        for event in &self.history[..events] {
            match event {
                Event::Sync => pending.drain(..).for_each(|event| image.apply(event)),
                Event::FailedSync => pending.drain(..).for_each(|event| image.survive(event, rng, share)),
                event => pending.push(event),
            }
        }
        for event in pending {
            image.survive(event, rng, share);
        }
        image
    }

    /// Counts a call, which may be the last.
    fn call(&mut self) -> io::Result<bool> {
        if self.is_off {
            return Err(io::Error::other("there is no power"));
        }
        self.counts.calls += 1;
        self.is_off = self.faults.power_loss == Some(self.counts.calls);
        Ok(self.is_off)
    }

    fn add(&mut self, event: Event, is_last: bool) -> io::Result<()> {
        self.now.apply(&event);
        if self.keeps_history {
            self.history.push(event);
        }
        if is_last { Err(io::Error::other("the power went")) } else { Ok(()) }
    }

    /// Bytes that files take up.
    fn used(&self) -> u64 {
        self.allocated.len() as u64 * BLOCK + if self.holds_reserve { self.reserve } else { 0 }
    }
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        Self::with(Image::default())
    }

    fn with(image: Image) -> Self {
        Self(Arc::new(Mutex::new(State {
            faults: Faults::NONE,
            base: image.clone(),
            history: Vec::new(),
            keeps_history: true,
            now: image,
            counts: Counts::default(),
            is_off: false,
            is_open: false,
            reserve: 0,
            holds_reserve: false,
            allocated: HashSet::new(),
        })))
    }

    /// A disk with a store of these bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self::with(Image { bytes, is_published: true })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().now.bytes.clone()
    }

    /// Changes a byte that is on the disk.
    pub(crate) fn flip(&self, offset: usize, mask: u8) {
        let mut state = self.0.lock();
        state.now.bytes[offset] ^= mask;
        state.base.bytes[offset] ^= mask;
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        let mut state = self.0.lock();
        (state.faults, state.counts) = (faults, Counts::default());
    }

    /// Keeps nothing of what happens, so that the power cannot go.
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

    /// The disk as a process finds it after the power went, with each unsynced write lost, torn or there. It has no faults.
    pub(crate) fn power_loss(&self, rng: &mut Rng) -> Self {
        self.at(self.events(), rng)
    }

    /// The same, had the power gone after so many events.
    pub(crate) fn at(&self, events: usize, rng: &mut Rng) -> Self {
        let mut image = self.0.lock().image(events, rng);
        if !image.is_published {
            image.bytes.clear();
        }
        Self::with(image)
    }

    /// Opens the store, or begins it.
    pub(crate) fn open(&self) -> Box<dyn Storage> {
        let mut state = self.0.lock();
        assert!(!state.is_open, "the store is open");
        state.is_open = true;
        if !state.now.is_published {
            state.now.bytes.clear();
        }
        let length = state.now.bytes.len() as u64;
        state.allocated = (0..length.div_ceil(BLOCK)).collect();
        let is_new = AtomicBool::new(!state.now.is_published);
        drop(state);
        Box::new(SimulatedStorage { disk: self.clone(), is_new })
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk").finish_non_exhaustive()
    }
}

/// The store on the disk, open.
#[derive(Debug)]
struct SimulatedStorage {
    disk: SimulatedDisk,
    is_new: AtomicBool,
}

impl Drop for SimulatedStorage {
    fn drop(&mut self) {
        self.disk.0.lock().is_open = false;
    }
}

impl Storage for SimulatedStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().now.bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        if state.is_off {
            return Err(io::Error::other("there is no power"));
        }
        state.counts.reads += 1;
        if state.faults.read == Some(state.counts.reads) {
            return Err(io::Error::other("the sector cannot be read"));
        }
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let read = start.checked_add(out.len()).and_then(|end| state.now.bytes.get(start..end));
        out.copy_from_slice(read.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let is_last = state.call()?;
        let end = offset + data.len() as u64;
        if end > state.now.bytes.len() as u64 {
            return Err(io::Error::other("redb writes within the length"));
        }
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        let new = blocks.clone().filter(|block| !state.allocated.contains(block)).count() as u64;
        if new > 0 && state.used() + new * BLOCK > state.faults.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.allocated.extend(blocks);
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        state.add(Event::Write(start, data.to_vec()), is_last)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let is_last = state.call()?;
        state.allocated.retain(|block| block * BLOCK < len);
        let length = usize::try_from(len).map_err(io::Error::other)?;
        state.add(Event::SetLen(length), is_last)
    }

    fn allocate(&self, from: u64) {
        let mut state = self.disk.0.lock();
        let blocks = from / BLOCK..state.now.bytes.len() as u64 / BLOCK;
        if state.used() + (blocks.end - blocks.start) * BLOCK <= state.faults.capacity {
            state.allocated.extend(blocks);
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        if state.call()? {
            return Err(io::Error::other("the power went"));
        }
        state.counts.syncs += 1;
        if state.faults.sync == Some(state.counts.syncs) {
            state.history.push(Event::FailedSync);
            return Err(io::Error::other("the sync failed"));
        }
        if state.faults.ignores_syncs { Ok(()) } else { state.add(Event::Sync, false) }
    }

    fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    fn publish(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let is_last = state.call()?;
        state.add(Event::Publish, is_last)?;
        self.is_new.store(false, Ordering::Relaxed);
        if state.faults.ignores_syncs { Ok(()) } else { state.add(Event::Sync, false) }
    }

    fn reserve(&self) -> bool {
        let mut state = self.disk.0.lock();
        let has_room = state.holds_reserve || state.used() + state.reserve <= state.faults.capacity;
        state.holds_reserve = has_room && !state.is_off;
        state.holds_reserve
    }

    fn release(&self) -> bool {
        std::mem::take(&mut self.disk.0.lock().holds_reserve)
    }
}
