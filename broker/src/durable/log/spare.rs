//! The segment that is used next: a freed one, or one that was filled ahead.

use super::{
    super::{StorageError, StorageErrorKind},
    active::Spare,
    ahead::{AHEAD, Ahead},
    journal::LogJournal,
};

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
