use std::sync::Arc;

use super::{
    super::{StorageError, disk::Storage},
    damage::unknown,
    files,
    frame::{PAGE, SECTOR},
    frames::Frames,
    state::State,
};

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) number: u32,
    pub(super) file: Arc<dyn Storage>,
    pub(super) size: u32,
    /// Where the next frame begins.
    pub(super) end: u32,
    /// The bytes before it in the same page, which are written again with it.
    pub(super) tail: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Spare {
    pub(super) number: u32,
    pub(super) file: Arc<dyn Storage>,
    pub(super) size: u32,
}

impl Active {
    pub(super) fn sync(&self) -> Result<(), StorageError> {
        self.file.sync().map_err(|error| unknown("syncing", &files::segment(self.number), error))
    }

    /// The last segment of an opened store.
    pub(super) fn last(state: &State, store: u64) -> Result<Option<Self>, StorageError> {
        let Some((&number, last)) = state.segments.last_key_value() else { return Ok(None) };
        let (file, size, end) = (Arc::clone(&last.file), last.size, last.end);
        let mut tail = vec![0; (end % PAGE) as usize];
        let frames = Frames { file: Arc::clone(&file), store, segment: number, size };
        frames.bytes(end - end % PAGE, &mut tail)?;
        Ok(Some(Self { number, file, size, end, tail }))
    }

    /// Where the page begins that the next frame begins in.
    pub(super) fn page(&self) -> u32 {
        self.end - self.end % PAGE
    }

    /// Whether a frame of this length fits, and a mark after it.
    pub(super) fn fits(&self, length: u32) -> bool {
        let end = self.end.checked_add(length).and_then(|end| end.checked_add(SECTOR));
        end.is_some_and(|end| end <= self.size)
    }

    /// Moves the end behind a frame that was written, with these bytes from the start of its page on.
    pub(super) fn advance(&mut self, length: u32, bytes: &[u8]) {
        let page = self.page();
        self.end += length;
        let (from, to) = (self.page() - page, self.end - page);
        self.tail.clear();
        self.tail.extend_from_slice(&bytes[from as usize..to as usize]);
    }
}
