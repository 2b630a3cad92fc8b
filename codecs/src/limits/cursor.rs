use crate::{DecodeError, DecodeErrorKind, Limits, Position};

/// A position in a body, for the scans of binary formats.
///
/// A body that was cut short and one with a false length look alike where they end. A length above [`Limits::bytes`] or a count
/// above the rest of [`Limits::elements`] is in no body that could be read. So these are `Length` and `Count`. A smaller one
/// that exceeds the remaining bytes is `Truncated`.
pub(crate) struct Cursor<'a> {
    body: &'a [u8],
    at: usize,
    limits: &'a Limits,
    /// How many more elements the whole body may have.
    elements: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(body: &'a [u8], limits: &'a Limits) -> Self {
        let elements = if limits.elements < Limits::MAX_ELEMENTS { limits.elements } else { Limits::MAX_ELEMENTS };
        Self { body, at: 0, limits, elements }
    }

    pub(crate) fn max_depth(&self) -> usize {
        self.limits.depth.min(Limits::MAX_DEPTH)
    }

    /// Counts one element. The byte that was read last is the first of it.
    #[cfg(any(feature = "cbor", feature = "protobuf"))]
    pub(crate) fn element(&mut self) -> Result<(), DecodeError> {
        match self.elements.checked_sub(1) {
            Some(left) => {
                self.elements = left;
                Ok(())
            }
            None => Err(self.refuse_last(DecodeErrorKind::Count)),
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let Some(&byte) = self.body.get(self.at) else { return Err(self.refuse(DecodeErrorKind::Truncated)) };
        self.at += 1;
        Ok(byte)
    }

    /// Reads a big-endian integer of 1 to 8 bytes.
    #[cfg(any(feature = "msgpack", feature = "cbor"))]
    #[inline]
    pub(crate) fn uint(&mut self, width: usize) -> Result<u64, DecodeError> {
        let mut value = 0;
        for _ in 0..width {
            value = value << 8 | u64::from(self.byte()?);
        }
        Ok(value)
    }

    /// Skips `len` bytes.
    #[inline]
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), DecodeError> {
        let left = self.body.len() - self.at;
        match usize::try_from(len) {
            Ok(len) if len <= left => {
                self.at += len;
                Ok(())
            }
            Ok(len) if len <= self.limits.bytes => Err(self.refuse(DecodeErrorKind::Truncated)),
            _ => Err(self.refuse(DecodeErrorKind::Length)),
        }
    }

    /// Reads a declared count of elements that are `each` values, as a number of values. A value has at least one byte.
    #[cfg(any(feature = "msgpack", feature = "cbor"))]
    #[inline]
    pub(crate) fn count(&mut self, count: u64, each: usize) -> Result<usize, DecodeError> {
        match usize::try_from(count) {
            Ok(count) if count <= self.elements => {
                let values = count * each;
                if values <= self.body.len() - self.at {
                    self.elements -= count;
                    return Ok(values);
                }
                Err(self.refuse(DecodeErrorKind::Truncated))
            }
            _ => Err(self.refuse(DecodeErrorKind::Count)),
        }
    }

    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.body.len()
    }

    /// Refuses a body that has further bytes.
    #[cfg(any(feature = "msgpack", feature = "cbor"))]
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.is_at_end() { Ok(()) } else { Err(self.refuse(DecodeErrorKind::Trailing)) }
    }

    #[cold]
    pub(crate) fn refuse(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind).at(Position::Offset(self.at))
    }

    /// Refuses the byte that was read last.
    #[cold]
    pub(crate) fn refuse_last(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind).at(Position::Offset(self.at.saturating_sub(1)))
    }
}
