//! From one format to another, without the Rust type.

use std::{error, fmt};

use consign_codecs::{CodecSet, Codecs, EncodeError};

use super::{Run, action::Copies};
use crate::{
    Message,
    decode::encoded,
    message::{MessageBody, Properties},
    settlement::Undecodable,
};

impl<Q, A: Copies> Run<'_, Q, A> {
    /// Writes the body of each copy anew, in the format of `content_type`: it is read by the message's ContentType and the
    /// rules of `codecs`, by a fallback too, and the ContentType becomes the one that is written.
    ///
    /// Nothing is guessed: what was written is read again, and unless it says the same the dead letter stays, with a
    /// [`TranscodeError`]. So bytes do not become JSON, nor do keys that are no text; and nothing comes from or goes to a
    /// positional format, which only a Rust type can read. [`Codecs::transcode`] has the table of what is kept.
    pub fn transcode<C>(self, codecs: Codecs<C>, content_type: impl AsRef<str>) -> Self
    where
        C: CodecSet + Send + Sync + 'static,
    {
        let content_type = content_type.as_ref().to_owned();
        self.edit(move |properties, body| Ok(transcode(&codecs, &content_type, properties, body)?))
    }
}

fn transcode<C: CodecSet>(
    codecs: &Codecs<C>,
    to: &str,
    properties: &mut Properties,
    body: &mut MessageBody,
) -> Result<(), TranscodeError> {
    let message = Message::from_parts(properties.clone(), body.clone());
    let (content_type, bytes) = encoded(&message, codecs).map_err(TranscodeError::Undecodable)?;
    let encoded = codecs.transcode(content_type, bytes, to)?;
    properties.set_content_type(encoded.content_type);
    *body = encoded.body.into();
    Ok(())
}

/// The error of a conversion to another format.
#[derive(Debug)]
#[non_exhaustive]
pub enum TranscodeError {
    /// It cannot be read: no codec does, or the one that does needs a Rust type.
    Undecodable(Undecodable),
    /// It cannot be encoded: there is no codec for the ContentType, or the format cannot represent
    /// it.
    Unencodable(EncodeError),
    /// The written body is not equal to the original.
    Lossy,
}

impl From<consign_codecs::TranscodeError> for TranscodeError {
    fn from(error: consign_codecs::TranscodeError) -> Self {
        match error {
            consign_codecs::TranscodeError::Undecodable(failure) => Self::Undecodable(Undecodable::codecs(failure)),
            consign_codecs::TranscodeError::Unencodable(error) => Self::Unencodable(error),
            _ => Self::Lossy,
        }
    }
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
