use std::{error, fmt};

use crate::{
    Disposition, Message, content_encoding,
    message::InvalidArgument,
    settlement::{DeadLetterReason, IntoDisposition},
    transport::{ErrorKind, SendError},
};

/// The error of a message that is not a CloudEvent, or of an event that cannot be written. As a [`Disposition`] it is a
/// dead letter with the reason `DeserializationFailed`, or `UnsupportedEncoding` for
/// [`CloudEventError::ContentEncoding`]. It holds no values of attributes and no data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudEventError {
    /// The message is not an event.
    NotAnEvent,
    /// The message is a batch, which [`CloudEventBatch`](super::CloudEventBatch) reads.
    Batch,
    /// The event is in a format other than JSON: the first 40 characters of the ContentType, escaped.
    Format(Box<str>),
    /// An event of a batch.
    InBatch {
        /// Its index in the batch, from 0.
        index: usize,
        /// The error of this event.
        error: Box<CloudEventError>,
    },
    /// `specversion` is missing, or not `1.0`.
    Version,
    /// A required attribute is missing or empty.
    Missing(&'static str),
    /// An attribute has a value that it cannot have.
    Invalid(Box<str>),
    /// A name that is not read as that of an attribute: at most 40 characters of it, escaped.
    Name(Box<str>),
    /// A name that the specification does not allow, and that is not written: at most 40 characters of it, escaped.
    WrittenName(Box<str>),
    /// An attribute that occurs twice with different values, or a duplicate member of the JSON.
    Twice(Box<str>),
    /// An event is not a JSON object, or a batch not an array of them. Lines and columns count from 1, for an event of a
    /// batch from where it begins; column 0 is before the first byte.
    Json {
        /// The line.
        line: usize,
        /// The byte in it.
        column: usize,
    },
    /// Both `data` and `data_base64`, invalid base64, or data that is not the text that `datacontenttype` declares.
    Data,
    /// The body is an AMQP sequence, or a value that is not bytes.
    NotBytes,
    /// The body is compressed: the first 64 characters of its content encoding, escaped.
    ContentEncoding(Box<str>),
    /// A rule of the message.
    Message(InvalidArgument),
}

impl CloudEventError {
    #[cold]
    pub(super) fn name(name: &str) -> Self {
        Self::Name(shown(name))
    }

    #[cold]
    pub(super) fn written_name(name: &str) -> Self {
        Self::WrittenName(shown(name))
    }

    #[cold]
    pub(super) fn format(content_type: &str) -> Self {
        Self::Format(shown(content_type))
    }

    /// Refuses a message whose body is compressed.
    pub(super) fn check_encoding(message: &Message) -> Result<(), Self> {
        match content_encoding::encoding_of(message) {
            Some(encoding) => Err(Self::ContentEncoding(content_encoding::shown(encoding))),
            None => Ok(()),
        }
    }

    #[cold]
    pub(super) fn json(error: &serde_json::Error) -> Self {
        Self::Json { line: error.line(), column: error.column() }
    }

    #[cold]
    pub(super) fn in_batch(index: usize, error: Self) -> Self {
        Self::InBatch { index, error: Box::new(error) }
    }

    #[cold]
    pub(super) fn invalid(name: &str) -> Self {
        Self::Invalid(shown(name))
    }

    #[cold]
    pub(super) fn twice(name: &str) -> Self {
        Self::Twice(shown(name))
    }
}

fn shown(name: &str) -> Box<str> {
    name.chars().take(40).flat_map(char::escape_debug).collect()
}

impl fmt::Display for CloudEventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnEvent => f.write_str(
                "the message is not a CloudEvent: expected the ContentType `application/cloudevents+json`, properties with \
                 `specversion`, or a JSON object with it",
            ),
            Self::Batch => f.write_str("the message is a batch of CloudEvents, and one event is expected"),
            Self::Format(content_type) => {
                write!(f, "the CloudEvent is `{content_type}`, and `application/cloudevents+json` is expected")
            }
            Self::InBatch { index, error } => write!(f, "event {index} of the batch: {error}"),
            Self::Version => f.write_str("the `specversion` of the CloudEvent is missing or not `1.0`"),
            Self::Missing(name) => write!(f, "the `{name}` of the CloudEvent is missing or empty"),
            Self::Invalid(name) => write!(f, "the `{name}` of the CloudEvent is invalid"),
            Self::Name(name) => write!(
                f,
                "`{name}` is not the name of an attribute: expected 1 to 128 letters, digits, `_`, `-` and `.`"
            ),
            Self::WrittenName(name) => write!(
                f,
                "`{name}` cannot be written as the name of an attribute: expected 1 to 128 of a to z and 0 to 9"
            ),
            Self::Twice(name) => write!(f, "the CloudEvent has `{name}` twice"),
            Self::Json { line, column } => {
                write!(f, "the CloudEvent is not a JSON object, or the batch not an array: line {line} column {column}")
            }
            Self::Data => f.write_str("the CloudEvent has its data twice, or not of the declared type"),
            Self::NotBytes => f.write_str("the body is an AMQP value or sequence, and bytes were expected"),
            Self::ContentEncoding(encoding) => content_encoding::write_refusal(f, encoding),
            Self::Message(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl error::Error for CloudEventError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Message(error) => Some(error),
            Self::InBatch { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

impl From<InvalidArgument> for CloudEventError {
    fn from(error: InvalidArgument) -> Self {
        Self::Message(error)
    }
}

impl From<CloudEventError> for SendError {
    fn from(error: CloudEventError) -> Self {
        Self::new(ErrorKind::InvalidArgument).with_detail(error.to_string()).with_source(error)
    }
}

impl IntoDisposition for CloudEventError {
    #[cold]
    fn into_disposition(self) -> Disposition {
        let reason = match self {
            Self::ContentEncoding(_) => DeadLetterReason::UnsupportedEncoding,
            _ => DeadLetterReason::DeserializationFailed,
        };
        Disposition::dead_letter(reason, self.to_string())
    }
}
