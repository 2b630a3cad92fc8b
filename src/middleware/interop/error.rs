use std::{error, fmt};

use crate::{
    Disposition, Message,
    codecs::DecodeError,
    content_encoding,
    message::InvalidArgument,
    settlement::{DeadLetterReason, IntoDisposition},
};

/// The error of a message of another library that cannot be read. As a [`Disposition`] it is a dead letter with the reason
/// `DeserializationFailed`, `TTLExpiredException` for [`InteropError::Expired`], or `UnsupportedEncoding` for
/// [`InteropError::ContentEncoding`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InteropError {
    /// The body is an AMQP sequence, or a value that is not bytes, and not an envelope.
    NotBytes,
    /// The body is compressed: the first 64 characters of its content encoding, escaped.
    ContentEncoding(Box<str>),
    /// The body is not JSON, or not an envelope. Lines count from 1, and so do columns; 0 is before the first byte.
    Envelope {
        /// Which member is missing, or that one occurs twice.
        detail: Option<&'static str>,
        /// The line.
        line: usize,
        /// The byte in it.
        column: usize,
    },
    /// The list of types is empty, or its first name is.
    NoType,
    /// A property has to be text and is not.
    NotText(&'static str),
    /// The body is declared to be a .NET binary XML document with the bytes inside, and is not.
    Wrapped(DecodeError),
    /// The message has expired by the time that its sender gave.
    Expired,
    /// A value is more than a message may have.
    Invalid(InvalidArgument),
}

impl InteropError {
    /// Refuses a message whose body is compressed.
    pub(super) fn check_encoding(message: &Message) -> Result<(), Self> {
        match content_encoding::encoding_of(message) {
            Some(encoding) => Err(Self::ContentEncoding(content_encoding::shown(encoding))),
            None => Ok(()),
        }
    }
}

impl fmt::Display for InteropError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBytes => f.write_str("the body is an AMQP value or sequence, and an envelope is expected"),
            Self::ContentEncoding(encoding) => content_encoding::write_refusal(f, encoding),
            Self::Envelope { detail, line, column } => {
                f.write_str("the body is not an envelope")?;
                if let Some(detail) = detail {
                    write!(f, ": {detail}")?;
                }
                write!(f, ", at line {line} column {column}")
            }
            Self::NoType => f.write_str("the envelope names no type"),
            Self::NotText(name) => write!(f, "the property `{name}` is not text"),
            Self::Wrapped(error) => write!(f, "the body is declared as `wcf/byte-array`: {error}"),
            Self::Expired => f.write_str("the message has expired by its sender's expiration time"),
            Self::Invalid(_) => f.write_str("the envelope has a value that is not valid in a message"),
        }
    }
}

impl error::Error for InteropError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            _ => None,
        }
    }
}

impl From<InvalidArgument> for InteropError {
    #[cold]
    fn from(error: InvalidArgument) -> Self {
        Self::Invalid(error)
    }
}

impl IntoDisposition for InteropError {
    #[cold]
    fn into_disposition(self) -> Disposition {
        let reason = match self {
            Self::Expired => DeadLetterReason::TtlExpired,
            Self::ContentEncoding(_) => DeadLetterReason::UnsupportedEncoding,
            _ => DeadLetterReason::DeserializationFailed,
        };
        let mut description = self.to_string();
        if let Self::Invalid(error) = &self {
            description.push_str(": ");
            description.push_str(&error.to_string());
        }
        Disposition::dead_letter(reason, description)
    }
}
