use super::{
    super::StorageError,
    damage::{at, damaged},
    frames::Frames,
};

/// How far a segment is emptied.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) frames: Frames,
    /// Where its frames end, and where the next one begins.
    pub(super) end: u32,
    pub(super) next: u32,
    /// The frame that is being read: its records, where they begin in the segment, and how many bytes of them are done.
    pub(super) records: Vec<u8>,
    pub(super) start: u32,
    pub(super) done: usize,
    pub(super) is_over: bool,
}

impl Cursor {
    pub(super) fn segment(&self) -> u32 {
        self.frames.segment
    }

    /// Reads the next frame. `false` at the end.
    pub(super) fn read_on(&mut self) -> Result<bool, StorageError> {
        if self.next >= self.end {
            self.is_over = true;
            return Ok(false);
        }
        self.records.clear();
        let found = self.frames.read(self.next, &mut self.records)?;
        let found = found.map_err(|what| damaged(at(self.frames.segment, self.next, what)))?;
        (self.next, self.start, self.done) = (found.end, found.records, 0);
        Ok(true)
    }
}
