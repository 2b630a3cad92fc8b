use std::{error, fmt};

use crate::{
    Disposition,
    message::InvalidArgument,
    settlement::{DeadLetterReason, IntoDisposition},
    transport::{ErrorKind, SendError},
};

/// What is no CloudEvent, or not one that can be written. As a [`Disposition`] it is a dead letter with the reason
/// `DeserializationFailed`. It holds no values of attributes and no data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudEventError {
    /// The message says nothing of events.
    NotAnEvent,
    /// A batch of events, which is not read.
    Batch,
    /// `specversion` is missing, or not `1.0`.
    Version,
    /// A required attribute is missing or empty.
    Missing(&'static str),
    /// An attribute has a value that it cannot have.
    Invalid(Box<str>),
    /// A name that no attribute can have: at most 40 characters of it, escaped.
    Name(Box<str>),
    /// `cloudEvents:` and `cloudEvents_` in one message, or a member of the JSON that stands twice.
    Twice(Box<str>),
    /// The body is not a JSON object.
    Json,
    /// Both `data` and `data_base64`, or base64 that is none, or text that is none.
    Data,
    /// The body is an AMQP value or sequence.
    NotBytes,
    /// A rule of the message.
    Message(InvalidArgument),
}

impl CloudEventError {
    #[cold]
    pub(super) fn name(name: &str) -> Self {
        Self::Name(shown(name))
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
            Self::NotAnEvent => f.write_str("the message is no CloudEvent"),
            Self::Batch => f.write_str("a batch of CloudEvents is not read"),
            Self::Version => f.write_str("the CloudEvent has not the specversion 1.0"),
            Self::Missing(name) => write!(f, "the CloudEvent has no `{name}`, or an empty one"),
            Self::Invalid(name) => write!(f, "`{name}` of the CloudEvent has a value that it cannot have"),
            Self::Name(name) => write!(f, "`{name}` is no name of an attribute: 1 to 20 of a to z and 0 to 9"),
            Self::Twice(name) => write!(f, "`{name}` stands twice in the CloudEvent"),
            Self::Json => f.write_str("the CloudEvent is not a JSON object"),
            Self::Data => f.write_str("the data of the CloudEvent is not what its attributes say"),
            Self::NotBytes => f.write_str("the body is an AMQP value or sequence"),
            Self::Message(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl error::Error for CloudEventError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        if let Self::Message(error) = self { Some(error) } else { None }
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
        Disposition::dead_letter(DeadLetterReason::DeserializationFailed, self.to_string())
    }
}
