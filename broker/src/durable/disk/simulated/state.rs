use std::{
    collections::{HashMap, HashSet},
    io,
    ops::Range,
};

use fastrand::Rng;

use super::{
    BLOCK, Counts, Faults,
    events::{Event, Image, Synced},
};

/// A disk, and the events since the power came.
pub(super) struct State {
    pub(super) faults: Faults,
    /// The contents when the power came.
    pub(super) base: Image,
    /// The events since, unless they are not recorded.
    pub(super) history: Vec<Event>,
    pub(super) keeps_history: bool,
    /// What is read.
    pub(super) now: Image,
    pub(super) counts: Counts,
    pub(super) is_off: bool,
    /// Files that are locked.
    pub(super) locked: HashSet<usize>,
    /// The range of a file that cannot be read, from so many reads on.
    pub(super) unreadable: Option<(usize, Range<usize>, u64)>,
    /// The size of the reserve that an opening takes.
    pub(super) reserve: u64,
    /// Blocks of files that have a name.
    pub(super) allocated: HashMap<usize, HashSet<u64>>,
}

impl State {
    /// Returns the contents when the power is lost after so many events.
    pub(super) fn image(&self, events: usize, rng: &mut Rng) -> Image {
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
    pub(super) fn call(&mut self) -> io::Result<bool> {
        self.check_power()?;
        self.counts.calls += 1;
        self.is_off = self.faults.power_loss == Some(self.counts.calls);
        Ok(self.is_off)
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("there is no power")) } else { Ok(()) }
    }

    pub(super) fn add(&mut self, event: Event, is_last: bool) -> io::Result<()> {
        self.now.apply(&event);
        if self.keeps_history {
            self.history.push(event);
        }
        if is_last { Err(io::Error::other("the power went")) } else { Ok(()) }
    }

    pub(super) fn sync(&mut self, synced: Synced) -> io::Result<()> {
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
    pub(super) fn named(&self, name: &str) -> io::Result<usize> {
        self.check_power()?;
        self.now.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn blocks(&mut self, file: usize) -> &mut HashSet<u64> {
        self.allocated.entry(file).or_default()
    }

    /// Bytes that files take up.
    pub(super) fn used(&self) -> u64 {
        self.allocated.values().map(|blocks| blocks.len() as u64).sum::<u64>() * BLOCK
    }
}
