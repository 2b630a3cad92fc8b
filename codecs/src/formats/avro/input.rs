//! The bytes of a body, from the first to the last.

use super::schema::Id;
use crate::{DecodeError, DecodeErrorKind, Limits, Position, serde_error::Refused};

pub(super) struct Input<'de> {
    body: &'de [u8],
    at: usize,
    /// How many more elements and levels the body may have.
    elements: usize,
    levels: usize,
    max_bytes: usize,
    /// The instants that are numbers where any type is read.
    numbers: Vec<Id>,
}

impl<'de> Input<'de> {
    /// Creates the input of a body, behind its first `at` bytes.
    pub(super) fn new(body: &'de [u8], at: usize, limits: &Limits) -> Self {
        Self {
            body,
            at,
            elements: limits.elements.min(Limits::MAX_ELEMENTS),
            levels: limits.depth.min(Limits::MAX_DEPTH),
            max_bytes: limits.bytes,
            numbers: Vec::new(),
        }
    }

    pub(super) fn with_numbers(self, numbers: &[Id]) -> Self {
        Self { numbers: numbers.to_vec(), ..self }
    }

    pub(super) fn is_number(&self, id: Id) -> bool {
        self.numbers.contains(&id)
    }

    /// Looks at what follows.
    pub(super) fn peek<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let at = self.at;
        let value = read(self);
        self.at = at;
        value
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.body.len()
    }

    pub(super) fn left(&self) -> usize {
        self.body.len() - self.at
    }

    #[cold]
    pub(super) fn refuse(&self, kind: DecodeErrorKind) -> Refused {
        DecodeError::new(kind).at(Position::Offset(self.at)).into()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Refused> {
        let Some(&byte) = self.body.get(self.at) else { return Err(self.refuse(DecodeErrorKind::Truncated)) };
        self.at += 1;
        Ok(byte)
    }

    /// Reads a number in zig-zag encoding: 7 bits in each byte, the lowest first.
    pub(super) fn long(&mut self) -> Result<i64, Refused> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has the last of the 64 bits.
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err(self.refuse(DecodeErrorKind::Syntax))
    }

    pub(super) fn int(&mut self) -> Result<i32, Refused> {
        i32::try_from(self.long()?).map_err(|_| self.refuse(DecodeErrorKind::Syntax))
    }

    /// Reads a number that must not be negative, such as the number of a branch.
    pub(super) fn index(&mut self) -> Result<usize, Refused> {
        usize::try_from(self.long()?).map_err(|_| self.refuse(DecodeErrorKind::Syntax))
    }

    pub(super) fn boolean(&mut self) -> Result<bool, Refused> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.refuse(DecodeErrorKind::Syntax)),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let Some(bytes) = self.body[self.at..].first_chunk() else {
            return Err(self.refuse(DecodeErrorKind::Truncated));
        };
        self.at += N;
        Ok(*bytes)
    }

    /// Takes this many bytes. A length that is in no body within the limits is refused as such.
    pub(super) fn take(&mut self, length: usize) -> Result<&'de [u8], Refused> {
        if length > self.left() {
            let is_cut_off = length <= self.max_bytes;
            return Err(self.refuse(if is_cut_off { DecodeErrorKind::Truncated } else { DecodeErrorKind::Length }));
        }
        let bytes = &self.body[self.at..self.at + length];
        self.at += length;
        Ok(bytes)
    }

    pub(super) fn bytes(&mut self) -> Result<&'de [u8], Refused> {
        let length = self.long()?;
        let length = usize::try_from(length).map_err(|_| self.refuse(DecodeErrorKind::Length))?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'de str, Refused> {
        let bytes = self.bytes()?;
        str::from_utf8(bytes).map_err(|_| self.refuse(DecodeErrorKind::Utf8))
    }

    /// Reads the number of elements in the next block of an array or a map. 0 is its end.
    pub(super) fn block(&mut self) -> Result<usize, Refused> {
        let mut count = self.long()?;
        if count < 0 {
            // The size of the block, for readers that skip it as a whole.
            self.long()?;
            count = count.checked_neg().unwrap_or(i64::MAX);
        }
        let left = usize::try_from(count).ok().and_then(|count| Some((count, self.elements.checked_sub(count)?)));
        let Some((count, left)) = left else { return Err(self.refuse(DecodeErrorKind::Count)) };
        self.elements = left;
        Ok(count)
    }

    /// Begins a record, an array or a map.
    pub(super) fn enter(&mut self) -> Result<(), Refused> {
        match self.levels.checked_sub(1) {
            Some(levels) => {
                self.levels = levels;
                Ok(())
            }
            None => Err(self.refuse(DecodeErrorKind::Depth)),
        }
    }

    pub(super) fn leave(&mut self) {
        self.levels += 1;
    }
}
