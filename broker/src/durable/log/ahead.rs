//! Fills the next segment with zeros before it is needed, so that no commit waits for that.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use super::{
    super::{StorageError, StorageErrorKind, disk::Storage},
    shared::Shared,
};

/// The number in the name of the file that is being filled. No segment has it: the file is renamed when it is used, and
/// the next opening removes it.
pub(super) const AHEAD: u32 = u32::MAX;

/// A segment that is being filled, on a thread unless it is done.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) size: u32,
    filling: Filling,
}

pub(super) type Filled = Result<Arc<dyn Storage>, StorageError>;

#[derive(Debug)]
enum Filling {
    On(JoinHandle<Filled>),
    Done(Filled),
}

impl Ahead {
    /// Begins to fill a segment. `None` if there is no thread for it.
    pub(super) fn begin(shared: &Arc<Shared>, size: u32, has_thread: bool) -> Option<Self> {
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
    pub(super) fn is_filled(&self) -> bool {
        match &self.filling {
            Filling::On(thread) => thread.is_finished(),
            Filling::Done(_) => true,
        }
    }

    /// Waits until it is filled.
    pub(super) fn end(self) -> Filled {
        match self.filling {
            Filling::Done(filled) => filled,
            Filling::On(thread) => thread.join().unwrap_or_else(|_| {
                Err(StorageError::new(StorageErrorKind::Failed, "the thread that fills segments panicked"))
            }),
        }
    }
}
