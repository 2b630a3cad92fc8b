use std::fmt;

use consign_amqp::{codec::DecodeError, message::Section, value::ValueType};
use consign_core::{
    message::{InvalidArgument, limits},
    settlement::{DeadLetter, DeadLetterReason},
};

/// A part of a delivery that is not encoded as its header says. The message is delivered without it.
#[derive(Debug)]
pub(crate) struct Malformed {
    /// The header.
    pub(crate) part: &'static str,
    pub(crate) cause: Cause,
}

impl Malformed {
    /// Returns the dead letter of a message that is not handled without the part.
    pub(crate) fn why(&self) -> DeadLetter {
        let reason = DeadLetterReason::Application("MalformedHeader".into());
        DeadLetter::new(reason, format!("the header {} cannot be decoded: {}", self.part, self.cause))
    }
}

/// Why a part cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Decode(DecodeError),
    /// A section that is not one of a body.
    Section(Section),
    /// A type that a message does not have.
    Type(ValueType),
    Levels,
    /// The header is not a byte array.
    Header,
    /// The header is of another type.
    Expected(&'static str),
    /// The header has a value that a message cannot have.
    Value(InvalidArgument),
}

impl From<InvalidArgument> for Cause {
    fn from(error: InvalidArgument) -> Self {
        Self::Value(error)
    }
}

impl From<DecodeError> for Cause {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(f),
            Self::Section(section) => {
                write!(f, "the payload has the section {}, which is not of a body", section.name())
            }
            Self::Type(found) => write!(f, "a value has the type {found}, which a message does not have"),
            Self::Levels => write!(f, "a value has more than {} levels", limits::VALUE_LEVELS),
            Self::Header => f.write_str("the header is not a byte array"),
            Self::Expected(kind) => write!(f, "the header is not {kind}"),
            Self::Value(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Decode(error) => Some(error),
            Self::Value(error) => Some(error),
            _ => None,
        }
    }
}
