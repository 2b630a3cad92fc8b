use std::{collections::VecDeque, fmt, io::IoSlice, ops::Range};

use bytes::{Buf, Bytes};

use super::Connection;

/// The bytes to write next, as a [`Buf`] of several slices.
///
/// All of it may go into one write. What follows it needs another write: some clients do not read a protocol header and a frame
/// from the same packet. Call [`Connection::output`] again until [`Connection::has_output`] is false:
///
/// ```text
/// while connection.has_output() {
///     stream.write_all_buf(&mut connection.output()).await?;
/// }
/// ```
pub struct Output<'c> {
    connection: &'c mut Connection,
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("queue", &self.connection.out.queue).finish()
    }
}

/// A payload below this size, in bytes, is copied behind its head: a slice of its own costs more.
const SMALL: usize = 1_024;
/// The capacity that an empty buffer keeps.
const KEPT: usize = 32 * 1_024;

/// What is to be written: heads of frames and small payloads in one buffer, large payloads as they were given.
#[derive(Default)]
pub(super) struct OutputQueue {
    /// Heads and small payloads, of which the first `written` bytes are written.
    heads: Vec<u8>,
    written: usize,
    segments: VecDeque<Segment>,
    /// The bytes of all segments, and of those before the first boundary.
    length: usize,
    writable: usize,
    boundaries: usize,
    /// The bytes that were ever appended.
    appended: u64,
}

enum Segment {
    /// So many bytes of the heads and small payloads.
    Head(usize),
    Payload(Bytes),
    /// What follows is written separately.
    Boundary,
}

/// Shows the number of bytes only: the output may have a password.
impl fmt::Debug for OutputQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputQueue({} bytes)", self.length)
    }
}

impl OutputQueue {
    /// The number of bytes.
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// The number of bytes that were ever appended.
    pub(super) const fn appended(&self) -> u64 {
        self.appended
    }

    /// The number of bytes that were ever written.
    pub(super) const fn taken(&self) -> u64 {
        self.appended.wrapping_sub(self.length as u64)
    }

    /// Appends what `write` appends to the heads; nothing if it fails.
    pub(super) fn head<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let before = self.heads.len();
        let outcome = write(&mut self.heads);
        if outcome.is_err() {
            self.heads.truncate(before);
        }
        self.appended_to_heads(self.heads.len().saturating_sub(before));
        outcome
    }

    fn appended_to_heads(&mut self, size: usize) {
        if size > 0 {
            if let Some(Segment::Head(last)) = self.segments.back_mut() {
                *last += size;
            } else {
                self.segments.push_back(Segment::Head(size));
            }
            self.grow(size);
        }
    }

    /// Appends a part of a payload.
    pub(super) fn payload(&mut self, chunk: &Bytes, part: Range<usize>) {
        let size = part.len();
        if size < SMALL {
            self.heads.extend_from_slice(&chunk[part]);
            self.appended_to_heads(size);
        } else {
            self.segments.push_back(Segment::Payload(chunk.slice(part)));
            self.grow(size);
        }
    }

    /// What is appended from now on is written separately.
    pub(super) fn boundary(&mut self) {
        if self.length > 0 {
            self.segments.push_back(Segment::Boundary);
            self.boundaries += 1;
        }
    }

    const fn grow(&mut self, size: usize) {
        self.length += size;
        self.appended = self.appended.wrapping_add(size as u64);
        if self.boundaries == 0 {
            self.writable += size;
        }
    }

    fn advance(&mut self, count: usize) {
        let mut count = count.min(self.writable);
        self.length -= count;
        self.writable -= count;
        while count > 0 {
            let (part, finished) = match self.segments.front_mut() {
                Some(Segment::Head(size)) => {
                    let part = count.min(*size);
                    *size -= part;
                    self.written += part;
                    (part, *size == 0)
                }
                Some(Segment::Payload(payload)) => {
                    let part = count.min(payload.len());
                    payload.advance(part);
                    (part, payload.is_empty())
                }
                Some(Segment::Boundary) | None => break,
            };
            count -= part;
            if finished {
                self.segments.pop_front();
            }
        }
        if self.writable == 0 {
            self.pass_boundary();
        }
        if self.written == self.heads.len() {
            self.heads.clear();
            // An idle connection does not keep what it once needed.
            self.heads.shrink_to(KEPT);
            self.written = 0;
        } else if self.written > 4_096 && self.written > self.heads.len() / 2 {
            self.heads.drain(..self.written);
            self.written = 0;
        }
    }

    /// Removes boundaries from the front, and makes writable what follows.
    fn pass_boundary(&mut self) {
        while matches!(self.segments.front(), Some(Segment::Boundary)) {
            self.segments.pop_front();
            self.boundaries -= 1;
        }
        let sizes = self.segments.iter().map_while(|segment| match segment {
            Segment::Head(size) => Some(*size),
            Segment::Payload(payload) => Some(payload.len()),
            Segment::Boundary => None,
        });
        self.writable = sizes.sum();
    }
}

impl Buf for Output<'_> {
    fn remaining(&self) -> usize {
        self.connection.out.queue.writable
    }

    fn chunk(&self) -> &[u8] {
        let queue = &self.connection.out.queue;
        match queue.segments.front() {
            Some(Segment::Head(size)) => queue.heads.get(queue.written..queue.written + size).unwrap_or_default(),
            Some(Segment::Payload(payload)) => payload,
            Some(Segment::Boundary) | None => &[],
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let queue = &self.connection.out.queue;
        let mut filled = 0;
        let mut start = queue.written;
        for (slice, segment) in slices.iter_mut().zip(&queue.segments) {
            let bytes = match segment {
                Segment::Head(size) => {
                    let bytes = queue.heads.get(start..start + size).unwrap_or_default();
                    start += size;
                    bytes
                }
                Segment::Payload(payload) => payload,
                Segment::Boundary => break,
            };
            *slice = IoSlice::new(bytes);
            filled += 1;
        }
        filled
    }

    /// Removes what was written, at most what [`Buf::remaining`] says. The rest of a large delivery follows it.
    fn advance(&mut self, count: usize) {
        self.connection.out.queue.advance(count);
        self.connection.resume();
    }
}

impl Connection {
    /// Returns whether there is something to write.
    #[must_use]
    pub const fn has_output(&self) -> bool {
        self.out.pending.is_some() || self.out.queue.len() > 0
    }

    /// Returns whether the output has reached [`Options::output_limit`](super::Options::output_limit). It then has to be written
    /// before the next [`Connection::send`].
    #[must_use]
    pub const fn is_output_full(&self) -> bool {
        self.out.is_full()
    }

    /// Returns the bytes to write next.
    pub fn output(&mut self) -> Output<'_> {
        self.out.flush();
        Output { connection: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: A-61.
    #[test]
    fn small_payloads_follow_their_heads_and_the_memory_of_many_is_given_back() {
        let mut queue = OutputQueue::default();
        let (small, large) = (Bytes::from_static(&[1; SMALL - 1]), Bytes::from_static(&[2; SMALL]));
        for _ in 0..100 {
            let _: Result<(), ()> = queue.head(|out| {
                out.push(0);
                Ok(())
            });
            queue.payload(&small, 0..small.len());
        }
        assert_eq!((queue.segments.len(), queue.len()), (1, 100 * SMALL));
        queue.payload(&large, 0..large.len());
        assert!(matches!(queue.segments.back(), Some(Segment::Payload(payload)) if payload.as_ptr() == large.as_ptr()));
        queue.advance(100 * SMALL);
        assert!(queue.heads.is_empty() && queue.heads.capacity() <= KEPT);
        assert_eq!((queue.segments.len(), queue.len()), (1, SMALL));
    }
}
