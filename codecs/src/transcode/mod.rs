//! Conversion from one format to another, without the Rust type.

mod soften;
mod value;

use std::{error, fmt};

#[cfg(any(feature = "avro", feature = "msgpack", feature = "cbor"))]
pub(crate) use self::value::EXACT;
use self::{soften::soften, value::Value};
use crate::{CodecSet, Codecs, DecodeFailure, EncodeError, Encoded};

impl<S: CodecSet> Codecs<S> {
    /// Writes a body in the format of the ContentType `to`, whatever its types. It is read by `content_type` and the set's
    /// rules, by a fallback too.
    ///
    /// Both formats must describe themselves, as JSON, MessagePack and CBOR do, or be text or bytes: then the value is one text, or one
    /// byte string. Text XML of .NET has no types, so its numbers and truth values become text. The written body is read again, and if it has
    /// another value the result is [`TranscodeError::Lossy`]:
    ///
    /// | what | into JSON | into MessagePack | into CBOR |
    /// |---|---|---|---|
    /// | null, truth values, text, lists, maps with keys of text, their order | kept | kept | kept |
    /// | integers from -2^63 to 2^64 - 1, floats of 64 bits | kept | kept | kept |
    /// | floats of 32 bits | as of 64, by the shortest digits that name them | kept | kept |
    /// | bytes | refused, or base64 | kept | kept |
    /// | keys that are not text | refused, or text | kept | kept |
    /// | not a number, infinite | refused, or null | kept | kept |
    ///
    /// The second alternative is that of [`transcode_lossy`](Self::transcode_lossy).
    ///
    /// Details of the source format beyond that are lost without an error. These are the digits of a JSON number that is not an
    /// integer of 64 bits, beyond those of a float of 64 bits; the spelling, such as white space, escapes, the width of a
    /// number, an indefinite length; and CBOR's *undefined*, which becomes null. A body with MessagePack's extensions, with
    /// CBOR's tags, or with a key of text that occurs twice in a map, is not read. The tag at the start of a CBOR body that says
    /// that it is CBOR (55799) is skipped.
    pub fn transcode(
        &self,
        content_type: Option<&str>,
        body: &[u8],
        to: impl AsRef<str>,
    ) -> Result<Encoded, TranscodeError> {
        let value = self.decode(content_type, body).map_err(TranscodeError::Undecodable)?;
        self.write_same(&value, to.as_ref())
    }

    /// Does the same as [`transcode`](Self::transcode), and replaces values that the other format does not have by the nearest
    /// ones: bytes become text in base64 (RFC 4648, 4), keys become text, and numbers that JSON does not have become null. The
    /// result reports which of these happened. Two keys that become the same text, and a list or a map as a key, are still
    /// refused.
    pub fn transcode_lossy(
        &self,
        content_type: Option<&str>,
        body: &[u8],
        to: impl AsRef<str>,
    ) -> Result<(Encoded, Losses), TranscodeError> {
        let to = to.as_ref();
        let mut value: Value = self.decode(content_type, body).map_err(TranscodeError::Undecodable)?;
        if let Ok(encoded) = self.write_same(&value, to) {
            return Ok((encoded, Losses::default()));
        }
        let losses = soften(&mut value).ok_or(TranscodeError::Lossy)?;
        Ok((self.write_same(&value, to)?, losses))
    }

    fn write_same(&self, value: &Value, to: &str) -> Result<Encoded, TranscodeError> {
        let encoded = self.encode_as(value, to).map_err(TranscodeError::Unencodable)?;
        let is_same = self.read_written(&encoded).is_some_and(|again| value.is_same(&again));
        if is_same { Ok(encoded) } else { Err(TranscodeError::Lossy) }
    }
}

/// The values that were replaced in a conversion to another format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Bytes that became text in base64.
    pub bytes: usize,
    /// Keys that became text.
    pub keys: usize,
    /// Numbers that were not finite and became null.
    pub numbers: usize,
}

/// The error of a conversion to another format.
#[derive(Debug)]
#[non_exhaustive]
pub enum TranscodeError {
    /// It cannot be read: no codec does, or the one that does needs a Rust type.
    Undecodable(DecodeFailure),
    /// It cannot be written: no codec is that of the ContentType, or the format cannot hold a value.
    Unencodable(EncodeError),
    /// The written body has another value.
    Lossy,
}

impl fmt::Display for TranscodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(error) => fmt::Display::fmt(error, f),
            Self::Unencodable(error) => fmt::Display::fmt(error, f),
            Self::Lossy => f.write_str("the other format cannot represent the body"),
        }
    }
}

impl error::Error for TranscodeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Undecodable(error) => Some(error),
            Self::Unencodable(error) => Some(error),
            Self::Lossy => None,
        }
    }
}
