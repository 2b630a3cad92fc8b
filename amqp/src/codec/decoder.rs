use std::ops::Range;

use bytes::Bytes;

use super::{
    Decode, DecodeError, DecodeErrorKind, Limits,
    codes::{self, Layout},
};
use crate::value::Value;

/// Reads values from the front of an input.
///
/// ```
/// use consign_amqp::{bytes::Bytes, codec::Decoder, value::{Str, Value}};
///
/// let input = Bytes::from_static(b"\xa1\x05hello\x43");
/// let mut decoder = Decoder::new(&input);
/// assert_eq!(decoder.decode::<Str>()?, "hello");
/// assert_eq!((decoder.value()?, decoder.offset()), (Value::Uint(0), 8));
/// decoder.finish()?;
/// # Ok::<(), consign_amqp::codec::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct Decoder<'b> {
    source: &'b Bytes,
    /// What is not read yet of the input, or of the list, map or array that is being read. A part of `source`.
    rest: &'b [u8],
    levels: u8,
    elements: u32,
    pub(super) utf8_symbols: bool,
}

impl<'b> Decoder<'b> {
    /// Creates a decoder with the default [`Limits`].
    #[must_use]
    pub fn new(source: &'b Bytes) -> Self {
        Self::with_limits(source, Limits::DEFAULT)
    }

    /// Creates a decoder with the given limits.
    #[must_use]
    pub fn with_limits(source: &'b Bytes, limits: Limits) -> Self {
        Self {
            source,
            rest: source,
            levels: limits.depth.min(Limits::MAX_DEPTH),
            elements: limits.elements,
            utf8_symbols: limits.utf8_symbols,
        }
    }

    /// A decoder of a part of the source. Offsets count from the start of the source.
    pub(crate) fn within(source: &'b Bytes, part: Range<usize>, limits: Limits) -> Self {
        let mut decoder = Self::with_limits(source, limits);
        decoder.rest = &source[part];
        decoder
    }

    /// Returns how many bytes of the input have been read.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> usize {
        self.rest.as_ptr().addr().wrapping_sub(self.source.as_ptr().addr())
    }

    /// Returns whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the rest of the input, and leaves nothing. It is a slice of the input.
    pub fn take_rest(&mut self) -> Bytes {
        let rest = self.source.slice_ref(self.rest);
        self.rest = &self.rest[self.rest.len()..];
        rest
    }

    /// Decodes the next value as a `T`.
    ///
    /// # Errors
    /// The value is malformed, is not a `T`, or exceeds a limit.
    pub fn decode<T: Decode>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// Decodes the next value, whatever its type.
    ///
    /// # Errors
    /// The value is malformed or exceeds a limit.
    pub fn value(&mut self) -> Result<Value, DecodeError> {
        Value::decode(self)
    }

    /// Skips the next value. The content of a list, a map, an array, a string or a binary is not looked at.
    ///
    /// # Errors
    /// The value is malformed outside of its content, or its descriptors are nested deeper than the limit.
    pub fn skip(&mut self) -> Result<(), DecodeError> {
        let start = self.offset();
        // One bit for each described value around the next one, the innermost last: whether its descriptor is being skipped, so that
        // what it describes follows.
        let mut descriptors = 0_u64;
        let mut described = 0_u8;
        loop {
            let code = self.format_code()?;
            match codes::layout(code) {
                Some(Layout::Described) => {
                    described += 1;
                    if described > self.levels {
                        return Err(DecodeError::new(DecodeErrorKind::Depth, start));
                    }
                    descriptors = descriptors << 1 | 1;
                    continue;
                }
                Some(Layout::Fixed(width)) => drop(self.take(width)?),
                Some(Layout::Sized { wide }) => drop(self.sized(wide)?),
                None => return Err(self.unknown(code)),
            }
            // A described value ends with what it describes, and may itself be the last part of another.
            while described > 0 && descriptors & 1 == 0 {
                descriptors >>= 1;
                described -= 1;
            }
            if described == 0 {
                return Ok(());
            }
            descriptors ^= 1;
        }
    }

    /// Checks that the whole input has been read.
    ///
    /// # Errors
    /// Bytes are left: [`DecodeErrorKind::Trailing`].
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error(DecodeErrorKind::Trailing)) }
    }

    /// Reads a format code. The value's content has to be decoded next, by [`Decode::decode_after`].
    ///
    /// # Errors
    /// Nothing is left.
    #[inline]
    pub fn format_code(&mut self) -> Result<u8, DecodeError> {
        let [code] = self.array()?;
        Ok(code)
    }

    /// Returns the next format code without reading it.
    #[must_use]
    pub fn peek_format_code(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads the descriptor of a described value whose format code 0x00 has been read: its number, or the number that belongs to
    /// its symbol. `None` is a descriptor of another specification.
    #[inline]
    pub(crate) fn descriptor(&mut self) -> Result<Option<u64>, DecodeError> {
        if let [codes::SMALL_ULONG, code, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(Some(u64::from(*code)));
        }
        let start = self.offset();
        let code = self.format_code()?;
        match code {
            codes::ULONG | codes::ULONG_0 => u64::decode_after(self, code).map(Some),
            codes::SYMBOL_8 | codes::SYMBOL_32 => {
                let name = self.sized(code == codes::SYMBOL_32)?;
                Ok(crate::types::code_of(name))
            }
            _ => Err(DecodeError::new(DecodeErrorKind::Descriptor, start).expected("ulong or symbol").found(code)),
        }
    }

    #[cold]
    pub(crate) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind, self.offset())
    }

    /// The refusal of the format code that was just read, where another type was expected.
    #[cold]
    pub(crate) fn mismatch(&self, expected: &'static str, code: u8) -> DecodeError {
        let kind = if codes::layout(code).is_none() { DecodeErrorKind::FormatCode } else { DecodeErrorKind::Type };
        DecodeError::new(kind, self.offset().saturating_sub(1)).expected(expected).found(code)
    }

    /// The refusal of a format code without a meaning that was just read.
    #[cold]
    pub(crate) fn unknown(&self, code: u8) -> DecodeError {
        DecodeError::new(DecodeErrorKind::FormatCode, self.offset().saturating_sub(1)).found(code)
    }

    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> Result<&'b [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(size) else {
            return Err(self.error(DecodeErrorKind::Truncated));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.error(DecodeErrorKind::Truncated));
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads a size or a count: one byte, or four.
    #[inline]
    pub(crate) fn number(&mut self, wide: bool) -> Result<u32, DecodeError> {
        if wide { Ok(u32::from_be_bytes(self.array()?)) } else { Ok(u32::from(u8::from_be_bytes(self.array()?))) }
    }

    /// Reads a size and so many bytes.
    #[inline]
    pub(crate) fn sized(&mut self, wide: bool) -> Result<&'b [u8], DecodeError> {
        let start = self.offset();
        let size = self.number(wide)? as usize;
        let Some((taken, rest)) = self.rest.split_at_checked(size) else {
            return Err(DecodeError::new(DecodeErrorKind::Size, start));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A part of the input as a slice of it that shares its memory.
    #[inline]
    pub(crate) fn share(&self, part: &'b [u8]) -> Bytes {
        self.source.slice_ref(part)
    }

    /// Reads only `content` from now on; returns what follows it.
    #[inline]
    pub(crate) fn enter(&mut self, content: &'b [u8]) -> Result<&'b [u8], DecodeError> {
        self.descend()?;
        Ok(std::mem::replace(&mut self.rest, content))
    }

    /// Goes on behind the content of [`enter`](Self::enter), which has to be read.
    #[inline]
    pub(crate) fn leave(&mut self, after: &'b [u8]) -> Result<(), DecodeError> {
        self.finish()?;
        self.rest = after;
        self.ascend();
        Ok(())
    }

    #[inline]
    pub(crate) fn descend(&mut self) -> Result<(), DecodeError> {
        let Some(levels) = self.levels.checked_sub(1) else { return Err(self.error(DecodeErrorKind::Depth)) };
        self.levels = levels;
        Ok(())
    }

    #[inline]
    pub(crate) const fn ascend(&mut self) {
        self.levels += 1;
    }

    /// Counts elements that each take at least `width` bytes of the rest.
    #[inline]
    pub(crate) fn count(&mut self, count: u32, width: usize) -> Result<(), DecodeError> {
        let fits = (count as usize).checked_mul(width).is_some_and(|size| size <= self.rest.len());
        match self.elements.checked_sub(count) {
            Some(left) if fits => {
                self.elements = left;
                Ok(())
            }
            _ => Err(self.error(DecodeErrorKind::Count)),
        }
    }
}
