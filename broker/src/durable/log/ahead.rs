//! Fills the next segment with zeros before it is needed, so that no commit waits for that.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use super::{
    super::{StorageError, StorageErrorKind, disk::Storage},
    journal::{LogJournal, Spare},
    shared::Shared,
};

/// The number in the name of the file that is being filled. No segment has it: the file is renamed when it is used, and
/// the next opening removes it.
pub(super) const AHEAD: u32 = u32::MAX;

/// A segment that is being filled, on a thread unless it is done.
#[derive(Debug)]
pub(super) struct Ahead {
    size: u32,
    filling: Filling,
}

type Filled = Result<Arc<dyn Storage>, StorageError>;

#[derive(Debug)]
enum Filling {
    On(JoinHandle<Filled>),
    Done(Filled),
}

impl Ahead {
    /// Begins to fill a segment. `None` if there is no thread for it.
    fn begin(shared: &Arc<Shared>, size: u32, has_thread: bool) -> Option<Self> {
        let shared = Arc::clone(shared);
        let fill = move || shared.place.create_segment(AHEAD, size);
        let filling = if has_thread {
            // The commit that needs the segment can fill it.
            Filling::On(thread::Builder::new().name("consign-filler".into()).spawn(fill).ok()?)
        } else {
            Filling::Done(fill())
        };
        Some(Self { size, filling })
    }

    /// Whether there is nothing to wait for.
    fn is_filled(&self) -> bool {
        match &self.filling {
            Filling::On(thread) => thread.is_finished(),
            Filling::Done(_) => true,
        }
    }

    /// Waits until it is filled.
    fn end(self) -> Filled {
        match self.filling {
            Filling::Done(filled) => filled,
            Filling::On(thread) => thread.join().unwrap_or_else(|_| {
                Err(StorageError::new(StorageErrorKind::Failed, "the thread that fills segments panicked"))
            }),
        }
    }
}

impl LogJournal {
    /// Begins to fill the next segment when half of this one is used, unless one can be used again.
    pub(super) fn fill_ahead(&mut self) -> Result<(), StorageError> {
        let Some(active) = self.active.as_ref().filter(|active| active.end >= active.size / 2) else { return Ok(()) };
        if self.is_ahead_decided || self.is_full || self.spare.is_some() || self.ahead.is_some() {
            return Ok(());
        }
        self.is_ahead_decided = true;
        let number = active.number;
        let is_reused = !self.shared.state.read().freeable(number).is_empty();
        if is_reused {
            match self.reclaim() {
                // The batch is committed. The next segment frees them.
                Err(error) if error.kind() == StorageErrorKind::Full => return Ok(()),
                reclaimed => reclaimed?,
            }
        }
        let (size, largest) = (self.next_size, self.options.largest.into());
        // Less may be in use when it is filled.
        let wanted = u64::from(size) + largest / 2;
        if self.spare.is_none() && !self.shared.state.read().exceeds(wanted, largest) {
            self.ahead = Ahead::begin(&self.shared, size, self.options.has_thread);
        }
        Ok(())
    }

    /// Waits for the segment that is being filled, and keeps it as the spare one.
    pub(super) fn take_ahead(&mut self) -> Result<(), StorageError> {
        let Some(ahead) = self.ahead.take() else { return Ok(()) };
        let size = ahead.size;
        match ahead.end() {
            Ok(file) => self.spare = Some(Spare { number: AHEAD, file, size }),
            Err(error) => {
                self.shared.place.remove_segment(AHEAD);
                // A commit may use the reserve to fill one.
                if error.kind() != StorageErrorKind::Full {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Removes the spare segment, and the one that is being filled.
    pub(super) fn remove_spare(&mut self) -> Result<(), StorageError> {
        let taken = self.take_ahead();
        if let Some(Spare { number, .. }) = self.spare.take() {
            self.shared.place.remove_segment(number);
        }
        taken
    }

    /// Removes the spare segment, or the one that was filled ahead, if the store takes up too much with it.
    pub(super) fn limit_spare(&mut self) -> Result<(), StorageError> {
        let largest = self.options.largest.into();
        let filled = self.ahead.as_ref().filter(|ahead| ahead.is_filled()).map(|ahead| ahead.size);
        if filled.is_some_and(|size| self.shared.state.read().exceeds(size.into(), largest)) {
            self.take_ahead()?;
        }
        let state = self.shared.state.read();
        if let Some(Spare { number, .. }) = self.spare.take_if(|spare| state.exceeds(spare.size.into(), largest)) {
            self.shared.place.remove_segment(number);
        }
        Ok(())
    }

    /// Ends the thread that fills a segment, before others may open the store.
    pub(super) fn end_ahead(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            // The journal has failed, or returns the error of its close.
            drop(ahead.end());
            self.shared.place.remove_segment(AHEAD);
        }
    }
}
