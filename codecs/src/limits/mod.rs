//! Limits of a decoder, checked before a third-party decoder gets the bytes.

#[cfg(feature = "cbor")]
pub(crate) mod cbor;
#[cfg(any(feature = "msgpack", feature = "cbor", feature = "protobuf"))]
mod cursor;
#[cfg(any(feature = "msgpack", feature = "cbor"))]
mod fast_path;
#[cfg(any(feature = "bincode", feature = "postcard", feature = "erased"))]
pub(crate) mod guard;
#[cfg(feature = "json")]
pub(crate) mod json;
#[cfg(feature = "json")]
pub(crate) mod json_strict;
#[cfg(feature = "msgpack")]
pub(crate) mod msgpack;
#[cfg(feature = "protobuf")]
pub(crate) mod protobuf;

use crate::{DecodeError, DecodeErrorKind};

/// The limits of decoding one body. Every limit is checked before anything is allocated for what exceeds it.
///
/// # Memory
///
/// If each of the `elements` elements of a body becomes a value of `S` bytes, the body takes at most `3 * elements * S` bytes
/// at a time: a `Vec` that grows doubles its capacity, and holds its old buffer meanwhile. `S` includes what the value stores
/// in boxes and in arrays of the type's own size; its sequences and maps consist of elements themselves. By default that is 20
/// MiB for values of 100 bytes. Text and byte strings take as many bytes as in the body, and twice that in JSON while a text
/// with escapes is read.
///
/// A capacity that is reserved before the elements are read is bounded too: by the elements that the body can hold, if it is
/// counted before it is read, and otherwise by the reader's bytes.
///
/// A larger body needs more elements: 16 bytes for each is usual in JSON, so [`bytes`](Self::bytes) alone is
/// not enough for a list of many small objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the body. Default 256 KiB, at most [`Limits::MAX_BYTES`].
    pub bytes: usize,
    /// Containers inside containers. Default 64, at most [`Limits::MAX_DEPTH`]. JSON has at most 127.
    ///
    /// A type that contains itself through options alone, such as `struct Link(Option<Box<Link>>)`, is not supported: its
    /// recursion reads no bytes, so a body that is not null overflows the stack.
    pub depth: usize,
    /// Elements of the whole body: those of all arrays and the entries of all maps, together. Default 65,536, at most
    /// [`Limits::MAX_ELEMENTS`].
    ///
    /// A struct with names in the bytes is a map. A struct or a tuple in bincode and postcard is not a container of the body,
    /// and its fields do not count. Of protobuf the fields of all messages count, to within a factor of three.
    pub elements: usize,
}

impl Limits {
    /// The largest value that [`Limits::bytes`] may have: 100 MiB.
    pub const MAX_BYTES: usize = 100 << 20;
    /// The largest value that [`Limits::depth`] may have.
    pub const MAX_DEPTH: usize = 128;
    /// The largest value that [`Limits::elements`] may have: 16,777,216.
    pub const MAX_ELEMENTS: usize = 1 << 24;

    /// Sets [`Limits::bytes`], clamped to its maximum.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = if bytes > Self::MAX_BYTES { Self::MAX_BYTES } else { bytes };
        self
    }

    /// Sets [`Limits::depth`], clamped to its maximum.
    #[must_use]
    pub const fn depth(mut self, depth: usize) -> Self {
        self.depth = if depth > Self::MAX_DEPTH { Self::MAX_DEPTH } else { depth };
        self
    }

    /// Sets [`Limits::elements`], clamped to its maximum.
    #[must_use]
    pub const fn elements(mut self, elements: usize) -> Self {
        self.elements = if elements > Self::MAX_ELEMENTS { Self::MAX_ELEMENTS } else { elements };
        self
    }

    /// Refuses a body that is larger than [`Limits::bytes`].
    #[inline]
    pub fn check_size(&self, body: &[u8]) -> Result<(), DecodeError> {
        if body.len() <= self.bytes {
            return Ok(());
        }
        Err(self.too_large(body.len()))
    }

    #[cold]
    fn too_large(&self, bytes: usize) -> DecodeError {
        DecodeError::new(DecodeErrorKind::Size).with_detail(format!("{bytes} bytes, at most {}", self.bytes))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 256 << 10, depth: 64, elements: 65_536 }
    }
}

/// Returns line and column of an offset.
#[cfg(any(feature = "json", feature = "dotnet"))]
#[cold]
pub(crate) fn text_position(text: &[u8], at: usize) -> crate::Position {
    let before = &text[..at.min(text.len())];
    let (line, last) = before.split(|&byte| byte == b'\n').enumerate().last().unwrap_or_default();
    let (line, column) = (line + 1, last.len() + 1);
    crate::Position::Text { line, column }
}
