//! A disk in memory that loses power, forgets, fills up and fails, all by one seed.

mod events;
mod state;
mod storage;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    ops::Range,
    sync::Arc,
};

use fastrand::Rng;
use parking_lot::Mutex;

use self::{events::Image, state::State};

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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) syncs: u64,
    pub(crate) reads: u64,
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
            unreadable: None,
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

    /// The names in the folder, and the lengths of their files.
    pub(crate) fn lengths(&self) -> Vec<(String, usize)> {
        let state = self.0.lock();
        let length = |(name, file): (&String, &usize)| (name.clone(), state.now.files[*file].len());
        state.now.names.iter().map(length).collect()
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

    /// Makes a range of a file fail to be read, from so many reads on that are counted as faults are.
    pub(crate) fn set_unreadable(&self, name: &str, range: Range<usize>, from_read: u64) {
        let mut state = self.0.lock();
        state.unreadable = Some((state.now.names[name], range, from_read));
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
