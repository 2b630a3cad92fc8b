//! From one format to another, without the Rust type.

mod soften;
mod value;

use std::{error, fmt};

#[cfg(feature = "cbor")]
pub(crate) use self::value::EXACT;
use self::{soften::soften, value::Value};
use crate::{CodecSet, Codecs, DecodeFailure, EncodeError, Encoded};

impl<S: CodecSet> Codecs<S> {
    /// Writes a body in the format of the ContentType `to`, of whatever types it is. It is read by `content_type` and the
    /// set's rules, by a fallback too.
    ///
    /// Both formats have to describe themselves, as JSON, MessagePack and CBOR do. What was written is read again, and
    /// unless it says the same the answer is [`TranscodeError::Lossy`]:
    ///
    /// | what | into JSON | into MessagePack | into CBOR |
    /// |---|---|---|---|
    /// | null, truth values, text, lists, maps with keys of text, their order | kept | kept | kept |
    /// | integers from -2^63 to 2^64 - 1, floats of 64 bits | kept | kept | kept |
    /// | floats of 32 bits | as of 64, by the shortest digits that name them | kept | kept |
    /// | bytes | refused, or base64 | kept | kept |
    /// | keys that are no text | refused, or text | kept | kept |
    /// | not a number, infinite | refused, or null | kept | kept |
    ///
    /// The second answer is that of [`transcode_lossy`](Self::transcode_lossy).
    ///
    /// What the reading format says beyond that is lost when it is read, and nothing notices: the digits of a JSON number
    /// that is no integer of 64 bits, beyond those that a float of 64 bits has; how something was spelled, as white space,
    /// escapes, the width of a number, a length that was not said in advance; and CBOR's *undefined*, which is null. A body
    /// with MessagePack's extensions, with CBOR's tags, or with a key of text that stands twice in a map, is not read.
    pub fn transcode(
        &self,
        content_type: Option<&str>,
        body: &[u8],
        to: impl AsRef<str>,
    ) -> Result<Encoded, TranscodeError> {
        let value = self.decode(content_type, body).map_err(TranscodeError::Undecodable)?;
        self.write_same(&value, to.as_ref())
    }

    /// Does as [`transcode`](Self::transcode), and what the other format does not hold becomes what is nearest: bytes
    /// become text in base64 (RFC 4648, 4), keys become text, and numbers that JSON does not have become null. The
    /// answer says which of these happened. Two keys that become the same text, and a list or a map as a key, are refused
    /// still.
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
        // A fallback might read what its own codec does not.
        let again = self.decode_traced::<Value>(Some(encoded.content_type), &encoded.body);
        let is_same = again.is_ok_and(|again| again.attempts.is_empty() && value.is_same(&again.value));
        if is_same { Ok(encoded) } else { Err(TranscodeError::Lossy) }
    }
}

/// What became something else on the way into another format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Bytes that are text in base64 now.
    pub bytes: usize,
    /// Keys that were no text and are now.
    pub keys: usize,
    /// Numbers that were not finite, and are null now.
    pub numbers: usize,
}

/// Why a body was not written in another format.
#[derive(Debug)]
#[non_exhaustive]
pub enum TranscodeError {
    /// It cannot be read: no codec does, or the one that does needs a Rust type.
    Undecodable(DecodeFailure),
    /// It cannot be written: no codec is that of the ContentType, or the format has no room for it.
    Unencodable(EncodeError),
    /// What was written does not say the same.
    Lossy,
}

impl fmt::Display for TranscodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(error) => fmt::Display::fmt(error, f),
            Self::Unencodable(error) => fmt::Display::fmt(error, f),
            Self::Lossy => f.write_str("the other format does not hold all of the body"),
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
