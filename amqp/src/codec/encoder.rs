use super::{Encode, EncodeError, Limits, codes};
use crate::value::{Described, List, Map};

/// The bytes of a format code, a size and a count of one byte each, and of four.
const NARROW: usize = 3;
const WIDE: usize = 9;

/// Appends encoded values to a buffer.
///
/// ```
/// use consign_amqp::codec::Encoder;
///
/// let mut out = Vec::new();
/// let mut encoder = Encoder::new(&mut out);
/// encoder.encode(&true);
/// encoder.encode(&300_u32);
/// encoder.finish()?;
/// assert_eq!(out, [0x41, 0x70, 0, 0, 1, 44]);
/// # Ok::<(), consign_amqp::codec::EncodeError>(())
/// ```
#[derive(Debug)]
pub struct Encoder<'o> {
    pub(super) out: &'o mut Vec<u8>,
    levels: u8,
    /// Whether the widest encoding of a type is written, not the smallest.
    pub(super) full: bool,
    error: Option<EncodeError>,
}

impl<'o> Encoder<'o> {
    /// Creates an encoder that appends to `out`.
    #[must_use]
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, levels: Limits::MAX_DEPTH, full: false, error: None }
    }

    /// Writes the widest encoding of each type from now on, where more than one is possible: integers of all bytes, sizes and
    /// counts of four. The numbers of descriptors that are part of a type, such as a section of a message, stay one byte.
    ///
    /// For formats with one encoding of each type. Any decoder reads it.
    ///
    /// ```
    /// use consign_amqp::codec::Encoder;
    ///
    /// let mut out = Vec::new();
    /// let mut encoder = Encoder::new(&mut out).full_widths();
    /// encoder.encode(&7_u32);
    /// encoder.finish()?;
    /// assert_eq!(out, [0x70, 0, 0, 0, 7]);
    /// # Ok::<(), consign_amqp::codec::EncodeError>(())
    /// ```
    #[must_use]
    pub const fn full_widths(mut self) -> Self {
        self.full = true;
        self
    }

    /// Appends a value.
    pub fn encode<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }

    /// Returns the first error.
    ///
    /// # Errors
    /// A value was too long or too deep. What was appended since [`Encoder::new`] is then not AMQP.
    pub fn finish(self) -> Result<(), EncodeError> {
        self.error.map_or(Ok(()), Err)
    }

    pub(crate) fn put(&mut self, byte: u8) {
        self.out.push(byte);
    }

    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn code_and<const N: usize>(&mut self, code: u8, bytes: [u8; N]) {
        self.out.reserve(1 + N);
        self.out.push(code);
        self.out.extend_from_slice(&bytes);
    }

    /// A format code, a size and bytes.
    pub(super) fn variable(&mut self, narrow: u8, wide: u8, bytes: &[u8]) {
        if let Some(size) = self.short(bytes.len()) {
            self.out.extend_from_slice(&[narrow, size]);
        } else {
            let size = self.length(bytes.len());
            self.code_and(wide, size.to_be_bytes());
        }
        self.out.extend_from_slice(bytes);
    }

    /// A size or a count that is written as one byte.
    fn short(&self, length: usize) -> Option<u8> {
        if self.full { None } else { u8::try_from(length).ok() }
    }

    /// A length as AMQP has it; a longer one is an error.
    pub(crate) fn length(&mut self, length: usize) -> u32 {
        u32::try_from(length).unwrap_or_else(|_| {
            self.error.get_or_insert(EncodeError::TooLong);
            0
        })
    }

    /// Appends what `write` does, one level deeper; nothing if that is too deep.
    pub(super) fn deeper(&mut self, write: impl FnOnce(&mut Self)) {
        let Some(levels) = self.levels.checked_sub(1) else {
            self.error.get_or_insert(EncodeError::TooDeep);
            return;
        };
        self.levels = levels;
        write(self);
        self.levels += 1;
    }

    /// A list or a map of `count` elements that `write` appends. The size is known afterwards: one that needs four bytes moves
    /// the elements.
    pub(super) fn compound(&mut self, narrow: u8, wide: u8, count: usize, write: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        let Some(short) = self.short(count) else {
            self.out.extend_from_slice(&[wide, 0, 0, 0, 0]);
            let count = self.length(count);
            self.put_bytes(&count.to_be_bytes());
            self.deeper(write);
            return self.set_size(start + 1);
        };
        self.out.extend_from_slice(&[narrow, 0, short]);
        self.deeper(write);
        if let Ok(size) = u8::try_from(self.out.len() - start - 2) {
            self.out[start + 1] = size;
            return;
        }
        let end = self.out.len();
        self.out.resize(end + WIDE - NARROW, 0);
        self.out.copy_within(start + NARROW..end, start + WIDE);
        self.out[start] = wide;
        self.out[start + 5..start + WIDE].copy_from_slice(&u32::from(short).to_be_bytes());
        self.set_size(start + 1);
    }

    /// Sets the four bytes at `at` to the number of bytes that follow them.
    pub(super) fn set_size(&mut self, at: usize) {
        let size = self.length(self.out.len() - at - 4);
        self.out[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }

    pub(crate) fn list(&mut self, count: usize, write: impl FnOnce(&mut Self)) {
        if count == 0 && !self.full {
            return self.deeper(|encoder| encoder.put(codes::LIST_0));
        }
        self.compound(codes::LIST_8, codes::LIST_32, count, write);
    }

    /// A map of so many pairs.
    pub(crate) fn map(&mut self, pairs: usize, write: impl FnOnce(&mut Self)) {
        self.compound(codes::MAP_8, codes::MAP_32, pairs.saturating_mul(2), write);
    }

    /// Sets the four bytes at `start` to the number of bytes from there to the end, and of those that are to follow.
    pub(crate) fn frame_size(&mut self, start: usize, following: usize) {
        let size = self.length((self.out.len() - start).saturating_add(following));
        self.out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    }

    /// The start of a described value whose descriptor is a number below 256.
    pub(crate) fn descriptor(&mut self, code: u8) {
        self.out.extend_from_slice(&[codes::DESCRIBED, codes::SMALL_ULONG, code]);
    }
}

impl Encode for List {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.0.len(), |encoder| {
            for value in &self.0 {
                value.encode(encoder);
            }
        });
    }
}

impl Encode for Map {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.map(self.0.len(), |encoder| {
            for (key, value) in &self.0 {
                key.encode(encoder);
                value.encode(encoder);
            }
        });
    }
}

impl Encode for Described {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put(codes::DESCRIBED);
        encoder.deeper(|encoder| {
            self.descriptor.encode(encoder);
            self.value.encode(encoder);
        });
    }
}
