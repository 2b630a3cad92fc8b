//! Reads on a thread of its own when a store is opened, while the caller applies what was read before.

use std::{ops::Range, sync::mpsc, thread};

use super::super::{StorageError, StorageErrorKind};

/// Bytes that are passed on together. The last piece of a block may be longer; with those that wait there are three blocks.
const SIZE: usize = 1 << 20;

/// Pieces that were read, one after the other.
#[derive(Debug)]
struct Block<H> {
    bytes: Vec<u8>,
    pieces: Vec<(H, Range<usize>)>,
}

impl<H> Default for Block<H> {
    fn default() -> Self {
        Self { bytes: Vec::new(), pieces: Vec::new() }
    }
}

impl<H> Block<H> {
    /// Applies all pieces, and keeps little of its memory for the next ones.
    fn apply(&mut self, apply: &mut impl FnMut(H, &[u8]) -> Result<(), StorageError>) -> Result<(), StorageError> {
        for (head, range) in self.pieces.drain(..) {
            apply(head, &self.bytes[range])?;
        }
        self.bytes.clear();
        self.bytes.shrink_to(2 * SIZE);
        Ok(())
    }
}

/// Where a reader puts the pieces that it has read.
pub(super) struct Blocks<'t, H> {
    block: Block<H>,
    /// Takes a block, and returns one to be filled. `None` if no more are needed.
    take: &'t mut dyn FnMut(Block<H>) -> Option<Block<H>>,
}

impl<H> Blocks<'_, H> {
    /// Where the bytes of the next piece are appended.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.block.bytes
    }

    /// Ends a piece of the bytes that were appended since the last one. `false` if no more are needed.
    pub(super) fn end_piece(&mut self, head: H) -> bool {
        let start = self.block.pieces.last().map_or(0, |(_, last)| last.end);
        self.block.pieces.push((head, start..self.block.bytes.len()));
        self.block.bytes.len() < SIZE || self.pass_on()
    }

    fn pass_on(&mut self) -> bool {
        let next = (self.take)(std::mem::take(&mut self.block));
        let is_wanted = next.is_some();
        self.block = next.unwrap_or_default();
        is_wanted
    }
}

/// Runs a reader, and applies each of its pieces in order. An error of `apply` ends the reader. After an error of the reader, the
/// pieces before it are applied.
pub(super) fn read_and_apply<H: Send>(
    has_thread: bool,
    read: impl FnOnce(&mut Blocks<'_, H>) -> Result<(), StorageError> + Send,
    mut apply: impl FnMut(H, &[u8]) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    if !has_thread {
        let mut applied = Ok(());
        let read = run(read, |mut block| {
            applied = block.apply(&mut apply);
            applied.is_ok().then_some(block)
        });
        return applied.and(read);
    }
    let failed = |what: String| StorageError::new(StorageErrorKind::Failed, what);
    thread::scope(|scope| {
        let (full, filled) = mpsc::sync_channel::<Block<H>>(1);
        let (empty, emptied) = mpsc::sync_channel(2);
        let take = move |block| full.send(block).is_ok().then(|| emptied.try_recv().unwrap_or_default());
        let reader = thread::Builder::new().name("consign-reader".into());
        let reader = reader.spawn_scoped(scope, move || run(read, take));
        let reader = reader.map_err(|error| failed(format!("starting the thread that reads: {error}")))?;
        let mut applied = Ok(());
        for mut block in filled {
            applied = block.apply(&mut apply);
            if applied.is_err() {
                break;
            }
            // It is read into a new one if this one comes too late.
            let _ = empty.try_send(block);
        }
        applied.and(reader.join().unwrap_or_else(|_| Err(failed("the thread that reads panicked".into()))))
    })
}

fn run<H>(
    read: impl FnOnce(&mut Blocks<'_, H>) -> Result<(), StorageError>,
    mut take: impl FnMut(Block<H>) -> Option<Block<H>>,
) -> Result<(), StorageError> {
    let mut blocks = Blocks { block: Block::default(), take: &mut take };
    let read = read(&mut blocks);
    if !blocks.block.pieces.is_empty() {
        blocks.pass_on();
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(what: &'static str) -> StorageError {
        StorageError::new(StorageErrorKind::Failed, what)
    }

    /// Reads so many pieces of 1,000 bytes, and then fails.
    fn pieces(count: u32) -> impl FnOnce(&mut Blocks<'_, u32>) -> Result<(), StorageError> + Send {
        move |blocks| {
            for number in 0..count {
                blocks.bytes().extend_from_slice(&[number.to_le_bytes()[0]; 1_000]);
                if !blocks.end_piece(number) {
                    return Ok(());
                }
            }
            Err(error("read"))
        }
    }

    #[test]
    fn pieces_are_applied_in_order_up_to_the_error_of_the_reader() {
        for has_thread in [false, true] {
            for count in [0, 1, 10_000] {
                let mut next = 0;
                let read = read_and_apply(has_thread, pieces(count), |number, bytes| {
                    assert_eq!((number, bytes), (next, &[number.to_le_bytes()[0]; 1_000][..]));
                    next += 1;
                    Ok(())
                });
                assert_eq!((next, read.unwrap_err().detail()), (count, "read"));
            }
        }
    }

    #[test]
    fn an_error_of_apply_ends_the_reader() {
        for has_thread in [false, true] {
            let mut applied = 0;
            let read = read_and_apply(has_thread, pieces(u32::MAX), |number, _| {
                applied += 1;
                if number == 3_000 { Err(error("apply")) } else { Ok(()) }
            });
            assert_eq!((applied, read.unwrap_err().detail()), (3_001, "apply"));
        }
    }

    #[test]
    fn a_panic_of_apply_ends_the_reader() {
        let apply = |_: u32, _: &[u8]| -> Result<(), StorageError> { panic!("on purpose") };
        assert!(std::panic::catch_unwind(|| read_and_apply(true, pieces(u32::MAX), apply)).is_err());
    }

    #[test]
    fn a_panic_of_the_reader_is_an_error() {
        let read = read_and_apply(true, |_: &mut Blocks<'_, ()>| panic!("on purpose"), |(), _| Ok(()));
        assert!(read.unwrap_err().detail().contains("panicked"));
    }
}
