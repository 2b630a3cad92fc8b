use std::ops::Range;

use bytes::{Buf, Bytes};

/// The rest of a payload: chunks of which the first may be read in part.
#[derive(Debug)]
pub(super) struct Chunks<'c> {
    slices: &'c [Bytes],
    /// What was taken of the first chunk.
    offset: usize,
    length: usize,
}

impl<'c> Chunks<'c> {
    pub(super) fn new(chunks: &'c [Bytes]) -> Self {
        Self { slices: chunks, offset: 0, length: chunks.iter().map(Bytes::len).sum() }
    }

    pub(super) const fn len(&self) -> usize {
        self.length
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Takes so many bytes, as parts of chunks.
    pub(super) fn take(&mut self, mut count: usize, mut part: impl FnMut(&Bytes, Range<usize>)) {
        while let Some((first, others)) = self.slices.split_first() {
            let left = first.len() - self.offset;
            if left > count {
                if count > 0 {
                    part(first, self.offset..self.offset + count);
                }
                self.offset += count;
                self.length -= count;
                return;
            }
            if left > 0 {
                part(first, self.offset..first.len());
            }
            count -= left;
            self.length -= left;
            self.slices = others;
            self.offset = 0;
        }
    }

    /// Returns how many of the chunks were taken, and how much of the next one.
    pub(super) const fn position(&self, chunks: &[Bytes]) -> (usize, usize) {
        (chunks.len() - self.slices.len(), self.offset)
    }

    /// Returns the chunks that are left.
    pub(super) fn rest(&self) -> Vec<Bytes> {
        let mut rest = self.slices.to_vec();
        if let Some(first) = rest.first_mut() {
            first.advance(self.offset);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_taken_in_parts_across_its_chunks() {
        let chunks = [Bytes::from_static(b"abc"), Bytes::new(), Bytes::from_static(b"defg")];
        let mut rest = Chunks::new(&chunks);
        let mut taken = Vec::new();
        rest.take(2, |chunk, part| taken.push(chunk.slice(part)));
        assert_eq!(rest.rest(), ["c", "", "defg"]);
        rest.take(3, |chunk, part| taken.push(chunk.slice(part)));
        assert_eq!((rest.len(), taken.as_slice()), (2, ["ab", "c", "de"].map(Bytes::from).as_slice()));
        rest.take(2, |chunk, part| taken.push(chunk.slice(part)));
        assert!(rest.is_empty());
    }
}
