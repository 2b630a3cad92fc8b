use std::{error, fmt};

use consign_core::message::InvalidArgument;

/// Why a request or a response was not read or written. It names a header, a key or a property, and shows no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError {
    kind: MessageErrorKind,
    name: Box<str>,
    source: Option<InvalidArgument>,
}

/// The kind of a [`MessageError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageErrorKind {
    /// A header is not text, occurs twice, or is not JSON where it has to be.
    Header,
    /// The value of a key of `BrokerProperties` has another type or is out of its range.
    BrokerProperty,
    /// The message has a property that is not valid.
    InvalidArgument,
    /// The body of a batch is not what a batch is.
    Batch,
    /// The application property cannot be represented by a header.
    ApplicationProperty,
    /// The body of the message is not bytes, or not text where it has to be.
    Body,
}

impl MessageError {
    pub(super) fn new(kind: MessageErrorKind, name: &str) -> Self {
        let name = name.chars().take(64).flat_map(char::escape_debug).collect::<String>();
        Self { kind, name: name.into(), source: None }
    }

    pub(super) fn header(name: &str) -> Self {
        Self::new(MessageErrorKind::Header, name)
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> MessageErrorKind {
        self.kind
    }
}

impl From<InvalidArgument> for MessageError {
    fn from(source: InvalidArgument) -> Self {
        Self { kind: MessageErrorKind::InvalidArgument, name: "".into(), source: Some(source) }
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match (self.kind, &self.source) {
            (_, Some(source)) => source.fmt(f),
            (MessageErrorKind::Header, _) => write!(f, "the header '{name}' is invalid or occurs twice"),
            (MessageErrorKind::BrokerProperty, _) => write!(f, "the value of '{name}' in BrokerProperties is invalid"),
            (MessageErrorKind::Batch, _) => write!(f, "the batch is invalid: {name}"),
            (MessageErrorKind::ApplicationProperty, _) => {
                write!(f, "the application property '{name}' cannot be represented")
            }
            (MessageErrorKind::Body | MessageErrorKind::InvalidArgument, _) => {
                f.write_str("the body of the message cannot be represented")
            }
        }
    }
}

impl error::Error for MessageError {}
